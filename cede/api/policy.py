"""ClusterPolicy: how the cluster is shared. One object, named `default`."""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from cede.api.crd_schema import ATOMIC, Column, Conditions, Crd, Quantity, keyed, rules
from cede.api.names import GPU
from cede.api.objects import POLICIES, Meta

DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
RESOURCE_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
LABEL_KEY = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
LabelValue = Annotated[
    str, StringConstraints(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
]
Amount = Annotated[str, StringConstraints(max_length=32)]
Partitions = dict[str, Annotated[int, Field(ge=0, le=1_000_000)]]
"""Counts by resource name of an accelerator's partitions, as the device plugin calls them:
`nvidia.com/mig-1g.10gb`."""
NAMED_AS_LABELS = (
    f"self.all(key, key.matches('{LABEL_KEY}'))",
    "this is no name of a label: write it like node.kubernetes.io/instance-type",
)
NAMED_AS_RESOURCES = (
    "self.all(name, name.matches('^[a-z0-9.-]+/[A-Za-z0-9._-]+$') && size(name) <= 253)",
    "a partition is named as nodes offer it, with a slash: write it like nvidia.com/mig-1g.10gb",
)


class PriorityClass(BaseModel):
    """A class of work; a job names it in the label kueue.x-k8s.io/priority-class."""

    name: str = Field(min_length=1, max_length=63, pattern=DNS_NAME, description="What jobs write.")
    weight: int = Field(
        ge=0,
        le=100,
        description="0 to 100; work of a higher weight goes first and may take back from lower.",
    )


class InstanceType(BaseModel):
    """A kind of node, and what a whole one holds. Live nodes are believed before these figures."""

    name: str = Field(
        min_length=1,
        max_length=63,
        pattern=DNS_NAME,
        description="What allocations call it; Kueue's ResourceFlavor.",
    )
    nodeLabels: dict[str, LabelValue] = Field(
        default_factory=dict,
        max_length=8,
        json_schema_extra=rules(NAMED_AS_LABELS),
        description=(
            "Labels of the nodes of this type. Empty: node.kubernetes.io/instance-type "
            "equal to the name."
        ),
    )
    accelerator: str = Field(
        default=GPU,
        max_length=253,
        pattern=RESOURCE_NAME,
        description="The resource name of its accelerators.",
    )
    accelerators: int = Field(
        default=0, ge=0, le=1024, description="Accelerators of one node, until a live node says it."
    )
    partitions: Partitions = Field(
        default_factory=dict,
        max_length=8,
        json_schema_extra=rules(NAMED_AS_RESOURCES),
        description=(
            "Partitions of accelerators on one node by resource name, like "
            "nvidia.com/mig-1g.10gb: 28."
        ),
    )
    cpu: Quantity = Field(
        default="0", description="Allocatable CPU of one node, like 190, until a live node says it."
    )
    memory: Quantity = Field(
        default="0",
        description="Allocatable memory of one node, like 1900Gi, until a live node says it.",
    )

    @property
    def selector(self) -> dict[str, str]:
        """The labels that make a node one of this type."""
        return self.nodeLabels or {INSTANCE_TYPE_LABEL: self.name}


class Preemption(BaseModel):
    """How running work is asked to give back, and how long each step may take."""

    graceSeconds: int = Field(
        default=60,
        ge=0,
        le=86400,
        description="How long a save may take when the job does not say.",
    )
    maxGraceSeconds: int = Field(
        default=600, ge=0, le=86400, description="The longest grace a job may ask for."
    )
    minRuntimeSeconds: int = Field(
        default=60, ge=0, le=86400, description="Nothing is taken from a job younger than this."
    )
    growCooldownSeconds: int = Field(
        default=120,
        ge=0,
        le=86400,
        description="A job that shrank does not grow again for so long.",
    )
    watchdogSeconds: int = Field(
        default=120,
        ge=15,
        le=86400,
        description="With no leading scheduler for so long, the queues get Kueue's own preemption.",
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                (
                    "!has(self.graceSeconds) || !has(self.maxGraceSeconds) || self.graceSeconds <= "
                    "self.maxGraceSeconds"
                ),
                "graceSeconds is above maxGraceSeconds: lower it or raise maxGraceSeconds",
            )
        )
    )


