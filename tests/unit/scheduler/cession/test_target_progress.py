"""The progress of one target: what is asked of it, and when it is ready to be released."""

from collections import Counter
from dataclasses import replace

import pytest

from cede.api.cession import Cession
from cede.api.cession_status import TargetStatus
from cede.api.objects import rfc3339
from elastic_runtime.contract import State, Status
from scheduler.actions import RequestSize, ResizeJob, SetWorkloadActive
from scheduler.cession.target_progress import (
    STOP_AFTER_RESIZE_S,
    TargetProgress,
    ending_reason,
    observe,
    ready_s,
    release,
    watch,
)
from scheduler.snapshot.job_pods import JobPods
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import KEY, NOW, admitted, cession, runtime_status, snapshot

STAMP = rfc3339(NOW, micro=True)
CEDED = runtime_status(4, wanted=4, cession="c-1", step=17, durable_step=15)


def picture(job: AdmittedWorkload | None, led_since: float = 0.0) -> Snapshot:
    return snapshot(admitted=[job] if job else [], led_since=led_since)


def progress(
    job: AdmittedWorkload | None, record: Cession | None = None, now: float = NOW
) -> TargetProgress:
    record = record or cession()
    return observe(record, record.spec.targets[0], picture(job), now)


def released(
    job: AdmittedWorkload, record: Cession, now: float = NOW, led_since: float = 0.0
) -> TargetProgress:
    current = picture(job, led_since)
    return release(record, observe(record, record.spec.targets[0], current, now), current, now)


def test_a_runtime_that_was_not_asked_gets_a_request_with_the_time_left() -> None:
    target = progress(admitted())
    assert target.actions == (
        RequestSize(("research", "gpt"), "job-uid-gpt", ("10.0.0.1",), 4, "c-1", 30.0),
    )
    assert not target.ready


def test_a_runtime_that_accepted_the_size_is_asked() -> None:
    resizing = runtime_status(8, wanted=4, cession="c-1", state=State.RESIZING)
    target = progress(admitted(runtime=resizing))
    assert (target.actions, target.status.askedTime, target.ready) == ((), STAMP, False)


def test_a_runtime_that_ceded_is_ready_and_its_steps_are_recorded() -> None:
    target = progress(admitted(runtime=CEDED))
    assert (target.status.cededTime, target.ready) == (STAMP, True)
    assert (target.status.step, target.status.durableStep) == (17, 15)
    assert (target.status.lost_steps, target.status.lost_seconds) == (0, {})


def test_a_recorded_time_is_kept() -> None:
    record = cession(targets=[{"uid": "job-uid-gpt", "askedTime": "before", "cededTime": "before"}])
    status = progress(admitted(runtime=CEDED), record).status
    assert (status.askedTime, status.cededTime) == ("before", "before")


def test_a_job_that_ended_or_shrank_is_released() -> None:
    assert progress(None).status.releasedTime == STAMP
    assert progress(admitted(size=4)).status.releasedTime == STAMP


@pytest.mark.parametrize("job", [None, admitted(active=False, is_evicting=True)])
def test_a_stopped_job_is_gone_when_its_pods_have_ended(job: AdmittedWorkload | None) -> None:
    """Kueue frees its quota at once. Of some kinds it keeps the Workload until then."""
    record = cession("Released", 0, "Stop", targets=[{"uid": "job-uid-gpt", "stopped": True}])
    target = record.spec.targets[0]
    pods = {"job-uid-gpt": JobPods(on_nodes=3, ends_by=NOW + 20)}
    current = snapshot(admitted=[job] if job else [], ending=pods)
    saving = watch(record, target, current, NOW)
    assert (saving.status.releasedTime, saving.status.goneTime) == (STAMP, "")
    assert saving.status.endingPods == 3
    assert ending_reason([saving], current, NOW) == (
        f"Pods of gpt may save until {rfc3339(NOW + 20)}."
    )
    assert "although their grace period is over" in ending_reason([saving], current, NOW + 51)
    ended = watch(record, target, snapshot(), NOW).status
    assert (ended.goneTime, ended.endingPods) == (STAMP, 0)


