"""PURE. Released capacity is kept for the preemptor of a Cession until Kueue admits it.

Kueue keeps capacity for the first Workload of a StrictFIFO queue, in every scheduling cycle, if the
queue does not exceed its nominal quota with it (Kueue: pkg/scheduler/scheduler.go,
reserveCapacityForUnreclaimablePreempt). So the queue is set to StrictFIFO, and Workloads that wait
before the preemptor without a chance are set inactive for the while. Where that is not enough, a
guard keeps the capacity: scheduler/cession/guard_plan.py.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cede.api.cession import Cession
from cede.api.objects import rfc3339, unix
from cede.api.resources import describe_amounts
from scheduler.actions import (
    Action,
    DeleteGuard,
    RequeueWorkload,
    SetPrivateQuota,
    SetQueueingStrategy,
    SetWorkloadActive,
)
from scheduler.cession import guard_plan
from scheduler.cession.guard_plan import find_guard, needs_guard
from scheduler.cession.preemptor_state import find_preemptor
from scheduler.cession.promises import suffices
from scheduler.cession.stage_times import led_s, once
from scheduler.quota.assignments import assignments
from scheduler.quota.cohort import BEST_EFFORT_FIFO, STRICT_FIFO, CohortQuota
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload

REQUEUE_S = 1.2
"""A queue that becomes StrictFIFO does not requeue its Workloads, and Kueue keeps nothing for what
it has not tried since. It requeues them up to 1 s later (Kueue: pkg/cache/queue,
inadmissible_workloads.go). The preemptor is requeued by us, so this is only how long to wait if
Kueue does not say that it has tried it."""
HOLD_S = 5.0
"""A release takes 1 to 2 s. What takes longer gives way to teams within their own quota."""

AFTER_ANOTHER = "A guard is alone with its instance type, so this waits for the end of Cession"
BEFORE_GUARD = "Nothing is released before Kueue has admitted a guard."
UNPROTECTED = "No guard can keep what is released, so another job may take it."
WHILE_KUEUE_PREEMPTS = "No guard is made while Kueue preempts by its own rules."


@dataclass(frozen=True, slots=True)
class Reservation:
    """How far capacity is kept for the preemptor of one Cession."""

    # every action can be repeated without harm
    actions: tuple[Action, ...] = ()
    # True if targets may release their capacity now
    may_release: bool = False
    # RFC 3339: since when Kueue keeps capacity for the preemptor; empty if it does not
    since: str = ""
    # for the Cession's message: what the release waits for, what a guard keeps, or that none can
    message: str = ""


def prepare(
    cession: Cession, snapshot: Snapshot, now: float, ready: Mapping[str, bool]
) -> Reservation:
    """The reservation for a preemptor that is pending. `restore` ends it.

    `ready`: by the uid of every target that is needed, whether it could release now. What keeps
    capacity for one team keeps other teams even out of their own. So it waits until all could, and
    ends when a release takes long while such a team waits.
    """
    is_released = cession.status.released
    all_ready = all(ready.values())
    first = "" if is_released else guard_plan.ends_first(cession, snapshot, now)
    if first:
        # a StrictFIFO queue would keep out the preemptor of the other Cession
        return _nothing_kept(cession, snapshot, f"{AFTER_ANOTHER} {first}.")
    if needs_guard(cession, snapshot, now):
        if snapshot.kueue_preempts:
            # the quota_controller writes no private quota then, so the guard would only be in the
            # way of Kueue's own preemption
            return _nothing_kept(cession, snapshot, WHILE_KUEUE_PREEMPTS)
        # what another Cession releases, a guard would keep that one from releasing
        is_alone = is_released or suffices(cession, snapshot, (), ready)
        if not all_ready or not is_alone or _gives_way(cession, snapshot, now, all_ready):
            return _nothing_kept(cession, snapshot)
        return _with_guard(cession, snapshot, now)
    if _gives_way(cession, snapshot, now, all_ready):
        return Reservation(_relaxed(cession, snapshot))
    return _with_queue(cession, snapshot, now, all_ready)


def _gives_way(cession: Cession, snapshot: Snapshot, now: float, all_ready: bool) -> bool:
    """Whether a team within its own quota waits, and the end of the release is not near."""
    is_near = all_ready and not _is_slow(cession, snapshot, now)
    return not is_near and _has_bystander(cession, snapshot)


def _is_slow(cession: Cession, snapshot: Snapshot, now: float) -> bool:
    """Whether a job was resized or stopped some time ago and uses its quota still."""
    return any(
        led_s(target.resizeRequestedTime or target.stopRequestedTime, snapshot.led_since, now)
        > HOLD_S
        for target in cession.status.targets
        if not target.releasedTime
    )


# --- Kueue keeps it for a StrictFIFO queue --------------------------------------------------------
def _with_queue(cession: Cession, snapshot: Snapshot, now: float, all_ready: bool) -> Reservation:
    """The wait for Kueue begins once; Workloads that come before the preemptor later are set aside
    with the release, and do not put it off. For the growth of a job nobody is set aside while
    others save."""
    queue = snapshot.quota.queues[cession.spec.preemptor.queue]
    pending = find_preemptor(cession, snapshot).pending
    grows = pending is not None and pending.is_scale_up
    heads = () if grows and not all_ready else hopeless_heads(cession, snapshot)
    aside = tuple(_set_aside(cession, heads))
    if queue.strategy != STRICT_FIFO:
        strict = SetQueueingStrategy(queue.name, STRICT_FIFO, queue.version)
        return Reservation((strict, *aside))
    if not cession.status.reservedTime and not queue.is_observed:
        return Reservation(aside)
    since = once(cession.status.reservedTime, now)
    is_early = _is_early(cession, snapshot, led_s(since, snapshot.led_since, now))
    requeue = _requeue(cession, snapshot) if is_early else ()
    message = UNPROTECTED if guard_plan.is_unprotected(cession, snapshot) else ""
    return Reservation((*aside, *requeue), not is_early, since, message)


def _is_early(cession: Cession, snapshot: Snapshot, kept_s: float) -> bool:
    """Whether Kueue may not have tried the preemptor yet, `kept_s` after its queue became
    StrictFIFO."""
    return kept_s < REQUEUE_S and not _is_tried(cession, snapshot)


def _is_tried(cession: Cession, snapshot: Snapshot) -> bool:
    """Whether Kueue has tried the preemptor since its queue is StrictFIFO. Then it stays in the
    queue's heap, and is tried in each cycle in which it is the head.

    With Kueue's feature gate UnadmittedWorkloadsObservability, off by default, this is true a
    moment too early: pkg/controller/core/workload_controller.go writes the condition too.
    """
    since = cession.status.reservedTime
    pending = find_preemptor(cession, snapshot).pending
    if not since or pending is None or pending.requeued_at != since:
        return False
    return pending.is_tried and snapshot.quota.queues[pending.queue].is_observed


def _requeue(cession: Cession, snapshot: Snapshot) -> tuple[Action, ...]:
    """Once for each time that the queue becomes StrictFIFO, when that time is recorded: if it could
    not be, each pass would write another one."""
    since = cession.status.reservedTime
    pending = find_preemptor(cession, snapshot).pending
    if not since or pending is None or pending.requeued_at == since:
        return ()
    return (RequeueWorkload(pending.key, pending.uid, pending.pod_sets[0].name, since),)


def hopeless_heads(cession: Cession, snapshot: Snapshot) -> Iterator[PendingWorkload]:
    """The Workloads that Kueue would try before the preemptor, and that do not fit into the rest of
    their team's own quota.

    Kueue keeps nothing for them, and under StrictFIFO tries no other Workload of the queue. A
    Workload within its team's own quota is left alone: it goes first by right.
    """
    return (w for w in heads_before(cession, snapshot) if not _is_within_own(w, snapshot.quota))


def heads_before(cession: Cession, snapshot: Snapshot) -> Iterator[PendingWorkload]:
    """The Workloads that Kueue would try before the preemptor."""
    for workload in snapshot.pending:
        if workload.uid == cession.spec.preemptor.uid:
            return
        is_tried = workload.active and not workload.ineligible and not workload.is_scale_up
        if workload.queue == cession.spec.preemptor.queue and is_tried:
            yield workload


def _is_within_own(workload: PendingWorkload, quota: CohortQuota) -> bool:
    requests = assignments(workload.pod_sets, quota.queues[workload.queue])
    return any(quota.owns_with(workload.queue, request) for request in requests)


def _set_aside(
    cession: Cession, workloads: Iterable[PendingWorkload]
) -> Iterator[SetWorkloadActive]:
    why = f"it waits before {cession.spec.preemptor.workload}, for which capacity is released"
    for workload in workloads:
        yield SetWorkloadActive(workload.key, workload.uid, False, why, cession.metadata.name)


def _relaxed(cession: Cession, snapshot: Snapshot) -> tuple[Action, ...]:
    queue = snapshot.quota.queues[cession.spec.preemptor.queue]
    if queue.strategy != STRICT_FIFO:
        return ()
    return (SetQueueingStrategy(queue.name, BEST_EFFORT_FIFO, queue.version),)


def _has_bystander(cession: Cession, snapshot: Snapshot) -> bool:
    """Whether a Workload of another team fits into its team's own quota, and would wait."""
    for workload in snapshot.pending:
        queue = snapshot.quota.queues[workload.queue]
        if queue.name == cession.spec.preemptor.queue or workload.is_scale_up:
            continue
        if not workload.active or workload.ineligible:
            continue
        for request in assignments(workload.pod_sets, queue):
            owned = snapshot.quota.owns_with(queue.name, request)
            if owned and snapshot.quota.fits(queue.name, request):
                return True
    return False


