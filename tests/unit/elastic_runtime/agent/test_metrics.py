"""The figures of a job, as Prometheus reads them, add up."""

from elastic_runtime.agent.metrics import Done, Tally, of_job, of_pod
from elastic_runtime.contract import State, Status


def figures(text: str) -> dict[str, float]:
    return {
        name.removeprefix("elastic_runtime_"): float(value)
        for name, value in (
            line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")
        )
    }


def test_where_the_time_went_adds_up() -> None:
    tally = Tally()
    tally.passed(4.0, State.STARTING)
    tally.worked(Done(10, 480, 3.0))
    # counted by its steps
    tally.passed(3.0, State.TRAINING)
    tally.paused(0.05, abrupt=False)
    tally.paused(0.4, abrupt=True)
    tally.saved(0.01)
    tally.passed(2.0, State.STOPPING)
    tally.passed(5.0, State.STOPPED)
    found = figures(of_job(Status(state=State.TRAINING, step=10, stepSeconds=0.3, size=4), tally))
    by_cause = {
        cause: found[f'seconds_total{{cause="{cause}"}}']
        for cause in ("train", "resize", "recover", "save", "wait")
    }
    assert by_cause == {"train": 3.0, "resize": 0.05, "recover": 0.4, "save": 2.01, "wait": 9.0}
    assert (found["resizes_total"], found["recoveries_total"], found["saves_total"]) == (1, 1, 1)
    assert (
        found["step"],
        found["step_seconds"],
        found["samples_total"],
        found["samples_per_second"],
    ) == (10, 0.3, 480, 160)


def test_a_job_that_does_not_train_has_no_pace() -> None:
    assert (
        figures(of_job(Status(state=State.STOPPED, stepSeconds=0.3), Tally()))["samples_per_second"]
        == 0
    )


def test_what_a_pod_did_is_counted_once_and_from_the_start_when_it_is_another() -> None:
    first = Done(3, 30, 1.0)
    second = Done(5, 50, 1.5)
    assert second.since(first) == Done(2, 20, 0.5)
    assert second.since(second) == Done()
    assert first.since(second) == first


def test_every_family_says_what_it_is() -> None:
    text = of_job(Status(), Tally()) + of_pod(3, 1, 1, 0.02)
    helped = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP")]
    typed = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    named = {
        line.split()[0].partition("{")[0] for line in text.splitlines() if not line.startswith("#")
    }
    assert helped == typed
    assert set(helped) == named
    assert len(helped) == len(named)


def test_a_counter_of_weeks_still_counts_milliseconds() -> None:
    tally = Tally()
    tally.worked(Done(1, 1, 2_345_678.125))
    assert figures(of_job(Status(), tally))['seconds_total{cause="train"}'] == 2_345_678.125