@pytest.mark.parametrize(("stays", "mark"), [(False, "c-1"), (True, "")])
def test_a_job_that_stays_stopped_is_not_marked_to_run_again(stays: bool, mark: str) -> None:
    job = replace(admitted(allowed_sizes=()), stays_stopped=stays)
    stopped = [{"uid": "job-uid-gpt", "requestedTime": STAMP, "stopped": True}]
    target = released(job, cession("Asked", 0, "Stop", targets=stopped))
    (stop,) = target.actions
    assert isinstance(stop, SetWorkloadActive)
    assert (stop.active, stop.cession, target.status.staysStopped) == (False, mark, stays)


def test_a_job_without_a_runtime_is_ready_at_once() -> None:
    target = progress(admitted(allowed_sizes=(), addresses=()))
    assert (target.actions, target.ready) == ((), True)


# --- release --------------------------------------------------------------------------------------
def test_a_job_that_ceded_is_resized_and_not_forced() -> None:
    target = released(admitted(runtime=CEDED), cession())
    (resize,) = target.actions
    assert isinstance(resize, ResizeJob)
    assert (resize.size, resize.why) == (4, "for claim of vision")
    assert (target.status.resizeRequestedTime, target.status.forcedTime) == (STAMP, "")


def test_a_job_of_which_pods_have_ended_is_not_resized_and_its_quota_counts() -> None:
    """A resize would remove the pods of the highest indexes, which may be those that have work."""
    finishing = admitted(size=6, parallelism=8, ended_pods=2, runtime=CEDED)
    target = released(finishing, cession())
    assert (target.actions, target.status.resizeRequestedTime) == ((), STAMP)
    assert not target.status.releasedTime
    small = admitted(size=4, parallelism=8, ended_pods=4)
    assert progress(small).status.releasedTime == STAMP


def asked(reason: str = "c-1") -> AdmittedWorkload:
    """Its runtime was sent a request, and has not answered."""
    return replace(admitted(), observed=Observed(asked_for=reason, asked_at=NOW - 31))


def test_a_job_that_was_asked_and_has_not_ceded_is_forced() -> None:
    assert released(asked(), requested(31)).status.forcedTime == STAMP
    accepted = requested(31, askedTime=rfc3339(NOW - 30))
    assert released(admitted(), accepted).status.forcedTime == STAMP


@pytest.mark.parametrize(
    ("job", "grace_s"),
    [
        pytest.param(asked(), 0, id="no time to cede"),
        pytest.param(admitted(addresses=()), 30, id="no address"),
        pytest.param(asked("older"), 30, id="asked for another Cession"),
    ],
)
def test_a_job_that_could_not_cede_in_time_is_not_late(job: AdmittedWorkload, grace_s: int) -> None:
    """A job that is not asked because of late answers would be late for ever."""
    record = cession("Asked", grace_s=grace_s, targets=requested(31).status.targets)
    target = released(job, record)
    assert isinstance(target.actions[-1], ResizeJob)
    assert target.status.forcedTime == ""


def test_how_long_a_target_has_been_ready_counts_while_we_lead() -> None:
    """From its answer, or from the end of its grace."""
    current = picture(admitted())
    for record, seconds in (
        (requested(31), 1),
        (requested(600, cededTime=rfc3339(NOW - 5)), 5),
        (requested(10), -20),
    ):
        target = observe(record, record.spec.targets[0], current, NOW)
        assert ready_s(target, current, NOW) == pytest.approx(seconds)
        assert ready_s(target, replace(current, led_since=NOW - 2), NOW) <= 2


def requested(seconds_ago: float, **times: str) -> Cession:
    target = {"uid": "job-uid-gpt", "requestedTime": rfc3339(NOW - seconds_ago)} | times
    return cession("Asked", targets=[target])


@pytest.mark.parametrize("hours", [-1, 0, 1])
def test_a_job_that_ceded_is_shrunk_however_long_nobody_led(hours: int) -> None:
    """The clock of the new leader may differ by an hour, too."""
    record = requested(600, cededTime=rfc3339(NOW - 590))
    now = NOW + 3600 * hours
    target = released(admitted(runtime=CEDED), record, now, led_since=now)
    assert isinstance(target.actions[-1], ResizeJob)
    assert not target.status.stopped


