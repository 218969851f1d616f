"""PURE. The priority classes of the policy, and which of them a team may use."""

from collections.abc import Mapping

from pydantic import BaseModel, Field

from cede.api.instance_type import DNS_NAME


class PriorityClass(BaseModel):
    """A class of jobs. A job names its class in the label kueue.x-k8s.io/priority-class."""

    name: str = Field(
        min_length=1, max_length=63, pattern=DNS_NAME, description="Name that jobs refer to."
    )
    weight: int = Field(
        ge=0,
        le=100,
        description=(
            "Importance from 0 to 100. Jobs of a higher weight are admitted first and may preempt "
            "jobs of their own team with a lower weight."
        ),
    )


def allowed_classes(weights: Mapping[str, int], highest: str) -> list[str]:
    """As `PolicySpec.allowed_classes`; `weights`: by class."""
    if highest:
        max_weight = weights.get(highest, min(weights.values(), default=0))
    else:
        max_weight = max(weights.values(), default=0)
    allowed = [name for name, weight in weights.items() if weight <= max_weight]
    return sorted(allowed, key=lambda name: (-weights[name], name))
