"""A target that is raised after its Cession began is set back before it is stopped: Kueue 0.19.2
runs its pods on without quota once it is stopped while a scale-up slice is pending."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.cession import Cession
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
from tests.builders.scheduler import NOW, admitted, cession, pending, snapshot

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
    target = observe(record, record.spec.targets[0], current, NOW)
    released = release(record, target, current, NOW)
    assert released.status.stopRequestedTime == rfc3339(NOW, micro=True)
    return tuple(a for a in released.actions if isinstance(a, ResizeJob | SetWorkloadActive))


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
        assert running.now - NOW < GRACE_S + EVICTION_TIMEOUT_S + ADMISSION_TIMEOUT_S + 5
    assert running.active
    assert running.record.status.phase is CessionPhase.FAILED
    assert not running.record.status.targets[0].releasedTime
