"""After a Cession nothing preempts in turn, and nothing grows back at once."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.cession import Cession
from cede.api.cession_status import TargetStatus
from cede.api.objects import rfc3339
from cede.api.reasons import CessionPhase
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.plans import opened, planned, resizes
from tests.builders.scheduler import GPU, NOW, admitted, pending, runtime_status, snapshot


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
        owner.pod_sets[0].requested[GPU],
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
        TargetStatus(uid=target.uid, stopped=target.how == "Stop", releasedTime=rfc3339(NOW))
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
