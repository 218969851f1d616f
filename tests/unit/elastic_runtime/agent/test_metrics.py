"""The metrics of a job add up, and every family is described."""

from elastic_runtime.agent.coordination import WorkDone
from elastic_runtime.agent.metrics import CAUSES, Tally, format_job, format_pod, work_since
from elastic_runtime.contract import State, Status


def parse(text: str) -> dict[str, float]:
    samples = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name.removeprefix("elastic_runtime_"): float(value) for name, value in samples}


def test_seconds_by_cause_add_up() -> None:
    tally = Tally()
    tally.add_state(4.0, State.STARTING)
    tally.add_work(WorkDone(10, 480, 3.0))
    # Training time is counted by its steps, not by the state.
    tally.add_state(3.0, State.TRAINING)
    tally.add_pause(0.05, abrupt=False)
    tally.add_pause(0.4, abrupt=True)
    tally.add_save(0.01)
    tally.add_state(2.0, State.STOPPING)
    tally.add_state(5.0, State.STOPPED)
    status = Status(state=State.TRAINING, step=10, stepSeconds=0.3, samplesPerSecond=160.0, size=4)
    metrics = parse(format_job(status, tally))
    by_cause = {cause: metrics[f'seconds_total{{cause="{cause}"}}'] for cause in CAUSES}
    assert by_cause == {"train": 3.0, "resize": 0.05, "recover": 0.4, "save": 2.01, "wait": 9.0}
    assert metrics["resizes_total"] == 1
    assert metrics["recoveries_total"] == 1
    assert metrics["saves_total"] == 1
    assert metrics["step"] == 10
    assert metrics["step_seconds"] == 0.3
    assert metrics["samples_total"] == 480
    assert metrics["samples_per_second"] == 160


def test_work_is_counted_once_and_from_0_for_a_new_agent() -> None:
    first = WorkDone(3, 30, 1.0)
    second = WorkDone(5, 50, 1.5)
    assert work_since(second, first) == WorkDone(2, 20, 0.5)
    assert work_since(second, second) == WorkDone()
    assert work_since(first, second) == first


def test_every_family_has_its_help_and_type() -> None:
    text = format_job(Status(), Tally()) + format_pod(3, 1, 1, slowest_answer_s=0.02, own_s=0.1)
    lines = text.splitlines()
    helped = [line.split()[2] for line in lines if line.startswith("# HELP")]
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    samples = {line.split()[0].partition("{")[0] for line in lines if not line.startswith("#")}
    assert helped == typed
    assert set(helped) == samples
    assert len(helped) == len(samples)


def test_counter_of_weeks_still_counts_milliseconds() -> None:
    tally = Tally()
    tally.add_work(WorkDone(1, 1, 2_345_678.125))
    metrics = parse(format_job(Status(), tally))
    assert metrics['seconds_total{cause="train"}'] == 2_345_678.125