class PolicySpec(BaseModel):
    """What the admin wants."""

    mode: Literal["Enforce", "Observe"] = Field(
        default="Enforce",
        description=(
            "Enforce: jobs cede. Observe: take-backs are planned and recorded; the queues "
            "keep Kueue's preemption."
        ),
    )
    priorityClasses: list[PriorityClass] = Field(
        default_factory=list,
        max_length=10,
        json_schema_extra=keyed("name"),
        description="At most 10.",
    )
    defaultPriorityClass: str = Field(
        default="", max_length=63, description="The class of a job that names none."
    )
    ordering: Literal["Priority", "FirstCome"] = Field(
        default="Priority",
        description="Priority: by weight, then age. FirstCome: by age; all classes weigh the same.",
    )
    idleCompute: Literal["FairShare", "FirstCome"] = Field(
        default="FairShare",
        description=(
            "FairShare: idle capacity goes by the allocations' fairShareWeight. "
            "FirstCome: all weigh the same."
        ),
    )
    shareUnallocated: bool = Field(
        default=True,
        description="Whether healthy capacity that is in no allocation may be borrowed.",
    )
    instanceTypes: list[InstanceType] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=keyed("name"),
        description="The kinds of node quota is given in.",
    )
    topology: list[
        Annotated[str, StringConstraints(min_length=1, max_length=316, pattern=LABEL_KEY)]
    ] = Field(
        default_factory=list,
        max_length=16,
        json_schema_extra=ATOMIC
        | rules(
            (
                "self.all(level, self.exists_one(other, other == level))",
                "a level stands twice: name each node label once",
            ),
            (
                (
                    "!self.exists(level, level == 'kubernetes.io/hostname') || self[size(self) - "
                    "1] "
                    "== 'kubernetes.io/hostname'"
                ),
                "kubernetes.io/hostname is the narrowest there is: put it last",
            ),
        ),
        description="Node labels from the widest level to the narrowest, like a block, a rack, "
        "kubernetes.io/hostname. Kueue's default "
        "gates do not carry an elastic job's placement over from size to size: leave it out where "
        "jobs are elastic.",
    )
    preemption: Preemption = Field(default_factory=Preemption, json_schema_extra={"default": {}})
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.defaultPriorityClass) || self.defaultPriorityClass == '' "
                "|| (has(self.priorityClasses) && self.priorityClasses.exists(c, c.name == "
                "self.defaultPriorityClass))",
                (
                    "defaultPriorityClass is not in priorityClasses: add a class of that name, or "
                    "name one of them"
                ),
            )
        )
    )


class TypeStatus(BaseModel):
    """What there is of an instance type."""

    name: str = Field(max_length=63, description="The instance type.")
    nodes: int = Field(default=0, description="Nodes of this type.")
    healthyNodes: int = Field(default=0, description="Those that are Ready and not cordoned.")
    whole: dict[str, Amount] = Field(
        default_factory=dict, max_length=16, description="What jobs can have of the largest node."
    )
    healthy: dict[str, Amount] = Field(
        default_factory=dict, max_length=16, description="What the healthy nodes hold together."
    )
    allocated: dict[str, Amount] = Field(
        default_factory=dict, max_length=16, description="What allocations own of it on paper."
    )
    unallocated: dict[str, Amount] = Field(
        default_factory=dict, max_length=16, description="Healthy and in no allocation."
    )
    message: str = Field(default="", max_length=1024, description="What is off, in a sentence.")


class PolicyStatus(BaseModel):
    """What holds now."""

    observedGeneration: int = Field(
        default=0, description="The generation of the spec this was said of."
    )
    conditions: Conditions = Field(
        default_factory=list, description="Ready, SchedulerLeads, KueueConfigured."
    )
    preemption: str = Field(
        default="", max_length=16, description="Who takes capacity back: Cede, or Kueue by killing."
    )
    leader: str = Field(default="", max_length=253, description="The scheduler that leads.")
    instanceTypes: list[TypeStatus] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=ATOMIC,
        description="Each type: what there is, what is given away.",
    )


class ClusterPolicy(BaseModel):
    """How the teams of one cluster share it. There is one, named default."""

    CRD: ClassVar[Crd] = Crd(
        kind=POLICIES,
        columns=(
            Column("Mode", ".spec.mode"),
            Column(
                "Preemption",
                ".status.preemption",
                description="Who takes capacity back: Cede, or Kueue by killing.",
            ),
            Column("Leader", ".status.leader", description="The scheduler that leads."),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Why", '.status.conditions[?(@.type=="Ready")].message', priority=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        rules=(
            (
                "self.metadata.name == 'default'",
                "there is one ClusterPolicy, and it is named default: change that one",
            ),
        ),
    )

    metadata: Meta = Field(default_factory=Meta)
    spec: PolicySpec = Field(default_factory=PolicySpec, json_schema_extra={"default": {}})
    status: PolicyStatus = Field(default_factory=PolicyStatus)
