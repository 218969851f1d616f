"""PURE. What the recorded Cessions say about the jobs that gave. Records survive a restart of the
scheduler, and no job can write them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from cede.api.cession import Cession, Preemptor
from cede.api.objects import Key, unix

STOPS_PER_HOUR = 2
STOP_PAUSE_S = 600.0
"""A job that was stopped so often in the last hour, or at all in the last 10 minutes, is not
stopped by jobs of its own team, claims for a fair share, or the growth of a job. The owner of quota
stops it last of all."""
LATE_ANSWERS_PER_DAY = 2
"""A job that missed so many deadlines in the last day is shrunk or stopped without being asked."""
HOUR_S = 3600.0
DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class JobHistory:
    """By the identity of a job."""

    # in the last hour
    stops: Mapping[str, int] = field(default_factory=dict)
    # those that were stopped in the last STOP_PAUSE_S
    stopped_lately: Collection[str] = frozenset()
    # deadlines missed in the last day
    late_answers: Mapping[str, int] = field(default_factory=dict)
    # the preemptors that it was stopped for: uids of Workloads, and names of their Jobs
    stopped_for: Mapping[str, frozenset[str | Key]] = field(default_factory=dict)

    def is_sheltered(self, identity: str) -> bool:
        """Whether the job was stopped so lately or so often that it may run for a while."""
        return identity in self.stopped_lately or self.stops.get(identity, 0) >= STOPS_PER_HOUR

    def ignores_deadlines(self, identity: str) -> bool:
        return self.late_answers.get(identity, 0) >= LATE_ANSWERS_PER_DAY


def read_history(cessions: Iterable[Cession], now: float) -> JobHistory:
    stops = Counter[str]()
    stopped_lately = set[str]()
    late_answers = Counter[str]()
    stopped_for = defaultdict[str, set[str | Key]](set)
    for cession in cessions:
        preemptor = _names(cession.spec.preemptor)
        for target in cession.status.targets:
            # a stop that was refused, or not needed any more, is none
            if target.stopped and target.releasedTime:
                stopped_for[target.uid] |= preemptor
                stops[target.uid] += now - unix(target.releasedTime) < HOUR_S
                # if it is after now, an earlier leader's clock was ahead
                if now - unix(target.releasedTime) < STOP_PAUSE_S:
                    stopped_lately.add(target.uid)
            if target.forcedTime and now - unix(target.forcedTime) < DAY_S:
                late_answers[target.uid] += 1
    return JobHistory(
        stops=stops,
        stopped_lately=stopped_lately,
        late_answers=late_answers,
        stopped_for={uid: frozenset(preemptors) for uid, preemptors in stopped_for.items()},
    )


def _names(preemptor: Preemptor) -> set[str | Key]:
    """The uid of its Workload, and its Job, which keeps its name when it is resized."""
    return {preemptor.uid, (preemptor.namespace, preemptor.job)}
