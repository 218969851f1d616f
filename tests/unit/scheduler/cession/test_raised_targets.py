"""A target that is raised after its Cession began is set back before it is stopped: Kueue 0.19.2
runs its pods on without quota once it is stopped while a scale-up slice is pending."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.cession import Cession
from cede.api.cession_status import CessionStatus
from cede.api.objects import rfc3339
from cede.api.reasons import CessionPhase
from scheduler.actions import Action, ResizeJob, SetWorkloadActive, UpdateCession
from scheduler.cession.advance import Step, advance
from scheduler.cession.cession_lifecycle import ADMISSION_TIMEOUT_S, Occurrence
from scheduler.cession.target_progress import (
    EVICTION_TIMEOUT_S,
    STOP_AFTER_RESIZE_S,
    observe,
    release,
)
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from tests.builders.scheduler import (
    NOW,
    admitted,
    cession,
    cohort_quota,
    pending,
    queue,
    snapshot,
)

GRACE_S = 30
STOPPED = {"uid": "job-uid-gpt", "stopped": True, "requestedTime": rfc3339(NOW - 60)}
"""It is recorded that the Cession stops it."""
RAW = admitted(allowed_sizes=(), addresses=())
"""A Job that Kueue resizes, from before its namespace became a team's."""
RAISED = replace(RAW, parallelism=12)
OF_RAY = replace(RAW, job_version="", parallelism=0)
GROWN_BY_CEDE = admitted(size=6, parallelism=8)


def slice_of(job: AdmittedWorkload, name: str = "slice") -> PendingWorkload:
    return pending(name, job.queue, 4, job_uid=job.job_uid, is_scale_up=True)


def picture(job: AdmittedWorkload, *slices: PendingWorkload) -> Snapshot:
    return snapshot(admitted=[job], pending=[pending(), *slices], is_reserved=True)


def actions_on(current: Snapshot, record: Cession) -> tuple[Action, ...]:
    """The time in which Kueue must end the job begins when it is stopped, not before."""
    target = observe(record, record.spec.targets[0], current, NOW)
    released = release(record, target, current, NOW)
    actions = tuple(a for a in released.actions if isinstance(a, ResizeJob | SetWorkloadActive))
    stops = any(isinstance(action, SetWorkloadActive) for action in actions)
    assert released.status.stopRequestedTime == (rfc3339(NOW, micro=True) if stops else "")
    return actions


@pytest.mark.parametrize(
    ("current", "set_back_to"),
    [
        pytest.param(picture(RAISED, slice_of(RAISED)), 8, id="raised by others"),
        pytest.param(picture(GROWN_BY_CEDE, slice_of(GROWN_BY_CEDE)), 6, id="grown by Cede"),
        pytest.param(picture(GROWN_BY_CEDE), 6, id="grown, and Kueue has not made the slice yet"),
    ],
)
def test_a_raised_job_is_set_back_and_not_stopped(current: Snapshot, set_back_to: int) -> None:
    (action,) = actions_on(current, cession("Asked", 0, "Stop", targets=[STOPPED]))
    assert isinstance(action, ResizeJob)
    assert (action.size, action.shrinks) == (set_back_to, True)


def test_a_slice_of_an_object_that_nobody_can_set_back_is_waited_for() -> None:
    record = cession("Asked", 0, "Stop", targets=[STOPPED])
    assert actions_on(picture(OF_RAY, slice_of(OF_RAY)), record) == ()


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(RAW, id="the slice is withdrawn"),
        pytest.param(replace(RAW, size=12, parallelism=12, uid="uid-slice"), id="it is admitted"),
    ],
)
def test_it_is_stopped_once_no_slice_is_pending(job: AdmittedWorkload) -> None:
    (action,) = actions_on(picture(job), cession("Asked", 0, "Stop", targets=[STOPPED]))
    assert isinstance(action, SetWorkloadActive)
    assert (action.uid, action.active) == (job.uid, False)


def test_a_raised_job_whose_shrink_had_no_effect_is_set_back_too() -> None:
    resized = rfc3339(NOW - STOP_AFTER_RESIZE_S)
    record = cession("Asked", targets=[STOPPED | {"resizeRequestedTime": resized}])
    (action,) = actions_on(picture(GROWN_BY_CEDE), record)
    assert isinstance(action, ResizeJob)


# --- over many passes -----------------------------------------------------------------------------
@dataclass
class World:
    """A raw Job of eight pods, whoever raises it, and a Kueue that follows in the next pass."""

    record: Cession
    now: float = NOW
    size: int = 8
    parallelism: int = 8
    active: bool = True
    # how often Kueue had made a new Workload for it
    slices: int = 0

    @property
    def job(self) -> AdmittedWorkload:
        job = replace(RAW, size=self.size, uid=f"uid-{self.slices}", active=self.active)
        return replace(job, parallelism=self.parallelism, is_evicting=not self.active)

    @property
    def is_raised(self) -> bool:
        return self.parallelism > self.size

    def one_pass(self, *, raises: bool, fits: bool, seconds: float = 1.0) -> Step:
        """Its user raises it or not. What fits is admitted, in place of what it was."""
        self.now += seconds
        self.parallelism += 4 if raises and self.active else 0
        if self.is_raised and fits:
            self.size = self.parallelism
            self.slices += 1
        slices = [slice_of(self.job)] if self.is_raised else []
        step = advance(self.record, picture(self.job, *slices), self.now)
        for action in step.actions:
            self.perform(action)
        return step

    def perform(self, action: Action) -> None:
        if isinstance(action, UpdateCession):
            self.record = self.record.model_copy(update={"status": action.status})
        elif isinstance(action, ResizeJob):
            self.parallelism = action.size
        elif isinstance(action, SetWorkloadActive) and not action.active:
            assert not self.is_raised, "its pods would run on without quota"
            assert action.uid == self.job.uid
            self.active = False


