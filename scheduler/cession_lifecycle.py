"""The life of a take-back: what is next, from what the cluster shows. Every step can be taken again
without harm. Pure.

phase      what happened                 next
Planned    a victim's runtime was asked  Asked       (or, with nobody to ask, at once Released)
Asked      all have ceded, or deadline   Released    (the Jobs are smaller: Kueue frees their quota)
Released   Kueue admits the claimant     Admitted    (its queue is as before; stopped victims may
come back)
Admitted   its pods are ready            Running
any open   the claimant is gone          Cancelled   (who has not given keeps its size)
any open   admitted without us           Admitted
Released   still not admitted in time    Failed      (look again, plan again)
Admitted   it lost its place again       Failed
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cede.api.cession import OPEN, Cession, CessionStatus, Phase, Victim, VictimStatus
from cede.api.objects import rfc3339, set_condition, unix
from scheduler.actions import Act, Activate, Ask, Queueing, Record, Resize, Tell
from scheduler.preemptors import assignments
from scheduler.snapshot import Running, Snapshot, Waiting

# past the deadline, and its Job still cannot be made smaller: then it is stopped
STUBBORN_S = 15.0
# released, and yet not admitted for so long: the picture has changed
AGAIN_S = 10.0
TABLE: dict[Phase, tuple[Phase, ...]] = {
    "Planned": ("Asked", "Released", "Admitted", "Running", "Cancelled"),
    "Asked": ("Released", "Admitted", "Running", "Cancelled"),
    "Released": ("Admitted", "Running", "Cancelled", "Failed"),
    "Admitted": ("Running", "Cancelled", "Failed"),
    "Running": (),
    "Cancelled": (),
    "Failed": (),
}


@dataclass(frozen=True, slots=True)
class Claimant:
    """Where the claimant is now."""

    waiting: Waiting | None
    running: Running | None
    finished: bool

    @property
    def gone(self) -> bool:
        return not (self.waiting or self.running or self.finished)


def find(cession: Cession, seen: Snapshot) -> Claimant:
    uid = cession.spec.claimant.uid
    waiting = next((w for w in seen.waiting if w.uid == uid), None)
    return Claimant(
        waiting, next((r for r in seen.running if r.uid == uid), None), uid in seen.finished
    )


def victim_of(victim: Victim, seen: Snapshot) -> Running | None:
    return next((r for r in seen.running if r.identity == victim.uid), None)


def advance(cession: Cession, seen: Snapshot, now: float) -> Iterator[Act]:
    """What is to be done now for an open Cession, the record last."""
    claimant = find(cession, seen)
    status = cession.status.model_copy(deep=True)
    queue = seen.tree.queues.get(cession.spec.claimant.queue)
    if claimant.waiting and claimant.waiting.active and queue:
        if cession.spec.reserved and queue.strategy != "StrictFIFO" and status.phase != "Admitted":
            yield Queueing(queue.name, "StrictFIFO", queue.version)
        looked = [
            _look(cession, victim, victim_of(victim, seen), now) for victim in cession.spec.victims
        ]
        # what is not kept for the claimant is freed all at once
        burst = cession.spec.reserved or all(one.ready for one in looked)
        for one in looked:
            yield from one.asks
            if one.ready and burst:
                yield from _release(cession, one, now)
        status.victims = [one.said for one in looked]
        fits = any(
            seen.tree.fits(queue.name, request) for request in assignments(claimant.waiting, queue)
        )
        _count(cession, status, fits, now)
    else:
        status.victims = [
            _look(cession, victim, victim_of(victim, seen), now).said
            for victim in cession.spec.victims
        ]
        _end(claimant, cession, status, now)
    if claimant.running or status.phase not in OPEN:
        yield from _return(status, seen, last=status.phase not in OPEN)
    if status != cession.status:
        if status.phase != cession.status.phase and status.phase not in TABLE[cession.status.phase]:
            raise ValueError(f"a Cession cannot go from {cession.status.phase} to {status.phase}")
        yield Record(cession.metadata.name, _in_words(cession, status, now))
        if cession.status.phase in ("Planned", "Asked") and status.phase in (
            "Released",
            "Admitted",
            "Running",
        ):
            yield from _tell(cession, status)


@dataclass(slots=True)
class Look:
    """One victim as it is now."""

    victim: Victim
    job: Running | None
    said: VictimStatus
    # nothing of value is left beyond its new size, or nobody is waited for any more
    ready: bool
    asks: tuple[Act, ...] = ()


def _look(cession: Cession, victim: Victim, job: Running | None, now: float) -> Look:
    """Ask for what it has not heard yet; note that it was asked, ceded, released, or late."""
    said = cession.of(victim.uid).model_copy(update={"job": victim.job})
    stamp = rfc3339(now, micro=True)
    if job is None or (
        victim.how == "Shrink" and not said.stopped and job.parallelism <= victim.toSize
    ):
        # by us, or by a leader before us; or it ended, and what it held is free
        said.released = said.released or stamp
        return Look(victim, job, said, ready=True)
    if not job.active and said.stopped:
        said.released = said.released or stamp
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
        said.asked = said.asked or stamp
        if answer.ceded(victim.toSize) and not said.ceded:
            said.ceded = stamp
            said.step = answer.step
            said.durableStep = answer.durableStep
    late = now >= deadline
    return Look(victim, job, said, bool(said.ceded) or late or not job.allowed, tuple(asks))


def _release(cession: Cession, look: Look, now: float) -> Iterator[Act]:
    """Resize it, or stop it: that only after the record says so, for what is stopped must come back
    even if we die in between."""
    job = look.job
    victim = look.victim
    said = look.said
    if job is None or said.released:
        return
    said.forced = said.forced or (bool(job.allowed) and not said.ceded)
    why = (
        f"for {cession.spec.claimant.job or cession.spec.claimant.workload} of "
        f"{cession.spec.claimant.queue}"
    )
    stubborn = now >= unix(cession.spec.deadline) + STUBBORN_S
    if victim.how == "Shrink" and not stubborn:
        yield Resize(job.job, job.job_uid, job.job_version, victim.toSize, True, why)
        return
    said.stopped = True
    if cession.of(victim.uid).stopped and job.active:
        yield Activate(job.key, False, why)


def _count(cession: Cession, status: CessionStatus, fits: bool, now: float) -> None:
    if status.phase in ("Planned", "Asked") and all(v.released for v in status.victims):
        status.phase = "Released"
        status.message = "Everything asked for is given; Kueue admits the claimant next."
    elif status.phase == "Planned" and any(v.asked for v in status.victims):
        status.phase = "Asked"
        status.message = "The jobs are finishing their step."
    elif status.phase == "Admitted":
        status.phase = "Failed"
        status.message = "The claimant was admitted and lost it again; it is planned again."
    elif status.phase == "Released" and not fits:
        released = max((unix(v.released) for v in status.victims), default=0.0)
        if (
            now
            - max(
                released,
                unix(cession.spec.deadline) if any(v.stopped for v in status.victims) else 0.0,
            )
            > AGAIN_S
        ):
            status.phase = "Failed"
            status.message = "What was given did not let the claimant in; it is planned again."
    if status.phase == "Failed":
        status.ended = rfc3339(now, micro=True)


def _end(claimant: Claimant, cession: Cession, status: CessionStatus, now: float) -> None:
    stamp = rfc3339(now, micro=True)
    if claimant.running:
        status.admitted = status.admitted or stamp
        pods_ready = (
            claimant.running.ready >= claimant.running.size > 0 or not claimant.running.job_uid
        )
        status.phase, status.message = (
            ("Running", "The owner runs.")
            if pods_ready
            else ("Admitted", "Admitted; its pods are starting.")
        )
    elif claimant.finished:
        status.admitted = status.admitted or stamp
        status.phase = "Running"
        status.message = "The owner ran and is done."
    else:
        why = "is gone" if claimant.gone else "was made inactive"
        status.phase = "Cancelled"
        status.message = f"The claimant {why}; who had not given keeps its size."
    if status.phase == "Running" and not status.ready:
        status.ready = stamp
        status.secondsToOwner = f"{now - unix(cession.spec.claimant.created):.1f}"
    if status.phase in ("Running", "Cancelled"):
        status.ended = status.ended or stamp


def _return(status: CessionStatus, seen: Snapshot, last: bool) -> Iterator[Act]:
    """What was stopped for it may come back; the queue's strategy is put back by `plan`, where no
    open claim needs it.

    The `last` time it is said even to those who look active: our own stop may not show yet.
    """
    stopped = {said.uid for said in status.victims if said.stopped}
    held: list[Waiting | Running] = [*seen.waiting, *seen.running]
    for found in held:
        if found.identity in stopped and (last or not found.active):
            yield Activate(found.key, True, "the capacity was handed over")


def _in_words(cession: Cession, status: CessionStatus, now: float) -> CessionStatus:
    gives = [
        f"{v.job} {v.fromSize}→{v.toSize}" if v.how == "Shrink" else f"{v.job} stops"
        for v in cession.spec.victims
    ]
    ready = (
        True
        if status.phase == "Running"
        else False
        if status.phase in ("Cancelled", "Failed")
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
            "gives": ", ".join(gives),
            "conditions": conditions,
            "observedGeneration": cession.metadata.generation or 1,
        }
    )


def _tell(cession: Cession, status: CessionStatus) -> Iterator[Act]:
    by = cession.spec.claimant
    for victim in cession.spec.victims:
        said = next(
            (v for v in status.victims if v.uid == victim.uid), VictimStatus(uid=victim.uid)
        )
        if said.released:
            how = f"shrank to {victim.toSize}" if victim.how == "Shrink" else "stopped"
            step = f" after step {said.step}" if said.step else ""
            note = f"{how} for {by.job or by.workload} of {by.queue}{step}: {cession.spec.why}"
            yield Tell((victim.namespace, victim.job), victim.uid, "Ceded", note)
