"""PURE. What a team owns, and how it lends and borrows."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from cede.api.crd_schema import Quantity, keyed, rules
from cede.api.instance_type import DNS_NAME, KEYS_ARE_RESOURCES, Partitions

_HAS_AMOUNTS = (
    "(has(self.accelerators) || has(self.partitions) || has(self.cpu) || has(self.memory))"
)


class TypeQuota(BaseModel):
    """An amount of one instance type, given as whole nodes or as single resources."""

    instanceType: str = Field(
        min_length=1,
        max_length=63,
        pattern=DNS_NAME,
        description="Name of an instance type of the ClusterPolicy.",
    )
    count: int | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description=(
            "Number of whole nodes. A node counts with its allocatable resources minus the "
            "requests of DaemonSets. Excludes the other amounts."
        ),
    )
    accelerators: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description=(
            "Number of single accelerators. CPU and memory that are left out follow in proportion "
            "to a whole node."
        ),
    )
    partitions: Partitions | None = Field(
        default=None,
        max_length=8,
        json_schema_extra=rules(KEYS_ARE_RESOURCES),
        description=(
            "Number of accelerator partitions by resource name, such as nvidia.com/mig-1g.10gb: 7. "
            "CPU and memory that are left out follow in proportion to their compute slices."
        ),
    )
    cpu: Quantity | None = Field(
        default=None,
        description=(
            "CPU, such as 96. If left out, it follows the accelerators or the memory in proportion "
            "to a whole node."
        ),
    )
    memory: Quantity | None = Field(
        default=None,
        description=(
            "Memory, such as 950Gi. If left out, it follows the accelerators or the CPU in "
            "proportion to a whole node."
        ),
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"has(self.count) != {_HAS_AMOUNTS}",
                "give whole nodes by count, or amounts by accelerators, partitions, cpu, memory: "
                "one of the two",
            )
        )
    )


class Sharing(BaseModel):
    """Whether the team lends idle quota to other teams and borrows theirs, and how much."""

    strategy: Literal["LendAndBorrow", "Lend", "DontLend"] = Field(
        default="LendAndBorrow",
        description=(
            "LendAndBorrow: lends idle quota and borrows. Lend: lends and does not borrow. "
            "DontLend: does neither."
        ),
    )
    borrowLimitPercent: int | None = Field(
        default=None,
        ge=0,
        le=10_000,
        description=(
            "Most that the team may borrow of each instance type and resource, in percent of what "
            "it is granted of it. Excludes borrowLimits. Without a limit it may borrow all that is "
            "idle."
        ),
    )
    borrowLimits: list[TypeQuota] = Field(
        default_factory=list,
        max_length=15,
        json_schema_extra=keyed("instanceType"),
        description=(
            "Most that the team may borrow, by instance type. A type that is not listed is not "
            "borrowed. Excludes borrowLimitPercent."
        ),
    )
    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.borrowLimitPercent) || !has(self.borrowLimits) "
                "|| size(self.borrowLimits) == 0",
                "give borrowLimitPercent or borrowLimits: one of the two",
            ),
            (
                "!has(self.strategy) || self.strategy == 'LendAndBorrow' "
                "|| (!has(self.borrowLimitPercent) "
                "&& (!has(self.borrowLimits) || size(self.borrowLimits) == 0))",
                "a borrow limit needs strategy LendAndBorrow: set that, or remove the limit",
            ),
        )
    )
