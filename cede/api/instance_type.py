"""PURE. An instance type: a kind of node, of which teams own amounts."""

from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from cede.api.crd_schema import Quantity, rules
from cede.api.names import GPU

DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
RESOURCE_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
_LABEL_PREFIX = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
_LABEL_NAME = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])"
LABEL_KEY = f"^{_LABEL_PREFIX}{_LABEL_NAME}$"
LabelValue = Annotated[
    str, StringConstraints(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
]
Partitions = dict[str, Annotated[int, Field(ge=0, le=1_000_000)]]
"""Number of partitions by resource name, such as `nvidia.com/mig-1g.10gb`."""
KEYS_ARE_LABELS = (
    f"self.all(key, key.matches('{LABEL_KEY}'))",
    "this is not the key of a label: write it like node.kubernetes.io/instance-type",
)
KEYS_ARE_RESOURCES = (
    "self.all(name, name.matches('^[a-z0-9.-]+/[A-Za-z0-9._-]+$') && size(name) <= 253)",
    "this is not the resource name of a partition: write it like nvidia.com/mig-1g.10gb",
)


class InstanceType(BaseModel):
    """A kind of node. Amounts that live nodes report take precedence over those given here."""

    name: str = Field(
        min_length=1,
        max_length=63,
        pattern=DNS_NAME,
        description=(
            "Name of the type. Allocations refer to it, and Kueue's ResourceFlavor has the same "
            "name."
        ),
    )
    nodeLabels: dict[str, LabelValue] = Field(
        default_factory=dict,
        max_length=8,
        json_schema_extra=rules(KEYS_ARE_LABELS),
        description=(
            "Labels that select the nodes of this type. If empty, the label "
            "node.kubernetes.io/instance-type must equal the name."
        ),
    )
    accelerator: str = Field(
        default=GPU,
        max_length=253,
        pattern=RESOURCE_NAME,
        description="Resource name of the accelerators, such as nvidia.com/gpu.",
    )
    accelerators: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="Number of accelerators of one node, used until a live node reports its own.",
    )
    partitions: Partitions = Field(
        default_factory=dict,
        max_length=8,
        json_schema_extra=rules(KEYS_ARE_RESOURCES),
        description=(
            "Number of accelerator partitions of one node by resource name, such as "
            "nvidia.com/mig-1g.10gb: 28."
        ),
    )
    cpu: Quantity = Field(
        default="0",
        description="Allocatable CPU of one node, such as 190, used until a live node reports it.",
    )
    memory: Quantity = Field(
        default="0",
        description=(
            "Allocatable memory of one node, such as 1900Gi, used until a live node reports it."
        ),
    )

    @property
    def selector(self) -> dict[str, str]:
        """The labels of the nodes of this type."""
        return self.nodeLabels or {INSTANCE_TYPE_LABEL: self.name}
