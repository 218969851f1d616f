"""PURE. The status of a ComputeAllocation: what the team's jobs use, borrow and lend now."""

from pydantic import BaseModel, Field

from cede.api.crd_schema import Conditions, StatusText, keyed
from cede.api.policy import Amounts


class QuotaStatus(BaseModel):
    """The team's quota of one instance type, by resource."""

    instanceType: str = Field(max_length=63, description="Name of the instance type.")
    nominal: Amounts = Field(default_factory=dict, description="What the team owns by its spec.")
    granted: Amounts = Field(
        default_factory=dict,
        description=(
            "The part of nominal that the nodes had room for. No other allocation can take it, and "
            "it stays the team's while nodes are down."
        ),
    )
    grantedOf: Amounts = Field(
        default_factory=dict,
        description=(
            "What the team owned when that was granted. If a node is worth more or less now, the "
            "team has the same part of what it owns."
        ),
    )
    grantedFor: str = Field(
        default="",
        max_length=4096,
        description="The entry of spec.quotas that was granted, as JSON, to compare edits with.",
    )
    healthy: Amounts = Field(
        default_factory=dict,
        description=(
            "The quota that the team's queue has now. It is less than granted while healthy nodes "
            "hold less than is granted."
        ),
    )
    used: Amounts = Field(default_factory=dict, description="What the team's jobs use.")
    borrowed: Amounts = Field(
        default_factory=dict,
        description="What the team's jobs use beyond its own quota.",
    )
    lent: Amounts = Field(
        default_factory=dict,
        description="What jobs of other teams use of this team's quota.",
    )
    free: Amounts = Field(
        default_factory=dict,
        description=(
            "What the team's next job could use now, with what it may borrow. Only reported while "
            "work waits."
        ),
    )
    noNodesYet: bool = Field(
        default=False,
        description=(
            "True if no node of this type exists yet; the amounts are then those of the policy."
        ),
    )


class AllocationStatus(BaseModel):
    """What the quota controller reports about the team's queue and its jobs."""

    observedGeneration: int = Field(
        default=0, description="Generation of the spec that this status is about."
    )
    conditions: Conditions = Field(
        default_factory=list,
        description=(
            "Ready: the queue admits work as the spec says; if not, what to do. Admits: False "
            "while work waits, with what the next job could use. WithinBudget, if there is a "
            "budget: False when it is used, Unknown while the ledger's figure is missing or old."
        ),
    )
    team: str = Field(default="", max_length=63, description="Name of the team.")
    namespace: str = Field(
        default="", max_length=63, description="Namespace in which the team's jobs run."
    )
    clusterQueue: str = Field(
        default="", max_length=253, description="Name of the team's ClusterQueue."
    )
    localQueue: str = Field(
        default="", max_length=253, description="Name of the LocalQueue in the team's namespace."
    )
    waiting: int = Field(default=0, description="Number of workloads that wait in the queue.")
    owns: StatusText = Field(
        default="", description="Accelerators that the team owns, such as 8 gpu."
    )
    used: StatusText = Field(default="", description="Accelerators that the team's jobs use.")
    lent: StatusText = Field(
        default="", description="Accelerators of this team that jobs of other teams use."
    )
    borrowed: StatusText = Field(
        default="", description="Accelerators that the team's jobs use beyond its own quota."
    )
    budgetUsedHours: dict[str, int] = Field(
        default_factory=dict,
        max_length=1,
        description=(
            "By month (UTC): hours of the budget that are known to be used, once the soft or the "
            "hard one is. They count also if the ledger's note is lost, or has less."
        ),
    )
    quotas: list[QuotaStatus] = Field(
        default_factory=list,
        max_length=64,
        json_schema_extra=keyed("instanceType"),
        description="What the team owns, uses, lends and borrows, by type and resource.",
    )