def test_a_job_is_stopped_when_a_resize_had_no_effect_while_we_led() -> None:
    """First that is recorded, then its Workload is deactivated."""
    resized = rfc3339(NOW - STOP_AFTER_RESIZE_S)
    record = requested(60, resizeRequestedTime=resized)
    assert not released(admitted(runtime=CEDED), record, led_since=NOW - 1).status.stopped
    target = released(admitted(runtime=CEDED), record)
    assert (target.actions[1:], target.status.stopped) == ((), True)
    record.status.targets = [target.status]
    target = released(admitted(runtime=CEDED), record)
    assert target.actions == (
        SetWorkloadActive(("research", "job-gpt"), "uid-gpt", False, "for claim of vision", "c-1"),
    )
    assert target.status.stopRequestedTime == STAMP


@pytest.mark.parametrize(
    ("runtime", "steps", "seconds"),
    [
        pytest.param(runtime_status(step=17, durable_step=15), 2, 80.0, id="it reported before"),
        pytest.param(None, None, None, id="nobody could ask it"),
    ],
)
def test_what_a_job_loses_that_is_stopped_without_ceding_is_recorded_once(
    runtime: Status | None, steps: int | None, seconds: float | None
) -> None:
    job = replace(admitted(runtime=runtime), observed=Observed(since=NOW - 10, durable_step=15))
    record = cession("Asked", 0, "Stop", targets=requested(60).status.targets)
    record.status.targets = [released(job, record).status]
    later = released(job, record, NOW + 60).status
    assert (later.lost_steps, later.lost_seconds) == (steps, {KEY: seconds})


@pytest.mark.parametrize(
    ("recorded", "completed", "steps"),
    [
        pytest.param({}, {"job-uid-gpt": 8}, 0, id="it completed at its old size"),
        pytest.param({}, {}, None, id="it failed, was deleted, or lost its quota to Kueue"),
        pytest.param({}, {"job-uid-gpt": 4}, None, id="it completed after it was resized"),
        pytest.param({"stopped": True}, {"job-uid-gpt": 8}, None, id="its stop had begun"),
        pytest.param(
            {"releasedTime": STAMP}, {"job-uid-gpt": 8}, None, id="it lost its quota before"
        ),
    ],
)
def test_a_job_asked_to_shrink_lost_nothing_if_it_completed_before_it_was_resized(
    recorded: dict[str, object], completed: dict[str, int], steps: int | None
) -> None:
    record = cession("Asked", targets=[{"uid": "job-uid-gpt", "askedTime": STAMP, **recorded}])
    current = replace(picture(None), completed=completed)
    status = watch(record, record.spec.targets[0], current, NOW).status
    assert (status.releasedTime, status.lost_steps) == (STAMP, steps)


@pytest.mark.parametrize(("resource", "expected"), [("cpu", True), (KEY[1], False)])
def test_that_a_job_has_no_accelerators_is_recorded(resource: str, expected: bool) -> None:
    job = replace(admitted(), per_pod=Counter({(KEY[0], resource): 1}))
    assert progress(job).status.withoutAccelerators is expected


def test_a_released_target_needs_no_action() -> None:
    target = released(admitted(size=4), cession())
    assert (target.actions, target.status.releasedTime) == ((), STAMP)


def test_a_stop_is_recorded_while_kueue_evicts_a_job_that_may_run_again_already() -> None:
    """A leader let it run again, and died before it recorded the stop."""
    recorded = {"uid": "job-uid-gpt", "stopped": True}
    record = cession("Admitted", 0, "Stop", targets=[recorded])
    assert progress(admitted(is_evicting=True), record).released
    assert not progress(admitted(), record).released


def test_the_end_of_the_pods_is_noted() -> None:
    assert progress(admitted(size=4, ready_pods=6)).status.goneTime == ""
    assert progress(admitted(size=4, ready_pods=4)).status.goneTime == STAMP
    assert progress(None).status.goneTime == STAMP


# --- not needed, or needed again ------------------------------------------------------------------
def test_a_target_that_is_not_needed_is_forgotten() -> None:
    record = requested(5, askedTime=rfc3339(NOW - 4))
    current = picture(admitted(runtime=CEDED))
    target = observe(record, record.spec.targets[0], current, NOW, needed=False)
    assert (target.status, target.actions) == (TargetStatus(uid="job-uid-gpt"), ())
    assert not target.needed


def test_a_job_that_came_back_at_its_old_size_is_asked_again() -> None:
    record = requested(60, cededTime="x", releasedTime=rfc3339(NOW - 50))
    target = progress(admitted(), record)
    assert isinstance(target.actions[0], RequestSize)
    assert (target.status.cededTime, target.status.requestedTime) == ("", STAMP)
