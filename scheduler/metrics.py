"""The scheduler's metrics for Prometheus, taken from what each pass shows.

What happened is read off the Cessions: whatever replica did it, and however often a write was
repeated, it counts once. The first pass of a lead counts nothing that happened before it. Only the
replica that leads shows Cessions, guards and queues.
"""

from collections import Counter as Amounts
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import get_args

from prometheus_client import Counter, Gauge, Histogram

from cede.api.alternative import How
from cede.api.cession import ENDED, Cession, Target
from cede.api.cession_status import TargetStatus
from cede.api.objects import unix
from cede.api.reasons import CessionReason
from cede.api.resources import FlavorResource
from scheduler.cession.target_progress import find_job
from scheduler.cession.unsaved_work import unsaved_seconds
from scheduler.snapshot.snapshot import Snapshot

MAX_STEPS = 10_000_000
"""Of one target at most: a job reports any step, and a counter of all jobs must stay exact."""
SECONDS_OF_WAITING = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
SECONDS_OF_COMPUTING = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

CESSIONS = Counter(
    "cede_cessions_total", "Cessions that ended, by outcome and reason.", ["outcome", "reason"]
)
# to Prometheus, a series that begins at 1 has not increased
for _phase, _reason in product(ENDED, CessionReason):
    CESSIONS.labels(_phase, _reason)
OPEN_CESSIONS = Gauge("cede_open_cessions", "Cessions whose preemptor is not admitted yet.")
SECONDS_TO_OWNER = Histogram(
    "cede_seconds_to_owner",
    "From the creation of a preemptor to its pods being ready.",
    buckets=SECONDS_OF_WAITING,
)
GUARDS = Gauge("cede_guards", "Guards that Kueue has admitted: each keeps capacity from all teams.")
GUARD_SECONDS = Histogram(
    "cede_guard_seconds",
    "How long a guard was admitted.",
    buckets=SECONDS_OF_WAITING,
)
STAGE_SECONDS = Histogram(
    "cede_cession_stage_seconds",
    "Of targets: opened to asked, asked to ceded, ceded to released. Of Cessions: last release to "
    "admitted, admitted to ready.",
    ["stage"],
    buckets=SECONDS_OF_WAITING,
)
TARGETS = Counter(
    "cede_targets_total",
    "Targets that released capacity, by the queue that they ran in, by how: Shrink, Drain or Stop, "
    "and whether they ceded before.",
    ["queue", "how", "ceded"],
)
LOST_STEPS = Counter(
    "cede_lost_steps_total",
    "Unsaved steps of jobs that were stopped, as their Cessions record; up to 10,000,000 each.",
)
KEPT_STEPS = Counter(
    "cede_kept_steps_total",
    "Unsaved steps of targets that ceded, which a kill would have lost; up to 10,000,000 each.",
)
LOST_SECONDS = Counter(
    "cede_lost_accelerator_seconds_total",
    "Unsaved work of jobs that were stopped, as their Cessions record, in seconds of one "
    "accelerator.",
    ["resource"],
)
KEPT_SECONDS = Counter(
    "cede_kept_accelerator_seconds_total",
    "Unsaved work of targets that ceded, in seconds of one accelerator.",
    ["resource"],
)
PASS_SECONDS = Histogram(
    "cede_pass_seconds",
    "Of each pass: the snapshot, the plan, and performing its actions.",
    ["part"],
    buckets=SECONDS_OF_COMPUTING,
)
PLAN_FAULTS = Counter(
    "cede_plan_faults_total",
    "Cessions, preemptors and other parts of a plan that an error left out of it.",
)
SNAPSHOT_AGE = Gauge(
    "cede_snapshot_age_seconds", "How long ago the server confirmed the oldest copy of a kind."
)
PENDING = Gauge("cede_pending_workloads", "Workloads that wait for quota, by queue.", ["queue"])
ADMITTED = Gauge("cede_admitted_workloads", "Workloads that have quota, by queue.", ["queue"])
SILENT = Gauge("cede_silent_runtimes", "Elastic jobs whose runtime has not answered lately.")


@dataclass(frozen=True, slots=True)
class _AtStake:
    """What a target would lose if it were killed now."""

    steps: int
    # by resource, in seconds of one accelerator
    accelerator_seconds: Mapping[str, float]


