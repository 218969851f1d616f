"""PURE. What happens to one job, as a value."""

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What happens."""

    ADMITTED = "Admitted"
    GROWS = "Grows"
    SHRINKS = "Shrinks"
    DRAINS = "Drains"
    STOPS = "Stops"
    # it keeps its quota, and some of its pods are on no node
    LACKS_NODES = "LacksNodes"


@dataclass(frozen=True)
class Change:
    """What happens to one job, by which rule and why."""

    # seconds from the question: 0 is at once, anything else is no sooner than that
    after_s: int
    namespace: str
    job: str
    # the ClusterQueue
    team: str
    effect: Effect
    # pods
    from_size: int
    to_size: int
    # of a take-back: the reason of its Cession; empty otherwise
    rule: str = ""
    why: str = ""

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for what happens with and without the question, whenever it does."""
        sizes = (self.from_size, self.to_size)
        return self.namespace, self.job, self.effect, *sizes, self.rule