# --- a guard keeps it -----------------------------------------------------------------------------
def _with_guard(cession: Cession, snapshot: Snapshot, now: float) -> Reservation:
    guard = find_guard(cession.metadata.name, snapshot)
    if guard and guard.is_deleted:
        return Reservation(message=BEFORE_GUARD)
    if guard is None or not (guard.is_admitted or guard.in_cohort):
        create = guard_plan.create(cession, snapshot)
        if guard and guard.nominal != Counter(create.amounts):
            # Kueue would never admit the rest of what a dead leader began for another size
            return Reservation((DeleteGuard(guard.cession),), message=BEFORE_GUARD)
        # also if only a part of it was made
        return Reservation((create,), message=BEFORE_GUARD)
    if not guard.in_cohort:
        return Reservation((guard_plan.join(guard),), message=BEFORE_GUARD)
    if not guard.is_admitted or not guard.is_observed:
        return Reservation(message=BEFORE_GUARD)
    if not cession.status.released and not guard_plan.is_large_enough(guard, cession, snapshot):
        # the preemptor requests more than before
        return Reservation((DeleteGuard(guard.cession),), message=BEFORE_GUARD)
    # only now: before the guard is admitted, a StrictFIFO queue would keep it out
    queue = snapshot.quota.queues[cession.spec.preemptor.queue]
    strict = SetQueueingStrategy(queue.name, STRICT_FIFO, queue.version)
    # nobody is tried before the preemptor, not even by right: what the guard keeps is as large as
    # the preemptor
    aside = tuple(_set_aside(cession, heads_before(cession, snapshot)))
    is_strict = queue.strategy == STRICT_FIFO
    since = cession.status.reservedTime
    if is_strict and queue.is_observed:
        since = once(since, now)
    kept_s = led_s(since, snapshot.led_since, now)
    # a job of the team that arrives before Kueue tries the preemptor would take the private quota;
    # those that come before the preemptor put it off for a while only, however many arrive
    actions: tuple[Action, ...] = aside
    if not is_strict:
        actions = (strict, *aside)
    elif _is_early(cession, snapshot, kept_s):
        actions = (*aside, *_requeue(cession, snapshot))
    elif not aside or kept_s > HOLD_S:
        actions = (*aside, *_private_quota(cession, snapshot))
    message = f"A guard keeps {describe_amounts(guard.usage)} for the preemptor"
    message += f" since {rfc3339(unix(since))}." if since else "."
    return Reservation(actions, True, since, message)


