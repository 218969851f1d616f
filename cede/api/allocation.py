"""ComputeAllocation: what a team owns, lends and borrows."""

from typing import Literal

from pydantic import BaseModel, Field

from cede.api.objects import Json, Meta


class NamespaceRef(BaseModel):
    name: str
    adopt: bool = False


class TypeQuota(BaseModel):
    instanceType: str
    count: int | None = None  # whole nodes
    accelerators: int | None = None
    cpu: str | None = None
    memory: str | None = None


class Sharing(BaseModel):
    strategy: Literal["LendAndBorrow", "Lend", "DontLend"] = "LendAndBorrow"
    borrowLimitPercent: int | None = None
    borrowLimits: list[TypeQuota] = Field(default_factory=list)


class Member(BaseModel):
    kind: Literal["User", "Group", "ServiceAccount"]
    name: str
    namespace: str = ""


class AllocationSpec(BaseModel):
    team: str = ""
    namespace: NamespaceRef | None = None
    quotas: list[TypeQuota] = Field(default_factory=list)
    sharing: Sharing = Field(default_factory=Sharing)
    fairShareWeight: int = 50
    preemptOwnTasks: Literal["LowerPriority", "Never"] = "LowerPriority"
    maxPriorityClass: str = ""
    members: list[Member] = Field(default_factory=list)
    active: bool = True


class AllocationStatus(BaseModel):
    observedGeneration: int = 0
    conditions: list[Json] = Field(default_factory=list)
    namespace: str = ""
    clusterQueue: str = ""
    localQueue: str = ""
    quotas: list[Json] = Field(default_factory=list)


class ComputeAllocation(BaseModel):
    metadata: Meta = Field(default_factory=Meta)
    spec: AllocationSpec
    status: AllocationStatus = Field(default_factory=AllocationStatus)

    @property
    def team(self) -> str:
        return self.spec.team or self.metadata.name

    @property
    def namespace(self) -> str:
        return self.spec.namespace.name if self.spec.namespace else self.team
