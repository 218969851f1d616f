"""The plan as a whole: several Cessions at once, no thrashing, and both modes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.cession import Cession, TargetStatus
from cede.api.objects import Meta
from cede.api.policy import PolicySpec, Preemption
from cede.api.reasons import CessionPhase
from scheduler.actions import (
    Action,
    DeleteCession,
    OpenCession,
    RequestSize,
    ResizeJob,
    SetQueueingStrategy,
)
from scheduler.plan import plan
from scheduler.snapshot import Snapshot
from scheduler.workloads import AdmittedWorkload
from tests.builders.scheduler import (
    GPU,
    KEY,
    NOW,
    admitted,
    cession,
    cohort_quota,
    pending,
    queue,
    runtime_status,
    snapshot,
)

POLICY = PolicySpec(preemption=Preemption(minRuntimeSeconds=0, growCooldownSeconds=60))


def planned(current: Snapshot, now: float = NOW) -> list[Action]:
    return list(plan(current, POLICY, now).actions)


def opened(actions: list[Action]) -> list[Cession]:
    return [action.cession for action in actions if isinstance(action, OpenCession)]


def resizes(actions: list[Action]) -> list[ResizeJob]:
    return [action for action in actions if isinstance(action, ResizeJob)]


# --- a new Cession --------------------------------------------------------------------------------
def test_nobody_stops_for_what_an_eviction_frees() -> None:
    evicted = admitted("old", size=4, allowed_sizes=(), is_evicting=True)
    other = admitted("other", size=4, allowed_sizes=())
    assert not opened(planned(snapshot(admitted=[evicted, other], pending=[pending()])))


def test_nobody_is_asked_while_kueue_counts_less_than_its_workloads_have() -> None:
    """What the claim lacks may be free already."""
    claim = snapshot(admitted=[admitted()], pending=[pending()], disagreement=frozenset({KEY}))
    assert not opened(planned(claim))
    assert "differs from Kueue's own count" in plan(claim, POLICY, NOW).why[0]


def test_a_disagreement_about_another_flavor_delays_nobody() -> None:
    other = frozenset({("h100", GPU)})
    claim = snapshot(admitted=[admitted()], pending=[pending()], disagreement=other)
    assert opened(planned(claim))


def test_a_job_that_is_evicted_is_asked_for_nothing() -> None:
    evicted = admitted("old", size=2, allowed_sizes=(), is_evicting=True)
    other = admitted("other", size=6, allowed_sizes=())
    (made,) = opened(planned(snapshot(admitted=[evicted, other], pending=[pending()])))
    assert [target.job for target in made.spec.targets] == ["other"]


def test_a_preemptor_opens_a_cession() -> None:
    """It is named after the preemptor and the attempt."""
    (made,) = opened(planned(snapshot(admitted=[admitted()], pending=[pending()])))
    assert made.metadata.name == "claim-uid-clai-1"
    assert [(t.job, t.fromSize, t.toSize, t.how) for t in made.spec.targets] == [
        ("gpt", 8, 4, "Shrink")
    ]


def test_another_attempt_opens_a_cession_of_another_name() -> None:
    failed = cession("Failed")
    current = snapshot(admitted=[admitted()], pending=[pending()], cessions=[failed])
    (made,) = opened(planned(current))
    assert made.metadata.name == "claim-uid-clai-2"


def test_mode_observe_explains_what_it_would_do_and_does_nothing() -> None:
    observe = POLICY.model_copy(update={"mode": "Observe"})
    decision = plan(snapshot(admitted=[admitted()], pending=[pending()]), observe, NOW)
    assert not decision.actions
    assert "nothing is done" in decision.why[0]


# --- several at once ------------------------------------------------------------------------------
def test_an_open_cession_does_not_delay_another_team() -> None:
    quota = cohort_quota(
        queue("vision"), queue("speech", used=0), queue("research", used=8), queue("other", used=8)
    )
    current = snapshot(
        quota,
        admitted=[admitted(), admitted("bert", "other", allowed_sizes=tuple(range(1, 9)))],
        pending=[pending(), pending("asr", "speech")],
        cessions=[cession("Asked")],
    )
    (second,) = opened(planned(current))
    assert second.spec.preemptor.queue == "speech"
    # gpt is the target of the first
    assert [target.job for target in second.spec.targets] == ["bert"]


def test_what_one_cession_releases_is_not_available_to_another() -> None:
    quota = cohort_quota(queue("vision"), queue("speech"), queue("research", used=12))
    current = snapshot(
        quota,
        admitted=[admitted(size=12, allowed_sizes=(2, 8, 12))],
        pending=[pending(), pending("asr", "speech")],
        cessions=[cession("Asked")],
    )
    assert opened(planned(current)) == []


def test_nothing_grows_into_what_a_preemptor_waits_for() -> None:
    job = admitted("other", size=2, runtime=runtime_status(2, wanted=2))
    waiting = snapshot(
        cohort_quota(queue("vision", used=2), queue("research", used=2)),
        admitted=[job],
        pending=[pending()],
        cessions=[cession("Asked")],
    )
    assert not resizes(planned(waiting))


def test_jobs_grow_while_the_pods_of_a_preemptor_start() -> None:
    owner = admitted("claim", "vision", 4, (), ready_pods=0)
    job = admitted("other", "speech", 2, runtime=runtime_status(2, wanted=2))
    quota = cohort_quota(queue("vision", used=4), queue("research"), queue("speech", used=2))
    record = cession("Admitted")
    current = snapshot(quota, admitted=[owner, job], cessions=[record])
    assert [action.size for action in resizes(planned(current))] == [8]


def test_a_stopped_job_does_not_preempt_while_its_preemptor_exists() -> None:
    stopped = TargetStatus(uid="job-uid-gpt", stopped=True)
    record = cession("Completed", to_size=0, how="Stop", targets=[stopped])
    returning = pending("gpt", "research", job_uid="job-uid-gpt", pods=4, priority=90)
    owner = admitted("claim", "vision", size=4, allowed_sizes=())
    current = snapshot(
        admitted=[owner, admitted("low", "research", size=4, priority=10)],
        pending=[returning],
        cessions=[record],
    )
    assert opened(planned(current)) == []
    assert opened(planned(replace(current, cessions=()))), "without the record it would"


# --- what must hold whatever happened before ------------------------------------------------------
@pytest.mark.parametrize("phase", ["Completed", "Cancelled", "Failed"])
def test_a_strict_queue_without_an_open_cession_is_restored(phase: str) -> None:
    quota = cohort_quota(queue("vision", strategy="StrictFIFO"), queue("research"))
    assert planned(snapshot(quota, cessions=[cession(phase)])) == [
        SetQueueingStrategy("vision", "BestEffortFIFO", "7")
    ]


def test_a_runtime_is_asked_for_the_size_of_its_job() -> None:
    """But not while it is the target of an open Cession."""
    job = admitted(runtime=runtime_status(4, wanted=4, cession="c-1"))
    requests = [a for a in planned(snapshot(admitted=[job])) if isinstance(a, RequestSize)]
    assert [request.size for request in requests] == [8]
    target = snapshot(admitted=[job], pending=[pending()], cessions=[cession("Asked")])
    assert not [action for action in planned(target) if isinstance(action, RequestSize)]


def test_a_cession_is_deleted_thirty_days_after_its_creation() -> None:
    old = cession("Completed").model_copy(
        update={"metadata": Meta(name="c-0", uid="u", creationTimestamp="1970-01-01T00:00:00Z")}
    )
    actions = planned(snapshot(cessions=[old]), now=31 * 86400.0)
    assert actions == [DeleteCession("c-0", "u")]


# --- no thrashing ---------------------------------------------------------------------------------
def after(current: Snapshot, made: Cession) -> Snapshot:
    """The cluster after the Cession: every target has shrunk or stopped, the preemptor runs."""
    to_sizes = {target.uid: target.toSize for target in made.spec.targets}
    stopped = [job for job in current.admitted if to_sizes.get(job.identity) == 0]
    jobs = [
        _resized(job, to_sizes[job.identity]) if job.identity in to_sizes else job
        for job in current.admitted
        if job not in stopped
    ]
    owner = next(w for w in current.pending if w.uid == made.spec.preemptor.uid)
    owner_runs = admitted(
        owner.job[1],
        owner.queue,
        owner.requested[GPU],
        (),
        priority=owner.priority,
        job_uid=owner.job_uid,
    )
    returning = [
        pending(job.job[1], job.queue, job.size, job.priority, job_uid=job.job_uid)
        for job in stopped
    ]
    made.status.phase = CessionPhase.COMPLETED
    made.status.targets = [
        TargetStatus(uid=target.uid, stopped=target.how == "Stop", releasedTime="x")
        for target in made.spec.targets
    ]
    others = [workload for workload in current.pending if workload.uid != owner.uid]
    return snapshot(
        admitted=[*jobs, replace(owner_runs, uid=owner.uid)],
        pending=[*others, *returning],
        cessions=[*current.cessions, made],
    )


def _resized(job: AdmittedWorkload, size: int) -> AdmittedWorkload:
    return admitted(
        job.job[1],
        job.queue,
        size,
        job.allowed_sizes,
        priority=job.priority,
        shrunk_at=NOW,
        runtime=runtime_status(size, wanted=size),
    )


shapes = st.lists(
    st.tuples(st.integers(1, 5), st.booleans(), st.sampled_from([10, 50, 90])),
    min_size=1,
    max_size=4,
)


@settings(deadline=None)
@given(
    borrowers=shapes,
    own=st.integers(0, 3),
    pods=st.integers(1, 4),
    priority=st.sampled_from([10, 50, 90]),
)
def test_after_a_cession_nothing_preempts_and_nothing_grows_back(
    borrowers: list[tuple[int, bool, int]], own: int, pods: int, priority: int
) -> None:
    """The cooldown holds."""
    jobs = [
        admitted(
            str(i),
            "research",
            size,
            tuple(range(1, size + 1)) if elastic else (),
            priority=job_priority,
            runtime=runtime_status(size, wanted=size),
        )
        for i, (size, elastic, job_priority) in enumerate(borrowers)
    ]
    own_job = [admitted("own", "vision", own, (), priority=50)] if own else []
    current = snapshot(admitted=[*jobs, *own_job], pending=[pending(pods=pods, priority=priority)])
    made = opened(planned(current))
    if not made:
        return
    actions = planned(after(current, made[0]), now=NOW + 1)
    assert not opened(actions)
    assert not resizes(actions)
