"""The progress of one target: what is asked of it, and when it is ready to be released."""

from cede.api.cession import Cession
from cede.api.objects import rfc3339
from elastic_runtime.contract import State
from scheduler.actions import RequestSize, ResizeJob, SetWorkloadActive
from scheduler.target_progress import STOP_AFTER_DEADLINE_S, TargetProgress, observe, release
from scheduler.workloads import AdmittedWorkload
from tests.builders.scheduler import NOW, admitted, cession, runtime_status, snapshot

STAMP = rfc3339(NOW, micro=True)
CEDED = runtime_status(4, wanted=4, cession="c-1", step=17, durable_step=15)


def progress(job: AdmittedWorkload | None, record: Cession | None = None) -> TargetProgress:
    record = record or cession()
    jobs = [job] if job else []
    return observe(record, record.spec.targets[0], snapshot(admitted=jobs), NOW)


def test_a_runtime_that_was_not_asked_gets_a_request_with_the_time_left() -> None:
    target = progress(admitted())
    assert target.actions == (
        RequestSize(("research", "gpt"), "job-uid-gpt", "10.0.0.1", 4, "c-1", 30.0),
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


def test_a_recorded_time_is_kept() -> None:
    record = cession(targets=[{"uid": "job-uid-gpt", "askedTime": "before", "cededTime": "before"}])
    status = progress(admitted(runtime=CEDED), record).status
    assert (status.askedTime, status.cededTime) == ("before", "before")


def test_a_job_that_ended_or_shrank_is_released() -> None:
    assert progress(None).status.releasedTime == STAMP
    assert progress(admitted(size=4)).status.releasedTime == STAMP


def test_a_job_without_a_runtime_is_ready_at_once() -> None:
    target = progress(admitted(allowed_sizes=(), address=""))
    assert (target.actions, target.ready) == ((), True)


# --- release --------------------------------------------------------------------------------------
def test_a_job_that_ceded_is_resized_and_not_forced() -> None:
    target = release(cession(), progress(admitted(runtime=CEDED)), NOW)
    (resize,) = target.actions
    assert isinstance(resize, ResizeJob)
    assert (resize.size, resize.why) == (4, "for claim of vision")
    assert target.status.forcedTime == ""


def test_a_job_that_has_not_ceded_is_forced() -> None:
    late = cession(deadline=NOW - 1)
    assert release(late, progress(admitted(), late), NOW).status.forcedTime == STAMP


def test_a_job_that_cannot_be_resized_is_stopped_after_the_deadline() -> None:
    """First that is recorded, then its Workload is deactivated."""
    late = cession(deadline=NOW - STOP_AFTER_DEADLINE_S)
    target = release(late, progress(admitted(runtime=CEDED), late), NOW)
    assert (target.actions, target.status.stopped) == ((), True)
    late.status.targets = [target.status]
    target = release(late, progress(admitted(runtime=CEDED), late), NOW)
    assert target.actions == (
        SetWorkloadActive(
            ("research", "job-gpt"), "uid-gpt", False, "for claim of vision", late.metadata.name
        ),
    )


def test_a_released_target_needs_no_action() -> None:
    target = progress(admitted(size=4))
    assert release(cession(), target, NOW) == target
