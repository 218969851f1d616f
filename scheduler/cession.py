"""The life of a take-back: what is next, from what the cluster shows. Every step can be taken again without harm. Pure.

phase      what happened                 next
Planned    a victim's runtime was asked  Asked       (or, with nobody to ask, at once Released)
Asked      all have ceded, or deadline   Released    (the Jobs are smaller: Kueue frees their quota)
Released   Kueue admits the claimant     Admitted    (its queue is as before; stopped victims may come back)
Admitted   its pods are ready            Running
any open   the claimant is gone          Cancelled   (who has not given keeps its size)
any open   admitted without us           Admitted
Released   still not admitted in time    Failed      (look again, plan again)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cede.api.cession import Cession, CessionStatus, Phase, Victim, VictimStatus
from cede.api.objects import rfc3339, set_condition, unix
from scheduler.acts import Act, Activate, Ask, Queueing, Record, Resize, Tell
from scheduler.snapshot import Running, Snapshot, Waiting

AGAIN_S = 10.0  # released, and yet not admitted for so long: the picture has changed
TABLE: dict[Phase, tuple[Phase, ...]] = {
    "Planned": ("Asked", "Released", "Admitted", "Running", "Cancelled"),
    "Asked": ("Released", "Admitted", "Running", "Cancelled"),
    "Released": ("Admitted", "Running", "Cancelled", "Failed"),
    "Admitted": ("Running", "Cancelled"),
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
    return Claimant(waiting, next((r for r in seen.running if r.uid == uid), None), uid in seen.finished)


def advance(cession: Cession, seen: Snapshot, now: float) -> Iterator[Act]:
    """What is to be done now for an open Cession, the record last."""
    claimant = find(cession, seen)
    status = cession.status.model_copy(deep=True)
    queue = seen.tree.queues.get(cession.spec.claimant.queue)
    if claimant.waiting and claimant.waiting.active:
        if queue and queue.strategy != "StrictFIFO":
            yield Queueing(queue.name, "StrictFIFO", queue.version)
        victims = []
        for victim in cession.spec.victims:
            said, acts = _give(cession, victim, seen, now)
            victims.append(said)
            yield from acts
        status.victims = victims
        _count(cession, status, now)
    else:
        _end(claimant, cession, status, now)
        if status.phase != "Cancelled" or claimant.gone:
            yield from _return(cession, status, seen)
    if status != cession.status:
        if status.phase != cession.status.phase and status.phase not in TABLE[cession.status.phase]:
            raise ValueError(f"a Cession cannot go from {cession.status.phase} to {status.phase}")
        yield Record(cession.metadata.name, _in_words(cession, status, now))
        if status.phase != cession.status.phase:
            yield from _tell(cession, status)


def _give(cession: Cession, victim: Victim, seen: Snapshot, now: float) -> tuple[VictimStatus, list[Act]]:
    """One victim: ask, note that it ceded, release it once it has or the deadline is over."""
    said = cession.of(victim.uid).model_copy(update={"job": victim.job})
    job = next((r for r in seen.running if r.job_uid == victim.uid or (not victim.uid and r.key[1] == victim.workload)), None)
    deadline = unix(cession.spec.deadline)
    if job is None:  # it ended, or was stopped: what it held is free
        said.released = said.released or rfc3339(now, micro=True)
        return said, []
    if victim.how == "Shrink" and job.parallelism <= victim.toSize:  # done, by us or by a leader before us
        said.released = said.released or rfc3339(now, micro=True)
        return said, []
    acts: list[Act] = []
    answer = job.status
    elastic = bool(job.address) and bool(job.allowed)
    heard = answer is not None and answer.cession == cession.metadata.name and answer.wanted == victim.toSize
    if not said.released and elastic and not heard:
        acts.append(Ask(job.job, job.job_uid, job.address, victim.toSize, cession.metadata.name, max(0.0, deadline - now)))
    if heard and not said.asked:
        said.asked = rfc3339(now, micro=True)
    if heard and answer and answer.ceded(victim.toSize) and not said.ceded:
        said.ceded, said.step, said.durableStep = rfc3339(now, micro=True), answer.step, answer.durableStep
    late = now >= deadline
    if not (said.ceded or late or not elastic):
        return said, acts
    said.forced = said.forced or (not said.ceded and elastic)
    why = f"for {cession.spec.claimant.job or cession.spec.claimant.workload} of {cession.spec.claimant.queue}"
    if victim.how == "Shrink":
        acts.append(Resize(job.job, job.job_uid, job.job_version, victim.toSize, True, why))
    if victim.how == "Stop" and job.active:
        said.stopped = True
        acts.append(Activate(job.key, False, why))
    if victim.how == "Stop" and not job.active:
        said.stopped, said.released = True, said.released or rfc3339(now, micro=True)
    return said, acts


def _count(cession: Cession, status: CessionStatus, now: float) -> None:
    if status.phase in ("Planned", "Asked") and all(v.released for v in status.victims):
        status.phase, status.message = "Released", "Everything asked for is given; Kueue admits the claimant next."
    elif status.phase == "Planned" and any(v.asked for v in status.victims):
        status.phase, status.message = "Asked", "The jobs are finishing their step."
    elif status.phase == "Released":
        released = max((unix(v.released) for v in status.victims), default=0.0)
        if now - max(released, unix(cession.spec.deadline) if any(v.stopped for v in status.victims) else 0.0) > AGAIN_S:
            status.phase, status.message = "Failed", "What was given did not let the claimant in; it is planned again."


def _end(claimant: Claimant, cession: Cession, status: CessionStatus, now: float) -> None:
    stamp = rfc3339(now, micro=True)
    if claimant.running:
        status.admitted = status.admitted or stamp
        pods_ready = claimant.running.ready >= claimant.running.size > 0 or not claimant.running.job_uid
        status.phase, status.message = ("Running", "The owner runs.") if pods_ready else ("Admitted", "Admitted; its pods are starting.")
    elif claimant.finished:
        status.admitted, status.phase, status.message = status.admitted or stamp, "Running", "The owner ran and is done."
    else:
        status.phase, status.message = "Cancelled", "The claimant is gone; who had not given keeps its size."
    if status.phase == "Running" and not status.ready:
        status.ready = stamp
        status.secondsToOwner = f"{now - unix(cession.spec.claimant.created):.1f}"
    if status.phase in ("Running", "Cancelled"):
        status.ended = status.ended or stamp


def _return(cession: Cession, status: CessionStatus, seen: Snapshot) -> Iterator[Act]:
    """What was stopped for it may come back; the queue's strategy is put back by `plan`, where no open claim needs it."""
    for said in status.victims:
        if said.stopped:
            for waiting in seen.waiting:
                if waiting.job_uid == said.uid and not waiting.active:
                    yield Activate(waiting.key, True, "the capacity was handed over")