def _nothing_kept(cession: Cession, snapshot: Snapshot, message: str = "") -> Reservation:
    """What keeps capacity for the preemptor ends; a queue has one write in a pass."""
    back = guard_plan.give_back(cession, snapshot)
    relaxed = () if isinstance(back, SetPrivateQuota) else _relaxed(cession, snapshot)
    return Reservation((back, *relaxed) if back else relaxed, message=message)


def _private_quota(cession: Cession, snapshot: Snapshot) -> tuple[Action, ...]:
    """Private quota once all targets have released."""
    if not guard_plan.all_released(cession, snapshot):
        return ()
    action = guard_plan.give_private_quota(cession, snapshot)
    return (action,) if action else ()


# --- the end --------------------------------------------------------------------------------------
def restore(snapshot: Snapshot, open_cessions: Sequence[Cession]) -> Iterator[Action]:
    """What was changed for a preemptor is changed back when no open Cession needs it any more, also
    if the scheduler died between two writes. scheduler/cession/stopped_jobs.py does the same for
    Workloads that were set aside."""
    yield from guard_plan.end(snapshot, {cession.metadata.name for cession in open_cessions})
    needed = {cession.spec.preemptor.queue for cession in open_cessions}
    for queue in snapshot.quota.queues.values():
        if queue.managed and queue.strategy == STRICT_FIFO and queue.name not in needed:
            yield SetQueueingStrategy(queue.name, BEST_EFFORT_FIFO, queue.version)
