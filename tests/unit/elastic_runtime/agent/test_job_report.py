"""What people read: a fact a line, only those that a job has."""

from dataclasses import replace

import pytest

from elastic_runtime.agent import job_report
from elastic_runtime.contract import State, Status

TRAINS = Status(
    state=State.TRAINING,
    size=2,
    wanted=4,
    step=120,
    durableStep=100,
    stepSeconds=1.2,
    saveSeconds=0.43,
    samplesPerSecond=26.66667,
    loss=2.3101,
    busy="training with 2; not there: pods 2, 3",
)


def test_table_has_a_fact_a_line() -> None:
    assert job_report.table(TRAINS) == (
        "state       training\n"
        "doing       training with 2; not there: pods 2, 3\n"
        "size        2 pods (4 requested)\n"
        "step        120\n"
        "loss        2.3101\n"
        "pace        1.2 s a step\n"
        "samples     26.67 a second\n"
        "checkpoint  step 100, saved in 0.43 s"
    )


def test_table_of_a_job_that_starts_has_no_figures() -> None:
    status = Status(busy="waiting for pod 0")
    assert job_report.table(status) == (
        "state       starting\ndoing       waiting for pod 0\nsize        0 pods\ncheckpoint  none"
    )


@pytest.mark.parametrize(
    ("status", "line"),
    [
        pytest.param(replace(TRAINS, loss=None), "loss        unknown or not finite", id="NaN"),
        pytest.param(replace(TRAINS, size=1, wanted=1), "size        1 pod", id="as requested"),
        pytest.param(replace(TRAINS, parked=(2, 3)), "parked      pod 2, pod 3", id="parked"),
        pytest.param(replace(TRAINS, message="disk full"), "message     disk full", id="message"),
    ],
)
def test_table_has_what_is_special(status: Status, line: str) -> None:
    assert line in job_report.table(status).splitlines()


@pytest.mark.parametrize(
    ("status", "line"),
    [
        pytest.param(
            replace(TRAINS, wanted=2, busy="training"),
            "step 120  loss 2.3101  2 pods  26.67 samples/s  training",
            id="trains",
        ),
        pytest.param(
            replace(TRAINS, samplesPerSecond=0.0, busy="changing size"),
            "step 120  loss 2.3101  2 of 4 pods  changing size",
            id="grows",
        ),
        pytest.param(Status(busy="waiting for pod 0"), "0 pods  waiting for pod 0", id="starts"),
    ],
)
def test_live_line_has_figures_and_what_is_happening(status: Status, line: str) -> None:
    assert job_report.live_line(status) == line


@pytest.mark.parametrize(
    ("status", "size", "answer"),
    [
        pytest.param(
            TRAINS, 4, "4 pods requested, 2 now: training with 2; not there: pods 2, 3", id="grows"
        ),
        pytest.param(TRAINS, 2, "the job trains with 2 pods already", id="has the size"),
        pytest.param(
            replace(TRAINS, state=State.RESIZING, busy="changing size"),
            2,
            "2 pods requested, 2 now: changing size",
            id="leaves the size",
        ),
        pytest.param(
            replace(TRAINS, busy="saving"),
            0,
            "stop requested: the job saves and its pods park; now: saving",
            id="stops",
        ),
    ],
)
def test_answer_to_resize(status: Status, size: int, answer: str) -> None:
    assert job_report.answer_to_resize(status, size) == answer


def test_answer_to_save_says_what_is_there_now() -> None:
    assert job_report.answer_to_save(TRAINS) == (
        "save requested after step 120; checkpoint now: step 100, saved in 0.43 s; `status` shows "
        "when the new one is complete"
    )
    assert "checkpoint now: none" in job_report.answer_to_save(Status())


@pytest.mark.parametrize(
    ("codes", "members", "line"),
    [
        pytest.param(
            [-9, None],
            2,
            "no coordinator for 12 s: pod 0 was killed, 1 of 2 is no majority; Ctrl-C ends it",
            id="half of two",
        ),
        pytest.param(
            [-9, None, None],
            3,
            "no coordinator for 12 s: pod 0 was killed, 2 of 3 run; Ctrl-C ends it",
            id="enough to elect",
        ),
        pytest.param(
            [None, None], 2, "no coordinator for 12 s: 2 of 2 run; Ctrl-C ends it", id="frozen"
        ),
        pytest.param(
            [0, None], 2, "no coordinator for 12 s: 1 of 2 run; Ctrl-C ends it", id="one finished"
        ),
    ],
)
def test_line_of_a_job_that_does_not_answer_has_what_is_known(
    codes: list[int | None], members: int, line: str
) -> None:
    assert job_report.line_without_answer(codes, members, 12.3) == line


@pytest.mark.parametrize(
    ("code", "step", "durable_step", "end"),
    [
        pytest.param(0, 60, 0, "the job has finished", id="finished"),
        pytest.param(1, 60, 60, "the job has failed with exit code 1, see above", id="failed"),
        pytest.param(43, 60, 50, "the same command continues it after step 50", id="saved"),
        pytest.param(
            43, 60, 0, "left after step 60 and has no checkpoint: give its session", id="lost"
        ),
        pytest.param(43, 0, 0, "the same command starts it again", id="no step is known"),
    ],
)
def test_end_says_what_the_same_command_does_next(
    code: int, step: int, durable_step: int, end: str
) -> None:
    assert end in job_report.end_of_job(code, step, durable_step)


def test_answers_to_a_job_without_a_checkpoint_name_it() -> None:
    status = replace(TRAINS, durableStep=0)
    assert "saves, if its session has checkpoint=, and" in job_report.answer_to_resize(status, 0)
    assert "a session without checkpoint= saves nothing" in job_report.answer_to_save(status)
    assert "checkpoint=" not in job_report.answer_to_resize(TRAINS, 0)
    assert "checkpoint=" not in job_report.answer_to_save(TRAINS)
