"""What counts of the pods' reports on their training."""

from elastic_runtime.agent.coordination import CoordinatorState, WorkDone
from elastic_runtime.agent.job_progress import MAX_STEPS, JobProgress
from elastic_runtime.messages import Progress

MEMBERS = (1, 2)


def add(
    job: JobProgress, index: int, progress: Progress, done: WorkDone | None = None
) -> JobProgress:
    job.add(index, done or WorkDone(), progress, MEMBERS, abrupt=False)
    return job


def test_only_the_leading_pod_reports_steps_and_work() -> None:
    job = JobProgress()
    step = Progress(step=4, loss=0.5, seconds=0.1, pause_s=0.02)
    add(job, 2, step, WorkDone(1, 10, 0.1))
    assert (job.step, job.loss, job.step_seconds, job.tally.resizes) == (0, None, [], 0)
    add(job, 1, step, WorkDone(1, 10, 0.1))
    assert (job.step, job.loss, job.step_seconds, job.tally.resizes) == (4, 0.5, [0.1], 1)
    # The first report of a pod is where counting starts.
    assert job.tally.done == WorkDone()
    add(job, 1, Progress(), WorkDone(3, 30, 0.3))
    add(job, 2, Progress(), WorkDone(3, 30, 0.3))
    assert (job.tally.done.steps, job.tally.done.samples) == (2, 20)


def test_any_pod_reports_messages_and_the_end() -> None:
    job = add(JobProgress(), 2, Progress(message="the disk is full", finished=True, step=9))
    assert (job.message, job.finished, job.step) == ("the disk is full", True, 0)
    assert add(job, 2, Progress(message="")).message == ""


def test_what_became_of_a_pod_is_named_until_it_makes_progress_or_withdraws_it() -> None:
    job = add(JobProgress(), 1, Progress(failure="gave up"))
    add(job, 2, Progress(failure="gave up"))
    assert job.text(None) == "pods 1, 2 gave up"
    assert add(job, 1, Progress(failure="")).text(None) == "pod 2 gave up"
    assert add(job, 2, Progress(step=4)).text(None) == ""


def test_pace_is_the_median_of_the_last_steps() -> None:
    job = JobProgress()
    assert job.median_step_s == 0.0
    for number in range(MAX_STEPS + 5):
        add(job, 1, Progress(step=number, seconds=float(number)))
    assert len(job.step_seconds) == MAX_STEPS
    assert job.median_step_s == 15.0


def test_throughput_is_at_the_pace_of_the_last_steps() -> None:
    job = JobProgress()
    add(job, 1, Progress(step=1, seconds=0.5))
    assert job.samples_per_second == 0.0
    add(job, 1, Progress(step=3, seconds=0.5), WorkDone(2, 64, 9.0))
    assert job.samples_per_second == 64.0


def test_kept_state_is_taken_over_only_if_newer() -> None:
    job = JobProgress()
    job.recover(CoordinatorState(durable_step=7, digest="seven", save_s=1.0))
    job.recover(CoordinatorState(durable_step=5, digest="five", save_s=2.0))
    assert (job.durable_step, job.digest, job.save_s) == (7, "seven", 1.0)
