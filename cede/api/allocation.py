"""PURE. ComputeAllocation: the share of the cluster that a team owns, and who the team is."""

from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from cede.api import names
from cede.api.allocation_status import AllocationStatus
from cede.api.budget import Budget
from cede.api.crd_schema import ATOMIC, Column, Crd, keyed, rules
from cede.api.instance_type import DNS_NAME
from cede.api.objects import ALLOCATIONS, Json, Meta, condition
from cede.api.reasons import BudgetReason
from cede.api.team_quota import Sharing, TypeQuota
from cede.api.team_security import CONTROLLER_NAMESPACES, DNS_LABEL

RESERVED_NAMESPACES = (
    *(
        "default",
        "cede-system",
        "cede-guard",
        "cert-manager",
        "gpu-operator",
        "nvidia-gpu-operator",
    ),
    *("argocd", "flux-system", "monitoring", "istio-system", "ingress-nginx", "cattle-system"),
    *("gatekeeper-system", "kyverno", "velero", "vault", "external-secrets", "calico-system"),
    *("tigera-operator", "cilium", "longhorn-system", "rook-ceph", "metallb-system"),
    *sorted(set(CONTROLLER_NAMESPACES) - {"kube-system"}),
)
"""Members may run jobs with every service account of their namespace: these would be rights over
the cluster, or those of a controller, which no quota binds. `kube-…` and `openshift-…` are reserved
too. No list is complete."""
RESERVED_PREFIXES = ("kube-", "openshift-")


def _is_listed(namespaces: Iterable[str], field: str) -> str:
    """CEL: whether this field is one of these namespaces, or begins as a reserved one."""
    listed = ", ".join(f"'{namespace}'" for namespace in namespaces)
    prefixes = (f"{field}.startsWith('{prefix}')" for prefix in RESERVED_PREFIXES)
    return " || ".join([f"{field} in [{listed}]", *prefixes])


def is_reserved(namespace: str) -> bool:
    """Whether no allocation may have this namespace, whatever the policy says."""
    return namespace in RESERVED_NAMESPACES or namespace.startswith(RESERVED_PREFIXES)


class NamespaceRef(BaseModel):
    """The namespace in which the team's jobs run."""

    name: str = Field(
        min_length=1, max_length=63, pattern=DNS_LABEL, description="Name of the namespace."
    )
    adopt: bool = Field(
        default=False,
        description=(
            "True: use a namespace that exists; Cede only adds its own labels and objects. "
            "False: Cede creates the namespace, and reports a conflict if it exists."
        ),
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"!({_is_listed(RESERVED_NAMESPACES, 'self.name')})",
                "this namespace belongs to the cluster: give the team one of its own",
            )
        )
    )


class Member(BaseModel):
    """Who may submit, see and cancel jobs in the team's namespace."""

    kind: Literal["User", "Group", "ServiceAccount"] = Field(
        description="Kind of the subject that the name belongs to."
    )
    name: str = Field(
        min_length=1,
        max_length=253,
        description="Name of the user, group or service account, as authentication reports it.",
    )
    namespace: str = Field(
        default="",
        max_length=63,
        pattern=rf"^$|{DNS_LABEL}",
        description="Namespace of a ServiceAccount. If empty, the team's namespace.",
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"self.kind != 'ServiceAccount' || self.name.matches('{DNS_NAME}')",
                "this is not the name of a ServiceAccount: write it like trainer, and its "
                "namespace in the field namespace",
            )
        )
    )


