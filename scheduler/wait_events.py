"""PURE. Which waiting jobs get an event that says why they wait, and when.

An event costs a request and a place in etcd for an hour, and there may be 10,000 jobs: a round
explains a bounded number of them, and records a bounded number of events.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest

from cede.api import names
from cede.api.kueue import Job, Workload
from cede.api.objects import JOBS, WORKLOADS, Key, Kind, condition, unix_or_zero
from cede.api.wait_reasons import WaitReason
from cede.api.workload_identity import controller, identity
from cede.causes.facts import Cause
from cede.causes.index import Index
from cede.causes.job_causes import job_causes
from cede.causes.no_workload import why_no_workload
from cede.causes.sentences import sentences
from cede.causes.snapshot import Snapshot
from cede.causes.workload_state import current, state
from scheduler.faults import Fault, Faults

ROUND_S = 10.0
MAX_EXPLAINED = 200
"""In one round: a few that are due, and those that were explained longest ago."""
MAX_EVENTS = 10
"""In one round: 3,600 an hour at most, however many jobs wait."""
MAX_DUE = 2 * MAX_EVENTS
"""Explained in one round because they are due. The reason of some may have changed since."""
HOLDS_S = 10.0
"""A reason that passes sooner gets no event: a take-back has its own."""
MIN_INTERVAL_S = 120.0
"""Between two events of one job, whose reason may change all the time."""
REPEAT_S = 2700.0
"""The API server forgets an event after an hour. A reason that still holds is recorded before."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits or is stopped; one of the two is there."""

    workload: Workload | None
    job: Job | None

    @property
    def namespace(self) -> str:
        item = self.workload or self.job
        return item.metadata.namespace if item else ""

    @property
    def identity(self) -> str:
        if self.workload is not None:
            return identity(self.workload)
        return self.job.metadata.uid if self.job else ""

    @property
    def began(self) -> float:
        """Unix seconds: when it was made, or lost its quota."""
        if self.workload is None:
            return self.job.metadata.created if self.job else 0.0
        reserved = condition(self.workload.status.conditions, names.QUOTA_RESERVED)
        lost = (reserved.lastTransitionTime if reserved else None) or ""
        return max(self.workload.metadata.created, unix_or_zero(lost))

    def causes(self, index: Index) -> Sequence[Cause]:
        if self.workload is not None:
            return job_causes(self.workload, self.job, index)
        assert self.job is not None
        return why_no_workload(self.job.metadata.key, self.job, index)


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier rounds know of a job. Times are Unix seconds."""

    explained: float = 0.0
    # whether it waits since this scheduler leads: nobody else has recorded why
    is_new: bool = False
    # of its first cause, and since when
    reason: WaitReason | None = None
    since: float = 0.0
    # of its last event, and when that was; no reason if the server did not take it
    recorded: WaitReason | None = None
    recorded_at: float = float("-inf")

    def is_due(self, now: float) -> bool:
        if self.reason is None:
            return False
        silent_s = now - self.recorded_at
        if self.reason == self.recorded:
            return silent_s >= REPEAT_S
        return silent_s >= MIN_INTERVAL_S and now - self.since >= HOLDS_S

    @property
    def turn(self) -> tuple[int, float, float]:
        """Jobs without any event come first, then reasons that have changed. Then comes what is
        repeated, what an earlier leader may have recorded, and what the server did not take. Among
        them the one without an event for longest comes first, then what has held longest."""
        has_event = self.recorded_at > float("-inf")
        if self.is_new and not has_event:
            rank = 0
        elif self.recorded not in (None, self.reason):
            rank = 1
        else:
            rank = 2
        return rank, self.recorded_at, self.since


@dataclass(frozen=True, slots=True)
class WaitEvent:
    """To record on the Job, or on the Workload of a job of another kind."""

    waiting: Waiting
    kind: Kind
    key: Key
    uid: str
    reason: WaitReason
    note: str


@dataclass(frozen=True, slots=True)
class Round:
    events: tuple[WaitEvent, ...]
    # by the identity of the job
    known: Mapping[str, Known]
    faults: tuple[Fault, ...] = ()
    # jobs that wait or are stopped, by their first cause; without those that were not explained yet
    counts: Mapping[WaitReason, int] = field(default_factory=dict)


def next_round(
    snapshot: Snapshot,
    jobs: Iterable[Job],
    known: Mapping[str, Known],
    now: float,
    led_since: float,
) -> Round:
    """`led_since`: since when this scheduler leads; what an earlier one recorded is not known."""
    of_namespace = defaultdict[str, list[Workload]](list)
    for workload in snapshot.workloads:
        of_namespace[workload.metadata.namespace].append(workload)
    indexes = dict[str, Index]()
    faults = Faults()
    waiting = find_waiting(snapshot, jobs)
    result = {
        uid: entry
        for uid, entry in known.items()
        if uid in waiting or now - entry.recorded_at < MIN_INTERVAL_S
    }
    due = dict[str, Sequence[Cause]]()
    for uid in _to_explain(waiting, result, now, led_since):
        namespace = waiting[uid].namespace
        if namespace not in indexes:
            indexes[namespace] = Index(as_members_see(snapshot, of_namespace[namespace]), now)
        causes = faults.attempt(uid, (), waiting[uid].causes, indexes[namespace])
        is_new = waiting[uid].began >= led_since
        result[uid] = _explained(result.get(uid, Known(is_new=is_new)), causes, now)
        if causes and result[uid].is_due(now):
            due[uid] = causes
    events = list[WaitEvent]()
    for uid in _in_turn(due, waiting, result)[:MAX_EVENTS]:
        causes = due[uid]
        events.append(wait_event(waiting[uid], causes, now))
        result[uid] = replace(result[uid], recorded=causes[0].reason, recorded_at=now)
    reasons = (result[uid].reason for uid in waiting if uid in result)
    counts = Counter(reason for reason in reasons if reason)
    return Round(tuple(events), result, tuple(faults.all), counts)


def _to_explain(
    waiting: Mapping[str, Waiting], known: Mapping[str, Known], now: float, led_since: float
) -> list[str]:
    """Those whose turn it is to get an event, so that no new one waits until all are explained
    again. Then those that were explained longest ago, of which the new ones come first."""
    due = [uid for uid in waiting if uid in known and known[uid].is_due(now)]
    first = dict.fromkeys(_in_turn(due, waiting, known)[:MAX_DUE])

    def since(uid: str) -> tuple[float, bool]:
        if uid in known:
            return known[uid].explained, False
        return 0.0, waiting[uid].began < led_since

    others = (uid for uid in waiting if uid not in first)
    return [*first, *nsmallest(MAX_EXPLAINED - len(first), others, key=since)]


def _in_turn(
    uids: Iterable[str], waiting: Mapping[str, Waiting], known: Mapping[str, Known]
) -> list[str]:
    """The first of each team before the second of any: the jobs of a team with very many keep no
    other team waiting."""
    counts = defaultdict[str, int](int)
    places = list[tuple[int, str]]()
    for uid in sorted(uids, key=lambda uid: known[uid].turn):
        namespace = waiting[uid].namespace
        places.append((counts[namespace], uid))
        counts[namespace] += 1
    places.sort(key=lambda place: place[0])
    return [uid for _, uid in places]


def not_recorded(known: Mapping[str, Known], uids: Iterable[str]) -> Mapping[str, Known]:
    """With these jobs without the event that the server did not take."""
    return {**known, **{uid: replace(known[uid], recorded=None) for uid in uids if uid in known}}


def as_members_see(snapshot: Snapshot, own: Sequence[Workload]) -> Snapshot:
    """An event is read by the members of the team, who may not read the Workloads of others."""
    incomplete = snapshot.incomplete | {WORKLOADS.plural}
    return replace(snapshot, workloads=own, incomplete=incomplete)


def find_waiting(snapshot: Snapshot, jobs: Iterable[Job]) -> dict[str, Waiting]:
    """By identity: the jobs of teams that wait or are stopped, and those in a queue without a
    Workload."""
    teams = {entry.status.namespace or entry.namespace for entry in snapshot.allocations}
    by_uid = {job.metadata.uid: job for job in jobs if job.metadata.namespace in teams}
    slices = defaultdict[str, list[Workload]](list)
    for workload in snapshot.workloads:
        if workload.metadata.namespace in teams:
            slices[identity(workload)].append(workload)
    result = dict[str, Waiting]()
    for uid, workloads in slices.items():
        workload = current(workloads)
        if state(workload, snapshot.cessions) in ("Waiting", "Stopped"):
            result[uid] = Waiting(workload, by_uid.get(uid))
    for uid, job in by_uid.items():
        is_queued = names.QUEUE_NAME in job.metadata.labels and not job.has_ended
        if is_queued and uid not in slices:
            result[uid] = Waiting(None, job)
    return result


def wait_event(waiting: Waiting, causes: Sequence[Cause], now: float) -> WaitEvent:
    """What `cede explain` says to a member of the team."""
    workload = waiting.workload
    note = " ".join(sentences(causes, now, waits=workload is not None))
    owner = controller(workload) if workload else None
    if waiting.job is not None:
        metadata = waiting.job.metadata
        return WaitEvent(waiting, JOBS, metadata.key, metadata.uid, causes[0].reason, note)
    assert workload is not None
    if owner and owner.kind == JOBS.kind:
        key = (workload.metadata.namespace, owner.name)
        return WaitEvent(waiting, JOBS, key, owner.uid, causes[0].reason, note)
    metadata = workload.metadata
    return WaitEvent(waiting, WORKLOADS, metadata.key, metadata.uid, causes[0].reason, note)


def _explained(known: Known, causes: Sequence[Cause], now: float) -> Known:
    reason = causes[0].reason if causes else None
    since = known.since if reason == known.reason else now
    return replace(known, explained=now, reason=reason, since=since)
