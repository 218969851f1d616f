"""PURE. A cause as typed facts: its reason, a sentence, amounts, the cure, and when it may pass."""

from dataclasses import dataclass

from cede.api import durations
from cede.api.objects import rfc3339
from cede.api.resources import describe_amount, quantity
from cede.api.wait_reasons import WaitReason

MAX_HOLDERS = 20
"""The largest of them are shown."""


@dataclass(frozen=True)
class Holder:
    """Who has what the job lacks. All amounts are Kubernetes quantities."""

    team: str
    # namespace/name; empty for a team as a whole
    job: str
    amount: str
    # by which rule it has that
    rule: str


@dataclass(frozen=True)
class Shortage:
    """One resource of one flavor that Kueue reports as too little."""

    resource: str
    flavor: str
    asked: str
    # what the job could have of it now
    free: str
    missing: str
    # what the team owns, uses, and may borrow; empty if its ClusterQueue could not be read
    owned: str = ""
    used: str = ""
    # None: without a limit
    may_borrow: str | None = None
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """When the cause passes, at the earliest and at the latest (RFC 3339). An empty text: not
    known."""

    earliest: str
    latest: str
    # how it was estimated
    basis: str

    def describe(self, now: float, earliest: float, latest: float) -> str:
        """For people, with both times as Unix seconds; 0.0: not known."""
        soon = durations.describe(earliest - now)
        late = durations.describe(latest - now)
        if earliest and latest and soon != late:
            return f"in {soon} to {late} ({self.basis})"
        if earliest:
            return f"in {soon} at the earliest ({self.basis})"
        return f"in {late} at the latest ({self.basis})"


@dataclass(frozen=True)
class Cause:
    """One cause. The first of several is the one that has to pass first."""

    reason: WaitReason
    # what is so, with names and amounts
    sentence: str
    # what would change it; empty if nothing but time
    cure: str = ""
    shortage: Shortage | None = None
    # None: there is no ground for an estimate
    estimate: Estimate | None = None
    # why there is none; empty if the sentence shows it
    no_estimate: str = ""


def estimate(basis: str, *, earliest: float = 0.0, latest: float = 0.0) -> Estimate:
    """From Unix seconds; 0.0: not known."""
    return Estimate(rfc3339(earliest) if earliest else "", rfc3339(latest) if latest else "", basis)


def shown(resource: str, amount: int) -> str:
    """An amount for people."""
    return describe_amount(resource, amount)


def exact(resource: str, amount: int) -> str:
    """An amount for programs."""
    return quantity(resource, amount)
