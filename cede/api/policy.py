"""PURE. ClusterPolicy: how the teams share the cluster. There is one object, named `default`."""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from cede.api.crd_schema import ATOMIC, Column, Conditions, Crd, StatusText, keyed, rules
from cede.api.instance_type import LABEL_KEY, InstanceType
from cede.api.objects import POLICIES, Meta
from cede.api.priority_class import PriorityClass, allowed_classes
from cede.api.team_security import ClassName, TeamSecurity

Amount = Annotated[str, StringConstraints(max_length=32)]
# Of one instance type.
MAX_RESOURCES = 16
Amounts = Annotated[dict[str, Amount], Field(max_length=MAX_RESOURCES)]
"""In a status, by resource."""
Level = Annotated[str, StringConstraints(min_length=1, max_length=316, pattern=LABEL_KEY)]


class Preemption(BaseModel):
    """How long jobs may take to release capacity, and which jobs are spared; all in seconds."""

    graceSeconds: int = Field(
        default=60,
        ge=0,
        le=86400,
        description=(
            "Seconds a job may take to save its state before it shrinks or stops, if the job does "
            "not have the annotation cede.dev/grace."
        ),
    )
    maxGraceSeconds: int = Field(
        default=600,
        ge=0,
        le=86400,
        description=(
            "Most seconds that a job may ask for in its annotation cede.dev/grace, and in the "
            "terminationGracePeriodSeconds of its pods. 30, which is Kubernetes' default, is "
            "always allowed there."
        ),
    )
    minRuntimeSeconds: int = Field(
        default=60,
        ge=0,
        le=86400,
        description=(
            "Seconds after its start during which a job is spared. An owner of quota that has "
            "waited for as long takes it back also from these jobs, after all others."
        ),
    )
    growCooldownSeconds: int = Field(
        default=120,
        ge=0,
        le=86400,
        description="Seconds after a shrink during which a job does not grow again.",
    )
    watchdogSeconds: int = Field(
        default=120,
        ge=15,
        le=86400,
        description=(
            "If no scheduler of Cede has finished a pass for this many seconds, the queues get "
            "Kueue's own preemption, which stops whole jobs."
        ),
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.graceSeconds) || !has(self.maxGraceSeconds) "
                "|| self.graceSeconds <= self.maxGraceSeconds",
                "graceSeconds is above maxGraceSeconds: lower it or raise maxGraceSeconds",
            )
        )
    )

    def grace_s(self, requested_s: float) -> float:
        """The grace period of a job that asks for this one; 0.0 if it asks for none."""
        return min(requested_s or self.graceSeconds, self.maxGraceSeconds)


class PolicySpec(BaseModel):
    """How the admin wants the cluster to be shared."""

    mode: Literal["Enforce", "Observe"] = Field(
        default="Enforce",
        description=(
            "Enforce: jobs shrink or stop when the owner of quota needs it. Observe: Cede only "
            "records what it would do, and Kueue preempts by its own rules."
        ),
    )
    priorityClasses: list[PriorityClass] = Field(
        default_factory=list,
        max_length=10,
        json_schema_extra=keyed("name"),
        description="Priority classes that jobs may use, at most 10.",
    )
    defaultPriorityClass: str = Field(
        default="",
        max_length=63,
        description=(
            "Priority class of a job that names none. Must be one of priorityClasses. If empty, "
            "the lowest of them."
        ),
    )
    ordering: Literal["Priority", "FirstCome"] = Field(
        default="Priority",
        description=(
            "Order of waiting jobs. Priority: by weight, then by age. FirstCome: by age only."
        ),
    )
    idleCompute: Literal["FairShare", "FirstCome"] = Field(
        default="FairShare",
        description=(
            "Who borrows idle capacity. FairShare: teams in proportion to their fairShareWeight. "
            "FirstCome: all teams have the same weight."
        ),
    )
    shareUnallocated: bool = Field(
        default=True,
        description="Whether teams may borrow healthy capacity that is in no allocation.",
    )
    instanceTypes: list[InstanceType] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=keyed("name"),
        description="The kinds of nodes of the cluster. Allocations own amounts of them.",
    )
    topology: list[Level] = Field(
        default_factory=list,
        max_length=16,
        json_schema_extra=ATOMIC
        | rules(
            (
                "self.all(level, self.exists_one(other, other == level))",
                "a level is in the list twice: name each node label once",
            ),
            (
                "!self.exists(level, level == 'kubernetes.io/hostname') "
                "|| self[size(self) - 1] == 'kubernetes.io/hostname'",
                "kubernetes.io/hostname is the narrowest level: put it last",
            ),
        ),
        description=(
            "Node labels by which pods of a job are placed close together, from the widest level "
            "to the narrowest, such as a block, a rack, kubernetes.io/hostname. With Kueue's "
            "default feature gates an elastic job loses its placement when it is resized: leave "
            "topology out where jobs are elastic."
        ),
    )
    runtime: Literal["Image", "Inject"] = Field(
        default="Image",
        description=(
            "Where the pods of new elastic jobs without the annotation cede.dev/runtime get the "
            "runtime from. Image: their own image has it. Inject: an init container of Cede's "
            "image brings it."
        ),
    )
    preemption: Preemption = Field(default_factory=Preemption, json_schema_extra={"default": {}})
    security: TeamSecurity = Field(default_factory=TeamSecurity, json_schema_extra={"default": {}})
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.defaultPriorityClass) || self.defaultPriorityClass == '' "
                "|| (has(self.priorityClasses) "
                "&& self.priorityClasses.exists(c, c.name == self.defaultPriorityClass))",
                "defaultPriorityClass is not in priorityClasses: add a class of that name, or "
                "name one of them",
            )
        )
    )

    def allowed_classes(self, highest: str) -> list[str]:
        """The classes up to this one, the highest first; all if it is empty.

        Only the lowest is allowed when `highest` names a class that no longer exists.
        """
        weights = {class_.name: class_.weight for class_ in self.priorityClasses}
        return allowed_classes(weights, highest)