def _in_words(cession: Cession, status: CessionStatus, now: float) -> CessionStatus:
    gives = [f"{v.job} {v.fromSize}→{v.toSize}" if v.how == "Shrink" else f"{v.job} stops" for v in cession.spec.victims]
    ready = True if status.phase == "Running" else False if status.phase in ("Cancelled", "Failed") else None
    old = [c if isinstance(c, dict) else c.model_dump() for c in status.conditions]
    conditions = set_condition(
        old, "Ready", ready, status.phase, status.message or "planned", generation=cession.metadata.generation or 1, now=now
    )
    return CessionStatus.model_validate(
        status.model_dump() | {"gives": ", ".join(gives), "conditions": conditions, "observedGeneration": cession.metadata.generation or 1}
    )


def _tell(cession: Cession, status: CessionStatus) -> Iterator[Act]:
    by = cession.spec.claimant
    if status.phase == "Released":
        for victim in cession.spec.victims:
            how = f"shrank to {victim.toSize}" if victim.how == "Shrink" else "stopped"
            step = status_step(status, victim.uid)
            yield Tell(
                (victim.namespace, victim.job),
                victim.uid,
                "Ceded",
                f"{how} for {by.job or by.workload} of {by.queue}{step}: {cession.spec.why}",
            )


def status_step(status: CessionStatus, uid: str) -> str:
    found = next((v for v in status.victims if v.uid == uid), None)
    return f" after step {found.step}" if found and found.step else ""