def world() -> World:
    return World(cession(to_size=0, how="Stop", grace_s=GRACE_S))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=20))
@settings(max_examples=50, deadline=None)
def test_it_is_stopped_soon_after_it_was_raised_last(moves: Sequence[tuple[bool, bool]]) -> None:
    """Whatever is admitted meanwhile, and whenever."""
    running = world()
    for raises, fits in moves:
        running.one_pass(raises=raises, fits=fits)
    for _ in range(4):
        running.one_pass(raises=False, fits=False)
    assert not running.active
    assert running.record.status.targets[0].releasedTime


def test_a_job_that_is_raised_again_and_again_is_given_up_and_never_stopped() -> None:
    """Its Cession gets other targets, or fails and is planned for again."""
    running = world()
    occurrences = list[Occurrence | None]()
    while Occurrence.CAPACITY_TAKEN not in occurrences:
        occurrences.append(running.one_pass(raises=True, fits=False).occurrence)
        waited_s = STOP_AFTER_RESIZE_S + EVICTION_TIMEOUT_S + ADMISSION_TIMEOUT_S
        assert running.now - NOW < waited_s + 5
    assert running.active
    assert running.record.status.phase is CessionPhase.FAILED
    assert not running.record.status.targets[0].releasedTime


# --- beside another target ------------------------------------------------------------------------
OTHER = replace(RAW, key=("research", "job-other"), uid="uid-other", job_uid="job-uid-other")


def of_two(*statuses: dict[str, object], phase: str = "Asked") -> Cession:
    """Both targets stop, and that is recorded."""
    stops = [{"uid": uid, "stopped": True} for uid in ("job-uid-gpt", "job-uid-other")]
    record = cession(phase, 0, "Stop", GRACE_S, targets=list(statuses) or stops)
    first = record.spec.targets[0]
    record.spec.targets.append(first.model_copy(update={"uid": OTHER.job_uid, "job": "other"}))
    return record


def both(job: AdmittedWorkload, *slices: PendingWorkload) -> Snapshot:
    """The preemptor needs what both release."""
    quota = cohort_quota(queue("vision", 16, strategy="StrictFIFO"), queue("research", 0, used=16))
    waiting = [pending(pods=16), *slices]
    return snapshot(quota, admitted=[job, OTHER], pending=waiting)


def stopped_by(step: Step) -> set[str]:
    return {a.uid for a in step.actions if isinstance(a, SetWorkloadActive)}


def recorded_by(step: Step) -> CessionStatus:
    (status,) = [a.status for a in step.actions if isinstance(a, UpdateCession)]
    return status


def test_no_other_target_is_stopped_before_one_that_was_raised_is_set_back() -> None:
    step = advance(of_two(), both(RAISED, slice_of(RAISED)), NOW)
    assert [a.size for a in step.actions if isinstance(a, ResizeJob)] == [8]
    assert not stopped_by(step)
    assert not any(target.stopRequestedTime for target in recorded_by(step).targets)
    assert stopped_by(advance(of_two(), both(RAW), NOW)) == {RAW.uid, OTHER.uid}


def test_no_other_target_is_stopped_if_one_cannot_be_set_back_and_the_rest_does_not_suffice() -> (
    None
):
    record, current = of_two(), both(OF_RAY, slice_of(OF_RAY))
    for second in range(120):
        step = advance(record, current, NOW + second)
        assert not stopped_by(step)
        for action in step.actions:
            if isinstance(action, UpdateCession):
                record = record.model_copy(update={"status": action.status})
        if not step.is_open:
            break
    assert step.occurrence is Occurrence.CAPACITY_TAKEN
    assert not record.status.releasedTime
    assert "Given up, because they still use their quota: gpt." in record.status.message


def test_the_record_names_a_target_that_was_given_up_where_the_others_suffice() -> None:
    since = rfc3339(NOW - STOP_AFTER_RESIZE_S - EVICTION_TIMEOUT_S)
    given_up = STOPPED | {"resizeRequestedTime": since}
    is_stopped = {"uid": OTHER.job_uid, "stopped": True, "stopRequestedTime": since}
    ended = replace(OTHER, active=False, is_evicting=True)
    quota = cohort_quota(queue("vision", 8, strategy="StrictFIFO"), queue("research", 8, used=8))
    waiting = (pending(pods=8), slice_of(OF_RAY))
    current = snapshot(quota, admitted=[OF_RAY, ended], pending=waiting)
    step = advance(of_two(given_up, is_stopped), current, NOW)
    assert step.occurrence is Occurrence.ALL_RELEASED
    assert recorded_by(step).message == (
        "The targets were resized or stopped; Kueue admits the preemptor next. "
        "Given up, because they still use their quota: gpt."
    )
