"""PURE. (Snapshot, policy, now) → the actions of one pass, and why."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress

from cede.api.cession import Cession
from cede.api.policy import PolicySpec
from cede.api.reasons import SchedulerEvent
from scheduler.actions import Action, RecordEvent, RecordWorkloadEvent, ResizeJob
from scheduler.cession.advance import Step, advance
from scheduler.cession.attempts import paused_growth
from scheduler.cession.bases import (
    WHY_STOPPED,
    follow_bases,
    go_on,
    pending_of,
    stopped_uids,
    without_bases,
    without_held,
)
from scheduler.cession.cession_lifecycle import Occurrence
from scheduler.cession.opening import Claims, Decision, amend, decide
from scheduler.cession.preemptor_state import find_preemptor
from scheduler.cession.promises import target_uids
from scheduler.cession.recording import end, recording
from scheduler.cession.reservation import restore
from scheduler.cession.stage_times import once
from scheduler.cession.stopped_jobs import run_again, set_aside_events
from scheduler.faults import NEW_CESSIONS, Fault, Faults
from scheduler.resizing.growth import grow, growable
from scheduler.resizing.growth_claims import claim_growth
from scheduler.resizing.late_pods import finish_late
from scheduler.resizing.missing_pods import shrink_missing
from scheduler.resizing.overuse import shrink_overuse
from scheduler.resizing.servers import give_back, grow_servers
from scheduler.resizing.upkeep import align_runtimes, delete_ended, start_small
from scheduler.saves import serve_saves
from scheduler.server_actions import scaled_down
from scheduler.snapshot.snapshot import Snapshot

OBSERVING = "mode Observe"
REFUSED_S = 10.0
"""A pod that has just started refuses requests for a moment. Jobs that refuse them for so long are
reported."""
KUEUE_PREEMPTS = (
    "Kueue preempts by its own rules until the ClusterPolicy's status has preemption: Cede"
)
Notice = RecordWorkloadEvent | RecordEvent


@dataclass(frozen=True, slots=True)
class Plan:
    # in the order in which they must be performed
    actions: tuple[Action, ...]
    # a sentence for every preemptor that was examined
    why: tuple[str, ...] = ()
    # events that are recorded once, when they are new
    notices: tuple[Notice, ...] = ()
    # parts of the plan that could not be made; all others are in it
    faults: tuple[Fault, ...] = ()
    # uids of Workloads for which more jobs would have to give than one Cession holds
    oversized: frozenset[str] = frozenset()


def plan(snapshot: Snapshot, policy: PolicySpec, now: float) -> Plan:
    """What one pass does. A fault in one Cession or for one preemptor is kept from all others."""
    is_observing = policy.mode == "Observe"
    made = (_observe if is_observing else _enforce)(snapshot, policy, now)
    faults = Faults()
    # both in every mode, because they take nothing from anybody
    saves = faults.attempt_all("requested saves", serve_saves, snapshot, now)
    late = faults.attempt_all("late pods", finish_late, snapshot, now)
    return replace(
        made,
        actions=(*made.actions, *saves, *late),
        notices=(*made.notices, *_refusing(snapshot, now)),
        faults=(*made.faults, *faults.all),
    )


def _enforce(snapshot: Snapshot, policy: PolicySpec, now: float) -> Plan:
    """Cessions advance. Then at most one new Cession is opened, for what they leave. Then queues
    and runtimes are set to what they should be. At last jobs may grow.

    While Kueue preempts, nothing new is taken: it would stop whole jobs for the same preemptor.
    Growth waits too, because Kueue would stop others for it.
    """
    faults = Faults()
    open_cessions = [cession for cession in snapshot.cessions if cession.open]
    followed = [cession for cession in snapshot.cessions if not cession.ended]
    steps = [
        _advanced(cession, snapshot, open_cessions, policy, now, faults) for cession in followed
    ]
    is_open = [step.is_open for step in steps]
    still_open = list(compress(followed, is_open))
    advancing = [action for step in steps for action in step.actions]
    stopping = stopped_uids(advancing)
    # A pause is not in the snapshot yet if it begins with this pass.
    ending = _preemptors(followed) - _preemptors(still_open)
    postponed = dict.fromkeys(ending, "its Cession has ended")
    baseless = faults.attempt_all("bases of surpluses", without_bases, snapshot, stopping)
    postponed |= dict.fromkeys(pending_of(baseless, snapshot), WHY_STOPPED)
    claims = Claims(snapshot, open_cessions, policy, now)
    decisions = faults.attempt_all(NEW_CESSIONS, decide, snapshot, claims, now, faults, postponed)
    opened = [decision.opened for decision in decisions if decision.opened]
    opened = [] if snapshot.kueue_preempts else opened
    served = [*open_cessions, *(action.cession for action in opened)]
    claims = Claims(snapshot, served, policy, now) if opened else claims
    targets = target_uids(served)
    overuse = faults.attempt_all(
        "overuse", shrink_overuse, snapshot, targets, policy.preemption, now
    )
    busy = targets | {action.job_uid for action in overuse}
    missing = faults.attempt_all("missing pods", shrink_missing, snapshot, busy, now)
    asked = {uid for step in steps for uid in step.asked}
    asked |= {action.job_uid for action in (*overuse, *missing)}
    following = faults.attempt_all(
        "surpluses", follow_bases, snapshot, now, stopping=stopping, targets=targets
    )
    grown = faults.attempt_all("growth", _grown, snapshot, served, claims, policy, now)
    held_up = (grown, following, snapshot, baseless)
    grown = faults.attempt_all("growth of surpluses", without_held, *held_up)
    actions = (
        # before the record says that the Cession has ended
        *faults.attempt_all("stopped jobs", run_again, snapshot, still_open, now),
        *advancing,
        *faults.attempt_all("jobs set aside", set_aside_events, advancing, snapshot),
        *opened,
        *faults.attempt_all("reservations", restore, snapshot, still_open),
        *overuse,
        *missing,
        *faults.attempt_all("servers", scaled_down, (*advancing, *overuse), snapshot),
        *faults.attempt_all("sizes of runtimes", align_runtimes, snapshot, asked),
        *faults.attempt_all("sizes of stopped jobs", start_small, snapshot),
        *grown,
        *following,
        *faults.attempt_all(
            "growth of servers", _grown_servers, snapshot, served, grown, policy, now
        ),
        *faults.attempt_all("old Cessions", delete_ended, snapshot, now),
    )
    return _planned(actions, decisions, faults, KUEUE_PREEMPTS if snapshot.kueue_preempts else "")


def _preemptors(cessions: Iterable[Cession]) -> set[str]:
    """The uids of their Workloads."""
    return {cession.spec.preemptor.uid for cession in cessions}


def _advanced(
    cession: Cession,
    snapshot: Snapshot,
    open_cessions: Sequence[Cession],
    policy: PolicySpec,
    now: float,
    faults: Faults,
) -> Step:
    """One pass for a Cession. One that cannot be advanced is closed."""
    subject = f"Cession {cession.metadata.name}"
    others = [other for other in open_cessions if other is not cession]
    step = faults.attempt(subject, None, _step, cession, snapshot, others, policy, now)
    if step is not None:
        return step
    reason = faults.all[-1].reason
    return Step(faults.attempt_all(subject, end, cession, Occurrence.BROKEN, now, reason))


def _step(
    cession: Cession,
    snapshot: Snapshot,
    others: Sequence[Cession],
    policy: PolicySpec,
    now: float,
) -> Step:
    step = advance(cession, snapshot, now, others)
    if step.occurrence is not Occurrence.CAPACITY_TAKEN or snapshot.kueue_preempts:
        return step
    amendment = amend(cession, snapshot, others, policy, now)
    if amendment is None:
        return step
    # what is reserved and stopped stays so
    asked = frozenset(target_uids([cession]))
    # an amendment that the server refuses each time must not keep the Cession open for ever
    short_since = once(cession.status.shortTime, now)
    status = cession.status.model_copy(update={"shortTime": short_since})
    return Step((amendment, *recording(cession, status, now)), asked, is_open=True)


def _grown(
    snapshot: Snapshot, served: Sequence[Cession], claims: Claims, policy: PolicySpec, now: float
) -> Iterator[ResizeJob]:
    """Growth into idle capacity; if there is none, into what the team owns and others borrow."""
    unserved = _unserved(served, snapshot)
    promised = {need.flavor for cession in unserved for need in cession.spec.need}
    waiting = {cession.spec.preemptor.uid for cession in unserved}
    grown = list(grow(snapshot, policy, now, promised=promised, claims=waiting))
    if snapshot.kueue_preempts:
        # a slice that cannot be admitted is withdrawn all the same
        return (action for action in grown if action.shrinks)
    if grown or not growable(snapshot, policy, now):
        return iter(grown)
    return claim_growth(
        claims.soon,
        policy,
        now,
        claims.chooser_soon.choose,
        promised=promised,
        busy_queues={cession.spec.preemptor.queue for cession in served},
        paused=paused_growth(snapshot, now),
    )


def _grown_servers(
    snapshot: Snapshot,
    served: Sequence[Cession],
    grown: Iterable[ResizeJob],
    policy: PolicySpec,
    now: float,
) -> Iterator[Action]:
    if snapshot.kueue_preempts:
        return iter(())
    return grow_servers(
        snapshot,
        policy,
        now,
        promised={
            need.flavor for cession in _unserved(served, snapshot) for need in cession.spec.need
        },
        growing={action.job_uid for action in grown},
        busy_queues={cession.spec.preemptor.queue for cession in served},
    )


def _unserved(served: Iterable[Cession], snapshot: Snapshot) -> list[Cession]:
    return [cession for cession in served if find_preemptor(cession, snapshot).pending]


# --- mode Observe ---------------------------------------------------------------------------------
def _observe(snapshot: Snapshot, policy: PolicySpec, now: float) -> Plan:
    """Every Cession ends, and all that was taken is given back; beyond that, no object changes.
    What would be done is recorded as events of the preemptors."""
    faults = Faults()
    claims = Claims(snapshot, (), policy, now)
    baseless = faults.attempt_all("bases of surpluses", without_bases, snapshot, ())
    postponed = dict.fromkeys(pending_of(baseless, snapshot), WHY_STOPPED)
    decisions = faults.attempt_all(NEW_CESSIONS, decide, snapshot, claims, now, faults, postponed)
    observing = Occurrence.OBSERVING
    ended = [
        faults.attempt_all(f"Cession {cession.metadata.name}", end, cession, observing, now)
        for cession in snapshot.cessions
        if not cession.ended
    ]
    actions = (
        *faults.attempt_all("stopped jobs", run_again, snapshot, (), now),
        *faults.attempt_all("surpluses", go_on, snapshot, now),
        *chain.from_iterable(ended),
        *faults.attempt_all("reservations", restore, snapshot, ()),
        *faults.attempt_all(
            "sizes of runtimes", align_runtimes, snapshot, (), only_asked_back=True
        ),
        *faults.attempt_all("servers", give_back, snapshot.servers),
    )
    return _planned(actions, decisions, faults, OBSERVING)


# --- what is reported -----------------------------------------------------------------------------
def _planned(
    actions: tuple[Action, ...],
    decisions: Sequence[Decision],
    faults: Faults,
    withheld: str = "",
) -> Plan:
    """`withheld`: why no Cession is opened; empty if one may be."""
    why = list[str]()
    notices = list[Notice]()
    for decision in decisions:
        sentence = decision.why
        if decision.is_broken:
            notices.append(_notice(decision, SchedulerEvent.NOT_PLANNED, sentence))
        elif decision.opened and withheld:
            sentence = f"{withheld}, nothing is done: {sentence}"
            notices.append(_notice(decision, SchedulerEvent.OBSERVED, sentence))
        why.append(sentence)
    oversized = frozenset(d.preemptor.workload.uid for d in decisions if d.is_oversized)
    return Plan(actions, tuple(why), tuple(notices), tuple(faults.all), oversized)


def _notice(decision: Decision, reason: SchedulerEvent, note: str) -> RecordWorkloadEvent:
    workload = decision.preemptor.workload
    return RecordWorkloadEvent(workload.key, workload.uid, reason, note)


def _refusing(snapshot: Snapshot, now: float) -> Iterator[RecordEvent]:
    for job in snapshot.admitted:
        observed = job.observed
        if observed.refusal and now - observed.refused_since >= REFUSED_S:
            note = f"its pods refuse requests of the scheduler: {observed.refusal}"
            yield RecordEvent(job.job, job.job_uid, SchedulerEvent.REQUESTS_REFUSED, note)
