"""ComputeAllocation: what a team owns, lends and borrows."""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from cede.api.crd_schema import ATOMIC, Column, Conditions, Crd, Quantity, keyed, rules
from cede.api.objects import ALLOCATIONS, Meta
from cede.api.policy import DNS_NAME, NAMED_AS_RESOURCES, Amount, Partitions

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_RESERVED = "{0} in ['default', 'cede-system', 'kueue-system'] || {0}.startsWith('kube-')"
_AMOUNTS = "(has(self.accelerators) || has(self.partitions) || has(self.cpu) || has(self.memory))"


class NamespaceRef(BaseModel):
    """The namespace the team's jobs run in."""

    name: str = Field(min_length=1, max_length=63, pattern=DNS_LABEL, description="Its name.")
    adopt: bool = Field(
        default=False,
        description=(
            "True: use a namespace that exists; only labels and objects of ours are "
            "added. False: it is created."
        ),
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"!({_RESERVED.format('self.name')})",
                "this namespace belongs to the cluster: give the team one of its own",
            )
        )
    )


class TypeQuota(BaseModel):
    """An amount of one instance type: whole nodes, or single resources."""

    instanceType: str = Field(
        min_length=1,
        max_length=63,
        pattern=DNS_NAME,
        description="A type that the ClusterPolicy names.",
    )
    count: int | None = Field(
        default=None, ge=0, le=100_000, description="Whole nodes, in what jobs can have of them."
    )
    accelerators: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="Single accelerators; CPU and memory follow by ratio.",
    )
    partitions: Partitions | None = Field(
        default=None,
        max_length=8,
        json_schema_extra=rules(NAMED_AS_RESOURCES),
        description=(
            "Partitions of accelerators by resource name; CPU and memory follow by compute slices."
        ),
    )
    cpu: Quantity | None = Field(
        default=None, description="CPU; when left out, it follows by ratio."
    )
    memory: Quantity | None = Field(
        default=None, description="Memory; when left out, it follows by ratio."
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"has(self.count) != {_AMOUNTS}",
                (
                    "give whole nodes by count, or amounts by accelerators, partitions, cpu, "
                    "memory: "
                    "one of the two"
                ),
            )
        )
    )


class Sharing(BaseModel):
    """What is given to others while idle, and taken from them."""

    strategy: Literal["LendAndBorrow", "Lend", "DontLend"] = Field(
        default="LendAndBorrow", description="Lend: lends and does not borrow. DontLend: neither."
    )
    borrowLimitPercent: int | None = Field(
        default=None,
        ge=0,
        le=10_000,
        description=(
            "The most it may borrow of a type and resource, in percent of what it owns of it."
        ),
    )
    borrowLimits: list[TypeQuota] = Field(
        default_factory=list,
        max_length=15,
        json_schema_extra=keyed("instanceType"),
        description=(
            "The most it may borrow, by instance type; a type that is not listed is not borrowed."
        ),
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                (
                    "!has(self.borrowLimitPercent) || !has(self.borrowLimits) || "
                    "size(self.borrowLimits) == 0"
                ),
                "give borrowLimitPercent or borrowLimits: one of the two",
            ),
            (
                "!has(self.strategy) || self.strategy == 'LendAndBorrow' "
                "|| (!has(self.borrowLimitPercent) && (!has(self.borrowLimits) || "
                "size(self.borrowLimits) == 0))",
                "a borrow limit needs strategy LendAndBorrow: set that, or remove the limit",
            ),
        )
    )


class Member(BaseModel):
    """Who may submit, see and cancel jobs in the namespace."""

    kind: Literal["User", "Group", "ServiceAccount"] = Field(
        description="What the name stands for."
    )
    name: str = Field(
        min_length=1, max_length=253, description="As the cluster's authentication spells it."
    )
    namespace: str = Field(
        default="",
        max_length=63,
        pattern=rf"^$|{DNS_LABEL}",
        description="Of a ServiceAccount; empty for the team's namespace.",
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"self.kind != 'ServiceAccount' || self.name.matches('{DNS_NAME}')",
                (
                    "this is no name of a ServiceAccount: write it like trainer, and its namespace "
                    "beside it"
                ),
            )
        )
    )


class AllocationSpec(BaseModel):
    """What the admin wants."""

    team: str = Field(
        default="",
        max_length=63,
        pattern=rf"^$|{DNS_LABEL}",
        description="The team; empty for the name of this object.",
    )
    namespace: NamespaceRef | None = Field(
        default=None, description="Left out: the one it has, or a new one named as the team."
    )
    quotas: list[TypeQuota] = Field(
        default_factory=list,
        max_length=15,
        json_schema_extra=keyed("instanceType"),
        description=(
            "What the team owns, by instance type; at most 15. A type that no node has "
            "yet is shown as promised."
        ),
    )
    sharing: Sharing = Field(default_factory=Sharing, json_schema_extra={"default": {}})
    fairShareWeight: int = Field(
        default=50,
        ge=0,
        le=100,
        description="0 to 100; the team's share of idle capacity against others.",
    )
    preemptOwnTasks: Literal["LowerPriority", "Never"] = Field(
        default="LowerPriority",
        description="Whether the team's important jobs may take from its less important ones.",
    )
    maxPriorityClass: str = Field(
        default="", max_length=63, description="The highest class its jobs may use; empty: any."
    )
    members: list[Member] = Field(
        default_factory=list,
        max_length=100,
        json_schema_extra=ATOMIC,
        description="Who may submit, see and cancel its jobs.",
    )
    active: bool = Field(
        default=True, description="False: nothing new is admitted; what runs goes on to its end."
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"has(self.__namespace__) || !has(self.team) || !({_RESERVED.format('self.team')})",
                (
                    "a namespace of the team's name belongs to the cluster: name another by "
                    "namespace.name"
                ),
            )
        )
    )


