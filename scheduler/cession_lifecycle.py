"""The life of a take-back: what is next, from what the cluster shows. Every step can be taken again
without harm. Pure.

phase      what happened                 next
Pending    a victim's runtime was asked  Asked       (or, with nobody to ask, at once Released)
Asked      all have ceded, or deadline   Released    (the Jobs are smaller: Kueue frees their quota)
Released   Kueue admits the claimant     Admitted    (its queue is as before; stopped victims may
come back)
Admitted   its pods are ready            Completed
any open   the claimant is gone          Cancelled   (who has not given keeps its size)
any open   admitted without us           Admitted
Released   still not admitted in time    Failed      (look again, plan again)
Admitted   it lost its place again       Failed
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cede.api.cession import OPEN, Cession, CessionStatus, Target, TargetStatus
from cede.api.objects import rfc3339, set_condition, unix
from cede.api.reasons import CessionPhase, SchedulerEvent
from scheduler.actions import Act, Activate, Ask, Queueing, Record, Resize, Tell
from scheduler.preemptors import assignments
from scheduler.snapshot import Running, Snapshot, Waiting

# past the deadline, and its Job still cannot be made smaller: then it is stopped
STUBBORN_S = 15.0
# released, and yet not admitted for so long: the picture has changed
AGAIN_S = 10.0
TABLE: dict[CessionPhase, tuple[CessionPhase, ...]] = {
    CessionPhase.PENDING: (
        CessionPhase.ASKED,
        CessionPhase.RELEASED,
        CessionPhase.ADMITTED,
        CessionPhase.COMPLETED,
        CessionPhase.CANCELLED,
    ),
    CessionPhase.ASKED: (
        CessionPhase.RELEASED,
        CessionPhase.ADMITTED,
        CessionPhase.COMPLETED,
        CessionPhase.CANCELLED,
    ),
    CessionPhase.RELEASED: (
        CessionPhase.ADMITTED,
        CessionPhase.COMPLETED,
        CessionPhase.CANCELLED,
        CessionPhase.FAILED,
    ),
    CessionPhase.ADMITTED: (CessionPhase.COMPLETED, CessionPhase.CANCELLED, CessionPhase.FAILED),
    CessionPhase.COMPLETED: (),
    CessionPhase.CANCELLED: (),
    CessionPhase.FAILED: (),
}


@dataclass(frozen=True, slots=True)
class PreemptorState:
    """Where the claimant is now."""

    waiting: Waiting | None
    running: Running | None
    finished: bool

    @property
    def gone(self) -> bool:
        return not (self.waiting or self.running or self.finished)


def find(cession: Cession, seen: Snapshot) -> PreemptorState:
    uid = cession.spec.preemptor.uid
    waiting = next((w for w in seen.waiting if w.uid == uid), None)
    return PreemptorState(
        waiting, next((r for r in seen.running if r.uid == uid), None), uid in seen.finished
    )


def victim_of(victim: Target, seen: Snapshot) -> Running | None:
    return next((r for r in seen.running if r.identity == victim.uid), None)


def advance(cession: Cession, seen: Snapshot, now: float) -> Iterator[Act]:
    """What is to be done now for an open Cession, the record last."""
    claimant = find(cession, seen)
    status = cession.status.model_copy(deep=True)
    queue = seen.tree.queues.get(cession.spec.preemptor.queue)
    if claimant.waiting and claimant.waiting.active and queue:
        if (
            cession.spec.reserved
            and queue.strategy != "StrictFIFO"
            and status.phase != CessionPhase.ADMITTED
        ):
            yield Queueing(queue.name, "StrictFIFO", queue.version)
        looked = [
            _look(cession, victim, victim_of(victim, seen), now) for victim in cession.spec.targets
        ]
        # what is not kept for the claimant is freed all at once
        burst = cession.spec.reserved or all(one.ready for one in looked)
        for one in looked:
            yield from one.asks
            if one.ready and burst:
                yield from _release(cession, one, now)
        status.targets = [one.said for one in looked]
        fits = any(
            seen.tree.fits(queue.name, request) for request in assignments(claimant.waiting, queue)
        )
        _count(cession, status, fits, now)
    else:
        status.targets = [
            _look(cession, victim, victim_of(victim, seen), now).said
            for victim in cession.spec.targets
        ]
        _end(claimant, cession, status, now)
    if claimant.running or status.phase not in OPEN:
        yield from _return(status, seen, last=status.phase not in OPEN)
    if status != cession.status:
        if status.phase != cession.status.phase and status.phase not in TABLE[cession.status.phase]:
            raise ValueError(f"a Cession cannot go from {cession.status.phase} to {status.phase}")
        yield Record(cession.metadata.name, _in_words(cession, status, now))
        if cession.status.phase in (CessionPhase.PENDING, CessionPhase.ASKED) and status.phase in (
            CessionPhase.RELEASED,
            CessionPhase.ADMITTED,
            CessionPhase.COMPLETED,
        ):
            yield from _tell(cession, status)


@dataclass(slots=True)
class Look:
    """One victim as it is now."""

    victim: Target
    job: Running | None
    said: TargetStatus
    # nothing of value is left beyond its new size, or nobody is waited for any more
    ready: bool
    asks: tuple[Act, ...] = ()


def _look(cession: Cession, victim: Target, job: Running | None, now: float) -> Look:
    """Ask for what it has not heard yet; note that it was asked, ceded, released, or late."""
    said = cession.target_status(victim.uid).model_copy(update={"job": victim.job})
    stamp = rfc3339(now, micro=True)
    if job is None or (
        victim.how == "Shrink" and not said.stopped and job.parallelism <= victim.toSize
    ):
        # by us, or by a leader before us; or it ended, and what it held is free
        said.releasedTime = said.releasedTime or stamp
        return Look(victim, job, said, ready=True)
    if not job.active and said.stopped:
        said.releasedTime = said.releasedTime or stamp
    deadline = unix(cession.spec.deadline)
    answer = job.status
    asks = list[Act]()
    heard = (
        answer is not None
        and answer.cession == cession.metadata.name
        and answer.wanted == victim.toSize
    )
    if job.allowed and job.address and not heard and not said.stopped:
        asks.append(
            Ask(
                job.job,
                job.job_uid,
                job.address,
                victim.toSize,
                cession.metadata.name,
                max(0.0, deadline - now),
            )
        )
    if heard and answer:
        said.askedTime = said.askedTime or stamp
        if answer.ceded(victim.toSize) and not said.cededTime:
            said.cededTime = stamp
            said.step = answer.step
            said.durableStep = answer.durableStep
    late = now >= deadline
    return Look(victim, job, said, bool(said.cededTime) or late or not job.allowed, tuple(asks))


def _release(cession: Cession, look: Look, now: float) -> Iterator[Act]:
    """Resize it, or stop it: that only after the record says so, for what is stopped must come back
    even if we die in between."""
    job = look.job
    victim = look.victim
    said = look.said
    if job is None or said.releasedTime:
        return
    if job.allowed and not said.cededTime:
        said.forcedTime = said.forcedTime or rfc3339(now, micro=True)
    why = (
        f"for {cession.spec.preemptor.job or cession.spec.preemptor.workload} of "
        f"{cession.spec.preemptor.queue}"
    )
    stubborn = now >= unix(cession.spec.deadline) + STUBBORN_S
    if victim.how == "Shrink" and not stubborn:
        yield Resize(job.job, job.job_uid, job.job_version, victim.toSize, True, why)
        return
    said.stopped = True
    if cession.target_status(victim.uid).stopped and job.active:
        yield Activate(job.key, False, why)


def _count(cession: Cession, status: CessionStatus, fits: bool, now: float) -> None:
    if status.phase in (CessionPhase.PENDING, CessionPhase.ASKED) and all(
        v.releasedTime for v in status.targets
    ):
        status.phase = CessionPhase.RELEASED
        status.message = "Everything asked for is given; Kueue admits the claimant next."
    elif status.phase == CessionPhase.PENDING and any(v.askedTime for v in status.targets):
        status.phase = CessionPhase.ASKED
        status.message = "The jobs are finishing their step."
    elif status.phase == CessionPhase.ADMITTED:
        status.phase = CessionPhase.FAILED
        status.message = "The claimant was admitted and lost it again; it is planned again."
    elif status.phase == CessionPhase.RELEASED and not fits:
        released = max((unix(v.releasedTime) for v in status.targets), default=0.0)
        if (
            now
            - max(
                released,
                unix(cession.spec.deadline) if any(v.stopped for v in status.targets) else 0.0,
            )
            > AGAIN_S
        ):
            status.phase = CessionPhase.FAILED
            status.message = "What was given did not let the claimant in; it is planned again."
    if status.phase == CessionPhase.FAILED:
        status.completionTime = rfc3339(now, micro=True)


def _end(claimant: PreemptorState, cession: Cession, status: CessionStatus, now: float) -> None:
    stamp = rfc3339(now, micro=True)
    if claimant.running:
        status.admittedTime = status.admittedTime or stamp
        pods_ready = (
            claimant.running.ready >= claimant.running.size > 0 or not claimant.running.job_uid
        )
        status.phase, status.message = (
            (CessionPhase.COMPLETED, "The owner runs.")
            if pods_ready
            else (CessionPhase.ADMITTED, "Admitted; its pods are starting.")
        )
    elif claimant.finished:
        status.admittedTime = status.admittedTime or stamp
        status.phase = CessionPhase.COMPLETED
        status.message = "The owner ran and is done."
    else:
        why = "is gone" if claimant.gone else "was made inactive"
        status.phase = CessionPhase.CANCELLED
        status.message = f"The claimant {why}; who had not given keeps its size."
    if status.phase == CessionPhase.COMPLETED and not status.readyTime:
        status.readyTime = stamp
        status.secondsToOwner = f"{now - unix(cession.spec.preemptor.creationTime):.1f}"
    if status.phase in (CessionPhase.COMPLETED, CessionPhase.CANCELLED):
        status.completionTime = status.completionTime or stamp


def _return(status: CessionStatus, seen: Snapshot, last: bool) -> Iterator[Act]:
    """What was stopped for it may come back; the queue's strategy is put back by `plan`, where no
    open claim needs it.

    The `last` time it is said even to those who look active: our own stop may not show yet.
    """
    stopped = {said.uid for said in status.targets if said.stopped}
    held: list[Waiting | Running] = [*seen.waiting, *seen.running]
    for found in held:
        if found.identity in stopped and (last or not found.active):
            yield Activate(found.key, True, "the capacity was handed over")


def _in_words(cession: Cession, status: CessionStatus, now: float) -> CessionStatus:
    gives = [
        f"{v.job} {v.fromSize}→{v.toSize}" if v.how == "Shrink" else f"{v.job} stops"
        for v in cession.spec.targets
    ]
    ready = (
        True
        if status.phase == CessionPhase.COMPLETED
        else False
        if status.phase in (CessionPhase.CANCELLED, CessionPhase.FAILED)
        else None
    )
    old = [c if isinstance(c, dict) else c.model_dump() for c in status.conditions]
    conditions = set_condition(
        old,
        "Ready",
        ready,
        status.phase,
        status.message or "planned",
        generation=cession.metadata.generation or 1,
        now=now,
    )
    return CessionStatus.model_validate(
        status.model_dump()
        | {
            "targetSummary": ", ".join(gives),
            "conditions": conditions,
            "observedGeneration": cession.metadata.generation or 1,
        }
    )


def _tell(cession: Cession, status: CessionStatus) -> Iterator[Act]:
    by = cession.spec.preemptor
    for victim in cession.spec.targets:
        said = next(
            (v for v in status.targets if v.uid == victim.uid), TargetStatus(uid=victim.uid)
        )
        if said.releasedTime:
            how = f"shrank to {victim.toSize}" if victim.how == "Shrink" else "stopped"
            step = f" after step {said.step}" if said.step else ""
            note = f"{how} for {by.job or by.workload} of {by.queue}{step}: {cession.spec.why}"
            yield Tell((victim.namespace, victim.job), victim.uid, SchedulerEvent.CEDED, note)
