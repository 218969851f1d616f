"""PURE. (Snapshot, policy, now) → the actions of one pass, and why."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from cede.api.cession import Cession
from cede.api.policy import PolicySpec
from scheduler.actions import (
    Action,
    DeleteCession,
    OpenCession,
    RequestSize,
)
from scheduler.advance import advance, find_preemptor
from scheduler.assignments import assignments
from scheduler.cohort import CohortQuota
from scheduler.growth import grow
from scheduler.job_history import read_history
from scheduler.missing_pods import shrink_missing
from scheduler.new_cession import new_cession
from scheduler.overuse import shrink_overuse
from scheduler.preemption_plan import Target
from scheduler.preemptors import growth_request, preemptors
from scheduler.reservation import restore
from scheduler.snapshot import Snapshot
from scheduler.stopped_jobs import run_again
from scheduler.target_progress import find_job
from scheduler.targets import TargetChooser
from scheduler.workloads import AdmittedWorkload

MAX_ENDED_CESSIONS = 1000
RETENTION_S = 30 * 86400.0
"""Ended Cessions are deleted after this time, or when there are more than MAX_ENDED_CESSIONS."""


@dataclass(frozen=True, slots=True)
class Plan:
    # in the order in which they must be performed
    actions: tuple[Action, ...]
    # a sentence for every preemptor that was examined
    why: tuple[str, ...]


def plan(snapshot: Snapshot, policy: PolicySpec, now: float) -> Plan:
    """Open Cessions advance. Then at most one new Cession is opened, for what they leave. Then
    queues and runtimes are set to what they should be. At last jobs may grow."""
    open_cessions = [cession for cession in snapshot.cessions if cession.open]
    advanced = [action for c in open_cessions for action in advance(c, snapshot, now)]
    opened, why = open_one(snapshot, open_cessions, policy, now)
    restored = [*restore(snapshot, open_cessions), *run_again(snapshot, open_cessions)]
    overuse = list(shrink_overuse(snapshot, _target_uids(open_cessions)))
    busy = _target_uids([*open_cessions, *(action.cession for action in opened)])
    busy |= {action.job_uid for action in overuse}
    missing = list(shrink_missing(snapshot, busy, now))
    asked = _asked_uids(snapshot, open_cessions)
    asked |= {action.job_uid for action in (*overuse, *missing)}
    aligned = align_runtimes(snapshot, asked)
    unserved = [c for c in open_cessions if find_preemptor(c, snapshot).pending]
    unserved += [action.cession for action in opened]
    grown = grow(
        snapshot,
        policy,
        now,
        promised={need.flavor for cession in unserved for need in cession.spec.need},
        claims={cession.spec.preemptor.uid for cession in unserved},
    )
    deleted = delete_ended(snapshot, now)
    return Plan(
        (*advanced, *opened, *restored, *overuse, *missing, *aligned, *grown, *deleted), why
    )


def _target_uids(cessions: Sequence[Cession]) -> set[str]:
    return {target.uid for cession in cessions for target in cession.spec.targets}


def _asked_uids(snapshot: Snapshot, open_cessions: Sequence[Cession]) -> set[str]:
    """The targets of Cessions whose preemptor is still pending."""
    pending = [c for c in open_cessions if find_preemptor(c, snapshot).pending]
    return _target_uids(pending)


# --- a new Cession --------------------------------------------------------------------------------
def open_one(
    snapshot: Snapshot, open_cessions: Sequence[Cession], policy: PolicySpec, now: float
) -> tuple[tuple[OpenCession, ...], tuple[str, ...]]:
    """At most one new Cession, and a sentence for every preemptor that was examined. In mode
    Observe there are only the sentences.

    What one Cession releases is promised, so the next preemptor is examined in the next pass.
    """
    after = after_cessions(snapshot, open_cessions)
    queues = {cession.spec.preemptor.queue for cession in open_cessions}
    sentences = list[str]()
    history = read_history(snapshot.cessions, now)
    chooser = TargetChooser(after, policy, history, now)
    fair_shares = policy.idleCompute == "FairShare"
    for preemptor in preemptors(after, queues, history, fair_shares=fair_shares):
        decision = chooser.choose(preemptor)
        if decision.targets and policy.mode == "Enforce":
            attempt = 1 + _attempts(snapshot, preemptor.workload.uid)
            cession = new_cession(decision, attempt, policy.preemption, now)
            return (OpenCession(cession),), (*sentences, decision.why)
        prefix = "mode Observe, nothing is done: " if decision.targets else ""
        sentences.append(prefix + decision.why)
    return (), tuple(sentences)


def _attempts(snapshot: Snapshot, uid: str) -> int:
    """The number of Cessions that this Workload has had."""
    return sum(1 for cession in snapshot.cessions if cession.spec.preemptor.uid == uid)


def after_cessions(snapshot: Snapshot, open_cessions: Sequence[Cession]) -> Snapshot:
    """The snapshot as it will be when all open Cessions are completed, and all evictions: the
    preemptors use what is released. Targets and evicted jobs are no candidates any more."""
    quota = snapshot.quota
    for cession in open_cessions:
        quota = _after_cession(snapshot, quota, cession)
    targets = _target_uids(open_cessions)
    others = [job for job in snapshot.admitted if job.identity not in targets]
    for job in others:
        if job.is_evicting:
            quota = quota.after_removing(job.queue, job.usage)
    admitted = tuple(job for job in others if not job.is_evicting)
    return replace(snapshot, quota=quota, admitted=admitted)


def _after_cession(snapshot: Snapshot, quota: CohortQuota, cession: Cession) -> CohortQuota:
    pending = find_preemptor(cession, snapshot).pending
    if pending is None:
        return quota
    for target in cession.spec.targets:
        job = find_job(target, snapshot)
        # the quota of an inactive job is free already
        if job and job.active and target.toSize < job.size:
            quota = quota.after_removing(job.queue, Target(job, target.toSize).released)
    growing = next((job for job in snapshot.admitted if job.job_uid == pending.job_uid), None)
    if pending.is_scale_up and growing:
        return quota.after_adding(pending.queue, growth_request(pending, growing))
    needed = {(need.flavor, need.resource) for need in cession.spec.need}
    requests = assignments(pending.pod_sets, quota.queues[pending.queue])
    request = next((request for request in requests if needed <= request.keys()), Counter())
    return quota.after_adding(pending.queue, request)


# --- what must hold whatever happened before ------------------------------------------------------
def align_runtimes(snapshot: Snapshot, asked: Collection[str]) -> Iterator[RequestSize]:
    """Runtimes are asked for the size that their Job has. Jobs in `asked`, by uid, are left out:
    they were asked for another size on purpose."""
    for job in snapshot.admitted:
        if job.job_uid not in asked and _has_other_size(job):
            yield RequestSize(job.job, job.job_uid, job.address, job.parallelism)


def _has_other_size(job: AdmittedWorkload) -> bool:
    if not job.allowed_sizes or not job.address or job.runtime is None:
        return False
    return job.runtime.wanted != job.parallelism


def delete_ended(snapshot: Snapshot, now: float) -> Iterator[DeleteCession]:
    ended = [cession for cession in snapshot.cessions if not cession.open]
    for newer, cession in enumerate(reversed(ended)):
        if newer >= MAX_ENDED_CESSIONS or now - cession.metadata.created > RETENTION_S:
            yield DeleteCession(cession.metadata.name, cession.metadata.uid)