class QuotaStatus(BaseModel):
    """One instance type: amounts by resource."""

    instanceType: str = Field(max_length=63, description="The instance type.")
    nominal: dict[str, Amount] = Field(
        default_factory=dict, max_length=16, description="What the team owns."
    )
    healthy: dict[str, Amount] = Field(
        default_factory=dict,
        max_length=16,
        description="What of it is there: the queue's quota now.",
    )
    used: dict[str, Amount] = Field(
        default_factory=dict, max_length=16, description="What its jobs hold, owned or borrowed."
    )
    borrowed: dict[str, Amount] = Field(
        default_factory=dict, max_length=16, description="What its jobs hold beyond the quota."
    )
    lent: dict[str, Amount] = Field(
        default_factory=dict, max_length=16, description="What others hold of its quota."
    )
    free: dict[str, Amount] = Field(
        default_factory=dict,
        max_length=16,
        description=(
            "What its next job could have now, of its own and borrowed; said while work waits."
        ),
    )
    promised: bool = Field(
        default=False, description="No node of this type exists yet; the amounts are the policy's."
    )


class AllocationStatus(BaseModel):
    """What holds now."""

    observedGeneration: int = Field(
        default=0, description="The generation of the spec this was said of."
    )
    conditions: Conditions = Field(
        default_factory=list,
        description=(
            "Ready: whether all that is said is in place, or what to do. Admits: whether "
            "work waits, and why."
        ),
    )
    team: str = Field(default="", max_length=63, description="The team.")
    namespace: str = Field(default="", max_length=63, description="The team's namespace.")
    clusterQueue: str = Field(default="", max_length=253, description="Its ClusterQueue.")
    localQueue: str = Field(
        default="", max_length=253, description="The LocalQueue in its namespace."
    )
    waiting: int = Field(default=0, description="Workloads that wait in its queue.")
    owns: str = Field(default="", max_length=1024, description="Its accelerators, in words.")
    used: str = Field(
        default="", max_length=1024, description="Accelerators its jobs hold, in words."
    )
    lent: str = Field(
        default="", max_length=1024, description="Accelerators others hold of its own, in words."
    )
    borrowed: str = Field(
        default="", max_length=1024, description="Accelerators its jobs hold of others', in words."
    )
    quotas: list[QuotaStatus] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=keyed("instanceType"),
        description="The same by type and resource.",
    )


class ComputeAllocation(BaseModel):
    """What a team owns of the cluster, what it lends and what it may borrow."""

    CRD: ClassVar[Crd] = Crd(
        kind=ALLOCATIONS,
        short_names=("ca",),
        columns=(
            Column("Team", ".status.team", description="The team."),
            Column("Namespace", ".status.namespace", description="Where its jobs run.", priority=1),
            Column("Queue", ".status.clusterQueue", description="Its ClusterQueue."),
            Column("Owns", ".status.owns", description="Accelerators the team owns."),
            Column(
                "Used", ".status.used", description="Accelerators its jobs hold, owned or borrowed."
            ),
            Column("Lent", ".status.lent", description="Accelerators others hold of its own."),
            Column(
                "Borrowed",
                ".status.borrowed",
                description="Accelerators its jobs hold beyond its own.",
            ),
            Column(
                "Waiting",
                ".status.waiting",
                "integer",
                description="Workloads that wait in its queue.",
            ),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Why", '.status.conditions[?(@.type=="Ready")].message', priority=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        rules=(
            (
                (
                    "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && "
                    "size(self.metadata.name) <= 63"
                ),
                (
                    "the name becomes a queue's and a label's: at most 63 letters a-z, digits and "
                    "hyphens"
                ),
            ),
            (
                f"!({_RESERVED.format('self.metadata.name')})",
                "this name belongs to the cluster: name the allocation after its team",
            ),
        ),
    )

    metadata: Meta = Field(default_factory=Meta)
    spec: AllocationSpec
    status: AllocationStatus = Field(default_factory=AllocationStatus)

    @property
    def team(self) -> str:
        return self.spec.team or self.metadata.name

    @property
    def namespace(self) -> str:
        """Where its jobs run: as said; else where they run already, so that renaming a team moves
        nothing; else named as the team."""
        return (
            self.spec.namespace.name if self.spec.namespace else self.status.namespace or self.team
        )