class AllocationSpec(BaseModel):
    """What the team owns and what its jobs may do, as the admin decides."""

    team: str = Field(
        default="",
        max_length=63,
        pattern=rf"^$|{DNS_LABEL}",
        description="Name of the team. If empty, the name of this object.",
    )
    namespace: NamespaceRef | None = Field(
        default=None,
        description=(
            "Namespace in which the team's jobs run. If left out, the one that the allocation has "
            "already, else a new one with the name of the team."
        ),
    )
    quotas: list[TypeQuota] = Field(
        default_factory=list,
        max_length=15,
        json_schema_extra=keyed("instanceType"),
        description=(
            "What the team owns, by instance type, at most 15 types. A type may have no nodes yet."
        ),
    )
    sharing: Sharing = Field(default_factory=Sharing, json_schema_extra={"default": {}})
    budget: Budget | None = Field(
        default=None,
        description=(
            "Accelerator-hours that the team's jobs may use in a month. It needs the ledger, which "
            "counts them. Without it there is no budget."
        ),
    )
    fairShareWeight: int = Field(
        default=50,
        ge=0,
        le=100,
        description=(
            "Weight of the team, 0 to 100, when several teams borrow idle capacity. Used if the "
            "policy has idleCompute: FairShare."
        ),
    )
    preemptOwnTasks: Literal["LowerPriority", "Never"] = Field(
        default="LowerPriority",
        description=(
            "LowerPriority: the team's jobs may preempt its own jobs of lower priority. Never: "
            "they wait."
        ),
    )
    maxPriorityClass: str = Field(
        default="",
        max_length=63,
        description="Highest priority class that the team's jobs may use. If empty, any class.",
    )
    members: list[Member] = Field(
        default_factory=list,
        max_length=100,
        json_schema_extra=ATOMIC,
        description="Who may submit, see and cancel jobs of the team.",
    )
    active: bool = Field(
        default=True,
        description="False: no new job is admitted; running jobs continue.",
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.__namespace__) || !has(self.team) "
                f"|| !({_is_listed(RESERVED_NAMESPACES, 'self.team')})",
                "a namespace with the name of the team belongs to the cluster: name another by "
                "namespace.name",
            )
        )
    )


class ComputeAllocation(BaseModel):
    """What a team owns of the cluster, and how it lends and borrows."""

    CRD: ClassVar[Crd] = Crd(
        kind=ALLOCATIONS,
        short_names=("ca",),
        columns=(
            Column("Team", ".status.team", description="Name of the team."),
            Column(
                "Namespace",
                ".status.namespace",
                description="Namespace in which the team's jobs run.",
                priority=1,
            ),
            Column("Queue", ".status.clusterQueue", description="The team's ClusterQueue."),
            Column("Owns", ".status.owns", description="Accelerators that the team owns."),
            Column("Used", ".status.used", description="Accelerators that the team's jobs use."),
            Column(
                "Lent",
                ".status.lent",
                description="Accelerators of this team that jobs of other teams use.",
            ),
            Column(
                "Borrowed",
                ".status.borrowed",
                description="Accelerators that the team's jobs use beyond its own quota.",
            ),
            Column(
                "Waiting",
                ".status.waiting",
                "integer",
                description="Number of workloads that wait in the queue.",
            ),
            Column(
                "Ready",
                '.status.conditions[?(@.type=="Ready")].status',
                description="Whether the team's queue admits work as the spec says.",
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
                "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') "
                "&& size(self.metadata.name) <= 63",
                "the queue and labels get the same name: use at most 63 letters a-z, digits and "
                "hyphens",
            ),
        ),
        # one of before may have such a name: the quota_controller refuses its namespace
        creation_rules=(
            (
                f"!({_is_listed(RESERVED_NAMESPACES, 'self.metadata.name')})",
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
        """The namespace in which the team's jobs run, as the quota_controller reports it."""
        return self.status.namespace or self.wanted_namespace

    @property
    def wanted_namespace(self) -> str:
        """The namespace in which they shall run. The team moves when no job holds quota in another.

        It is the one of the spec, else the one of the status, so that renaming a team moves no job,
        else one with the name of the team.
        """
        if self.spec.namespace:
            return self.spec.namespace.name
        return self.status.namespace or self.team

    @property
    def used_budget(self) -> Json | None:
        """The condition that the hard budget of the month is used; None if it is not."""
        budget = condition(self.status.conditions, names.WITHIN_BUDGET)
        is_used = budget is not None and budget.get("reason") == BudgetReason.HARD_BUDGET_USED
        return budget if is_used else None