class TypeStatus(BaseModel):
    """The nodes of one instance type, and how much of them is allocated."""

    name: str = Field(max_length=63, description="Name of the instance type.")
    nodes: int = Field(default=0, description="Number of nodes of this type.")
    healthyNodes: int = Field(
        default=0, description="Number of nodes that are Ready, not cordoned and not being deleted."
    )
    largestNode: Amounts = Field(
        default_factory=dict,
        description=(
            "The most of each resource that jobs can use on one node: its allocatable resources "
            "minus the requests of DaemonSets."
        ),
    )
    healthy: Amounts = Field(
        default_factory=dict,
        description="What all healthy nodes offer to jobs together.",
    )
    allocated: Amounts = Field(
        default_factory=dict,
        description=(
            "What all allocations ask for together, whether or not it was granted and the nodes "
            "are healthy."
        ),
    )
    unallocated: Amounts = Field(
        default_factory=dict,
        description="What healthy nodes offer and no allocation is granted.",
    )
    message: StatusText = Field(
        default="",
        description="What is wrong with the nodes of this type, with the cure. Empty if nothing.",
    )


class PolicyStatus(BaseModel):
    """What the quota controller reports about the policy."""

    observedGeneration: int = Field(
        default=0, description="Generation of the spec that this status is about."
    )
    conditions: Conditions = Field(
        default_factory=list,
        description=(
            "Ready: what all teams share is in place. SchedulerLeads: a scheduler of Cede leads. "
            "KueueConfigured: Kueue's settings fit the policy. KubernetesSupported: Cede works "
            "with this version of Kubernetes."
        ),
    )
    preemption: str = Field(
        default="",
        max_length=16,
        description=(
            "Who preempts now. Cede: jobs shrink or stop on request. Kueue: whole jobs are stopped."
        ),
    )
    leader: str = Field(
        default="", max_length=253, description="Identity of the scheduler replica that leads."
    )
    podsReadyTimeoutSeconds: int = Field(
        default=0,
        description=(
            "Seconds after which Kueue evicts a job whose pods did not all get ready; 0 if never, "
            "or if Kueue's settings cannot be read."
        ),
    )
    podsRecoveryTimeoutSeconds: int = Field(
        default=0, description="The same for a job whose pods were all ready once."
    )
    removedPriorityClasses: list[ClassName] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=ATOMIC,
        description="Classes that were taken out of the spec, and stay until no job has them.",
    )
    instanceTypes: list[TypeStatus] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=ATOMIC,
        description="Nodes and allocated capacity of each instance type.",
    )


class ClusterPolicy(BaseModel):
    """How the teams of the cluster share it. There is one ClusterPolicy, named default."""

    CRD: ClassVar[Crd] = Crd(
        kind=POLICIES,
        columns=(
            Column("Mode", ".spec.mode", description="Enforce, or Observe: Cede only records."),
            Column(
                "Preemption", ".status.preemption", description="Who preempts now: Cede or Kueue."
            ),
            Column("Leader", ".status.leader", description="The scheduler replica that leads."),
            Column(
                "Ready",
                '.status.conditions[?(@.type=="Ready")].status',
                description="Whether what all teams share is in place.",
            ),
            Column(
                "Why",
                '.status.conditions[?(@.type=="Ready")].message',
                description="The reason for Ready, with the cure if it is False.",
                priority=1,
            ),
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
