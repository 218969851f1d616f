"""What must hold all the while when teams trade and the cluster fails.

Each promise has two limits. A state may last so long undisturbed: the time in which what serves the
promise failed, or recovered, is left out. And it may last so long in all, because a cluster that
fails all the time must come to an end with it too.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cede.api.objects import Json, unix
from tests.e2e.trading_picture import (
    Picture,
    is_ended,
    is_explained,
    message_of,
    name_of,
    owed,
    reserved,
    says_why_its_pods_are_not_ready,
    stopped_in_vain,
    strict_for_nobody,
)

ACCELERATORS = 8
ADMISSION_S = 60
"""A Cession whose targets have released ends so long afterwards, admitted or not."""
SLACK_S = 30
RECOVERY_S = 45
"""After a fault, until its controllers lead and its nodes are ready again."""
FAULTS_OF_TARGETS = (
    "worker killed",
    "worker frozen",
    "agent killed",
    "agent frozen",
    "pod deleted",
    "key replaced",
)
"""A Cession has a deadline for its targets, so these give nothing more time."""


class BrokenPromiseError(Exception):
    """What must hold does not."""


@dataclass(frozen=True)
class Limit:
    """Seconds."""

    undisturbed: float
    in_all: float


OVER_QUOTA = Limit(45, 90)
"""How long Kueue may count more in use than there is. Two admissions of one cycle can exceed the
quota, until the scheduler shrinks one of them. A Kueue that was killed leads again after 30 s, and
its last counts stay until then."""
STRICT_FOR_NOBODY = Limit(SLACK_S, 180)
OPEN_S = 300
"""So much longer than undisturbed a Cession may be open in all."""
OWED = Limit(60, 600)
"""Beside the pause of the scheduler after Cessions for it that failed."""


class Disturbances:
    """When something failed, or the cluster recovered from it, in Unix seconds."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []

    def add(self, fault: str, began: float, ended: float) -> None:
        if fault not in FAULTS_OF_TARGETS:
            self._spans.append((began, ended + RECOVERY_S))

    def seconds(self, start: float, end: float) -> float:
        """How much of this time was disturbed."""
        disturbed_s = 0.0
        covered_until = start
        for began, recovered in sorted(self._spans):
            first, last = max(began, covered_until), min(recovered, end)
            disturbed_s += max(0.0, last - first)
            covered_until = max(covered_until, last)
        return disturbed_s

    def lasted_too_long(self, since: float, now: float, limit: Limit) -> bool:
        in_all_s = now - since
        return in_all_s > limit.in_all or in_all_s - self.seconds(since, now) > limit.undisturbed


class Since:
    """When each of the states began that have held at every check."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def update(self, states: Iterable[str], now: float) -> dict[str, float]:
        self._since = {state: self._since.get(state, now) for state in states}
        return self._since


class Watch:
    """Checks the promises against one picture after the other."""

    def __init__(self) -> None:
        self.disturbances = Disturbances()
        self._states = Since()

    def check(self, picture: Picture) -> None:
        """Raises BrokenPromiseError."""
        for cession in picture.cessions:
            self._check_cession(cession, picture.now)
        limits = self._limits(picture)
        for state, since in self._states.update(limits, picture.now).items():
            if self.disturbances.lasted_too_long(since, picture.now, limits[state]):
                raise BrokenPromiseError(f"{state}: for {picture.now - since:.0f} s")

    def unexplained_stops(self, picture: Picture) -> list[str]:
        """Of jobs that were stopped for a claim that was not served: who took their place is not
        named, and nothing failed meanwhile that serves claims."""
        return [
            f"{name_of(cession)}: {message_of(cession)}"
            for cession in stopped_in_vain(picture)
            if not is_explained(cession) and not self._was_disturbed(cession, picture.now)
        ]

    def _was_disturbed(self, cession: Json, now: float) -> bool:
        end = cession["status"].get("completionTime")
        created = unix(cession["metadata"]["creationTimestamp"])
        return self.disturbances.seconds(created, unix(end) if end else now) > 0

    def _check_cession(self, cession: Json, now: float) -> None:
        if is_ended(cession) or says_why_its_pods_are_not_ready(cession):
            return
        created = unix(cession["metadata"]["creationTimestamp"])
        graces = [target["graceSeconds"] for target in cession["spec"]["targets"]]
        deadline_s = cession["spec"].get("round", 1) * max(graces, default=0) + ADMISSION_S
        limit = Limit(deadline_s + SLACK_S, deadline_s + OPEN_S)
        if self.disturbances.lasted_too_long(created, now, limit):
            raise BrokenPromiseError(f"open for {now - created:.0f} s: {cession}")

    def _limits(self, picture: Picture) -> dict[str, Limit]:
        """Of each state that may not last."""
        limits = {
            f"{workload['metadata']['name']} waits, its team's own quota is free, and no Cession "
            f"is open for it": OWED
            for workload in owed(picture)
        }
        limits |= {
            f"{queue} is StrictFIFO for nobody": STRICT_FOR_NOBODY
            for queue in strict_for_nobody(picture)
        }
        if reserved(picture) > ACCELERATORS:
            limits[f"more than {ACCELERATORS} accelerators are in use"] = OVER_QUOTA
        return limits
