"""ClusterPolicy: how the cluster is shared. One object, named `default`."""

from typing import Literal

from pydantic import BaseModel, Field

from cede.api.objects import Json, Meta


class PriorityClass(BaseModel):
    name: str
    weight: int = Field(ge=0, le=100)


class InstanceType(BaseModel):
    name: str
    nodeLabels: dict[str, str] = Field(default_factory=dict)
    accelerator: str = "nvidia.com/gpu"
    accelerators: int = Field(default=0, ge=0)
    cpu: str = "0"
    memory: str = "0"


class TakeBack(BaseModel):
    graceSeconds: int = 60
    maxGraceSeconds: int = 600
    minRuntimeSeconds: int = 60
    growSnoozeSeconds: int = 120
    watchdogSeconds: int = 120


class PolicySpec(BaseModel):
    mode: Literal["Enforce", "Observe"] = "Enforce"
    priorityClasses: list[PriorityClass] = Field(default_factory=list)
    defaultPriorityClass: str = ""
    ordering: Literal["Priority", "FirstCome"] = "Priority"
    idleCompute: Literal["FairShare", "FirstCome"] = "FairShare"
    shareUnallocated: bool = True
    instanceTypes: list[InstanceType] = Field(default_factory=list)
    takeBack: TakeBack = Field(default_factory=TakeBack)


class PolicyStatus(BaseModel):
    observedGeneration: int = 0
    conditions: list[Json] = Field(default_factory=list)


class ClusterPolicy(BaseModel):
    metadata: Meta = Field(default_factory=Meta)
    spec: PolicySpec = Field(default_factory=PolicySpec)
    status: PolicyStatus = Field(default_factory=PolicyStatus)