class CessionMetrics:
    """Compares every pass with the one before it."""

    def __init__(self) -> None:
        # by name; None before the first pass
        self._before: dict[str, Cession] | None = None
        # by uid of the target
        self._at_stake: dict[str, _AtStake] = {}
        # by Cession: Unix seconds since when its guard has been admitted
        self._guarded_since: dict[str, float] = {}
        # queues that have the series of their targets
        self._counted = frozenset[str]()

    def note(self, current: Snapshot, now: float) -> None:
        """Counts what has happened since the last pass."""
        self._begin_series(current)
        before = self._before
        self._before = {cession.metadata.name: cession for cession in current.cessions}
        if before is not None:
            for name, cession in self._before.items():
                self._count(cession, before.get(name))
        self._at_stake = {
            target.uid: at_stake
            for cession in current.cessions
            if cession.open
            for target in cession.spec.targets
            if (at_stake := self._now_at_stake(cession, target, current, now))
        }
        self._note_guards(current, now)
        OPEN_CESSIONS.set(sum(1 for cession in current.cessions if cession.open))
        _set_by_queue(PENDING, (workload.queue for workload in current.pending), current)
        _set_by_queue(ADMITTED, (workload.queue for workload in current.admitted), current)
        elastic = [job for job in current.admitted if job.is_elastic_job]
        SILENT.set(sum(1 for job in elastic if job.runtime is None))

    def stand_by(self) -> None:
        """Another replica may lead from now on: this one shows nothing, so that sums over replicas
        are right, and what happens meanwhile is not counted here."""
        self._before = None
        for gauge in (OPEN_CESSIONS, GUARDS, SILENT, SNAPSHOT_AGE):
            gauge.set(0)
        for by_queue in (PENDING, ADMITTED):
            by_queue.clear()

    def _begin_series(self, current: Snapshot) -> None:
        """Queues that there are have the series of their targets."""
        queues = current.quota.queues.keys()
        for queue, how, ceded in product(queues - self._counted, get_args(How), ("true", "false")):
            TARGETS.labels(queue, how, ceded)
        self._counted |= queues

    def _note_guards(self, current: Snapshot, now: float) -> None:
        admitted = {guard.cession for guard in current.guards if guard.is_admitted}
        for cession, since in self._guarded_since.items():
            if cession not in admitted:
                # what happened while another replica led is not known
                GUARD_SECONDS.observe(max(0.0, now - max(since, current.led_since)))
        before = self._guarded_since
        self._guarded_since = {cession: before.get(cession, now) for cession in admitted}
        GUARDS.set(len(admitted))

    def _count(self, cession: Cession, before: Cession | None) -> None:
        status = cession.status
        for target in cession.spec.targets:
            old = before.target_status(target.uid) if before else TargetStatus(uid=target.uid)
            self._count_target(cession, target, old)
        releases = [target.releasedTime for target in status.targets]
        if status.admittedTime and not (before and before.status.admittedTime):
            _observe_stage("admitted", max(releases, default=""), status.admittedTime)
        if status.readyTime and not (before and before.status.readyTime):
            _observe_stage("ready", status.admittedTime, status.readyTime)
            SECONDS_TO_OWNER.observe(float(status.secondsToReady or 0))
        if cession.ended and not (before and before.ended):
            CESSIONS.labels(status.phase, cession.spec.reason).inc()

    def _count_target(self, cession: Cession, target: Target, old: TargetStatus) -> None:
        new = cession.target_status(target.uid)
        opened = cession.metadata.creationTimestamp or ""
        if new.askedTime and not old.askedTime:
            _observe_stage("asked", opened, new.askedTime)
        if new.cededTime and not old.cededTime:
            _observe_stage("ceded", new.askedTime, new.cededTime)
        if not new.releasedTime or old.releasedTime:
            return
        _observe_stage("released", new.cededTime, new.releasedTime)
        has_ceded = bool(new.cededTime)
        how = "Stop" if new.stopped else target.how
        TARGETS.labels(target.queue, how, str(has_ceded).lower()).inc()
        _count_work(new, self._at_stake.get(target.uid))

    def _now_at_stake(
        self, cession: Cession, target: Target, current: Snapshot, now: float
    ) -> _AtStake | None:
        """Until the target has ceded; then as it was before."""
        job = find_job(target, current)
        status = cession.target_status(target.uid)
        if job is None or job.runtime is None or status.cededTime:
            return self._at_stake.get(target.uid)
        steps = max(0, job.runtime.step - job.runtime.durableStep)
        return _AtStake(steps, _by_resource(unsaved_seconds(job, now)))


def _count_work(status: TargetStatus, at_stake: _AtStake | None) -> None:
    """What the target has lost; or what it has not, although a kill would have lost it."""
    if status.lost_steps:
        LOST_STEPS.inc(min(status.lost_steps, MAX_STEPS))
        for resource, seconds in _by_resource(status.lost_seconds or {}).items():
            LOST_SECONDS.labels(resource).inc(seconds)
    elif status.cededTime and at_stake:
        KEPT_STEPS.inc(min(at_stake.steps, MAX_STEPS))
        for resource, seconds in at_stake.accelerator_seconds.items():
            KEPT_SECONDS.labels(resource).inc(seconds)


def _by_resource(work: Mapping[FlavorResource, float | None]) -> Mapping[str, float]:
    """Of all flavors, as far as it is known."""
    seconds = defaultdict[str, float](float)
    for (_, resource), value in work.items():
        seconds[resource] += value or 0.0
    return seconds


def _observe_stage(stage: str, began: str, ended: str) -> None:
    """Both times are RFC 3339; a stage whose beginning is not known is left out."""
    if began:
        STAGE_SECONDS.labels(stage).observe(max(0.0, unix(ended) - unix(began)))


def _set_by_queue(gauge: Gauge, queues: Iterable[str], current: Snapshot) -> None:
    counts = Amounts(queues)
    gauge.clear()
    for queue in current.quota.queues:
        gauge.labels(queue).set(counts[queue])
