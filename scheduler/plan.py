"""(Snapshot, Policy, now) → what to do, and why. Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from cede.api.cession import Cession, CessionSpec, Need, Preemptor, Target
from cede.api.objects import Meta, rfc3339
from cede.api.policy import PolicySpec
from cede.api.resources import describe_amount
from scheduler.actions import Act, Ask, Forget, Open, Queueing
from scheduler.cession_lifecycle import advance, find, victim_of
from scheduler.growth import excess, grow
from scheduler.preemptors import Claim, assignments, claims
from scheduler.snapshot import Running, Snapshot
from scheduler.victims import Give, Way, choose

KEEP = 1000
KEEP_S = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Plan:
    acts: tuple[Act, ...]
    # a sentence for every claim that was looked at
    why: tuple[str, ...]


def plan(seen: Snapshot, policy: PolicySpec, now: float) -> Plan:
    """Running take-backs go on; then one new claim, on what they leave; then levels that must hold;
    then growth."""
    acts = list[Act]()
    why = list[str]()
    enforce = policy.mode == "Enforce"
    running = [c for c in seen.cessions if c.open]
    for cession in running:
        acts += advance(cession, seen, now)
    left = _promised(seen, running)
    for claim in claims(left, {c.spec.preemptor.queue for c in running}, _barred(seen)):
        way = choose(claim, left.tree, left.running, now, policy.preemption.minRuntimeSeconds)
        why.append(
            way.why if enforce or not way.gives else f"mode Observe, nothing is done: {way.why}"
        )
        if way.gives and enforce:
            acts.append(Open(_cession(claim, way, seen, policy, now)))
            # what it frees is promised: the next claim is looked at in the next pass
            break
    acts += _queues(seen, running)
    giving = {v.uid for c in running for v in c.spec.targets}
    over = list(excess(seen, giving))
    acts += over
    asked_back = {v.uid for c in running if find(c, seen).waiting for v in c.spec.targets}
    acts += _levels(seen, asked_back | {act.job_uid for act in over})
    promised = bool(running) or any(isinstance(act, Open) for act in acts)
    acts += grow(seen, now, policy.preemption.growCooldownSeconds, promised)
    acts += _forget(seen, now)
    return Plan(tuple(acts), tuple(why))


def _promised(seen: Snapshot, running: Sequence[Cession]) -> Snapshot:
    """The picture in which every open take-back is done: what it frees is its claimant's, and its
    victims give no more."""
    tree = seen.tree
    giving = set[str]()
    for cession in running:
        waiting = find(cession, seen).waiting
        for victim in cession.spec.targets:
            giving.add(victim.uid)
            job = victim_of(victim, seen)
            if job and waiting and victim.toSize < job.size:
                tree = tree.using(job.queue, Give(job, victim.toSize).freed(), -1)
        if waiting:
            keys = {(need.flavor, need.resource) for need in cession.spec.need}
            requests = assignments(waiting, tree.queues[waiting.queue])
            tree = tree.using(
                waiting.queue, next((r for r in requests if keys <= r.keys()), Counter())
            )
    return replace(
        seen, tree=tree, running=tuple(r for r in seen.running if r.identity not in giving)
    )


def _barred(seen: Snapshot) -> set[str]:
    """Who was stopped for a claimant that is still there asks for nothing: it would only take turns
    with it."""
    held = {r.uid for r in seen.running} | {w.uid for w in seen.waiting}
    stopped = {
        v.uid
        for c in seen.cessions
        if c.spec.preemptor.uid in held
        for v in c.status.targets
        if v.stopped
    }
    return {w.uid for w in seen.waiting if w.identity in stopped}


def _cession(claim: Claim, way: Way, seen: Snapshot, policy: PolicySpec, now: float) -> Cession:
    """Named after the claimant and the try, so that writing it twice is writing it once."""
    by = claim.by
    tries = sum(1 for c in seen.cessions if c.spec.preemptor.uid == by.uid)
    grace = max(
        (give.job.grace_s or policy.preemption.graceSeconds for give in way.gives), default=0.0
    )
    targets = [
        Target(
            namespace=give.job.job[0] or give.job.key[0],
            job=give.job.job[1],
            uid=give.job.identity,
            workload=give.job.key[1],
            queue=give.job.queue,
            fromSize=give.job.size,
            toSize=give.to,
            how="Stop" if give.stop else "Shrink",
        )
        for give in way.gives
    ]
    return Cession(
        metadata=Meta(
            name=f"{(by.job[1] or by.key[1])[:40].rstrip('.-')}-{by.uid[:8]}-{tries + 1}"
        ),
        spec=CessionSpec(
            reason=way.reason,
            preemptor=Preemptor(
                namespace=by.key[0],
                workload=by.key[1],
                uid=by.uid,
                job=by.job[1],
                queue=by.queue,
                priorityClass=by.priority_class,
                creationTime=by.created,
            ),
            need=[
                Need(flavor=f, resource=r, amount=describe_amount(r, amount).removesuffix(f" {r}"))
                for (f, r), amount in sorted(claim.missing.items())
            ],
            targets=targets,
            deadline=rfc3339(now + min(grace, policy.preemption.maxGraceSeconds)),
            why=way.why,
            reserved=claim.reserved,
        ),
    )


def _queues(seen: Snapshot, running: list[Cession]) -> Iterator[Act]:
    """A queue on StrictFIFO that no waiting claimant needs is put back: also after a crash between
    two writes."""
    waiting = {w.uid for w in seen.waiting if w.active}
    needed = {
        c.spec.preemptor.queue
        for c in running
        if c.spec.reserved and c.spec.preemptor.uid in waiting
    }
    for queue in seen.tree.queues.values():
        if queue.ours and queue.strategy == "StrictFIFO" and queue.name not in needed:
            yield Queueing(queue.name, "BestEffortFIFO", queue.version)


def _levels(seen: Snapshot, giving: Collection[str]) -> Iterator[Act]:
    """What a runtime was asked for and its Job's size agree, but where a take-back is under way."""
    for job in seen.running:
        if job.allowed and job.status and job.job_uid not in giving and _disagree(job):
            yield Ask(job.job, job.job_uid, job.address, job.parallelism, "", 0.0)


def _disagree(job: Running) -> bool:
    return job.status is not None and bool(job.address) and job.status.wanted != job.parallelism


def _forget(seen: Snapshot, now: float) -> Iterator[Act]:
    done = [c for c in seen.cessions if not c.open]
    for i, cession in enumerate(reversed(done)):
        if i >= KEEP or now - cession.metadata.created > KEEP_S:
            yield Forget(cession.metadata.name, cession.metadata.uid)
