"""When a worker process counts as hung, and when it is only slow."""

import math
from dataclasses import replace

import pytest

from elastic_runtime.agent.hang_detection import (
    Patience,
    PausableClock,
    Pulse,
    hang_reason,
    script_hang_reason,
)

PATIENCE = Patience()
HEALTHY = Pulse(
    steps=50,
    answers=40,
    slowest_answer_s=0.01,
    since_step_s=0.2,
    median_step_s=0.3,
    slowest_step_s=0.5,
)


@pytest.mark.parametrize(
    "pulse",
    [
        pytest.param(HEALTHY, id="healthy"),
        pytest.param(replace(HEALTHY, unanswered_s=0.9), id="answers within the second"),
        pytest.param(
            replace(HEALTHY, unanswered_s=1.1, slowest_answer_s=0.2),
            id="answers late on a busy machine",
        ),
        pytest.param(replace(HEALTHY, unanswered_s=20.0, steps=1), id="compiles"),
        pytest.param(
            replace(HEALTHY, unanswered_s=20.0, answers=3), id="its usual delay is unknown"
        ),
        pytest.param(
            replace(HEALTHY, unanswered_s=59.0, cpu_share=0.2),
            id="computes while it holds Python's lock",
        ),
        pytest.param(replace(HEALTHY, since_step_s=59.0), id="slow step"),
        pytest.param(
            replace(HEALTHY, since_step_s=61.0, arrived=True), id="waits for the one that hangs"
        ),
        pytest.param(replace(HEALTHY, since_step_s=61.0, steps=2), id="first steps compile"),
        pytest.param(replace(HEALTHY, since_step_s=290.0, median_step_s=30.0), id="steps are long"),
        pytest.param(
            replace(HEALTHY, since_step_s=110.0, slowest_step_s=40.0),
            id="evaluates, as it did before",
        ),
        pytest.param(
            replace(HEALTHY, since_step_s=59.0, evaluated=4000), id="a long evaluation goes on"
        ),
        pytest.param(
            replace(HEALTHY, since_step_s=61.0, evaluated=2, steps=0),
            id="first micro-batches of an evaluation compile",
        ),
    ],
)
def test_no_hang_while_others_wait(pulse: Pulse) -> None:
    assert hang_reason(pulse, PATIENCE, others_wait=True) == ""


@pytest.mark.parametrize(
    ("pulse", "reason"),
    [
        pytest.param(
            replace(HEALTHY, unanswered_s=1.1), "not answered", id="no answer within the second"
        ),
        pytest.param(
            replace(HEALTHY, unanswered_s=1.1, cpu_share=0.02),
            "not answered",
            id="its threads only wait for Python's lock",
        ),
        pytest.param(
            replace(HEALTHY, unanswered_s=61.0, cpu_share=1.0),
            "make it in another process, or raise CEDE_STEP_TIMEOUT_SECONDS",
            id="computes for longer than a step may take",
        ),
        pytest.param(
            replace(HEALTHY, unanswered_s=1.1, arrived=True),
            "not answered",
            id="frozen while it waits for others",
        ),
        pytest.param(
            replace(HEALTHY, unanswered_s=1.7, slowest_answer_s=0.2),
            "not answered",
            id="far later than ever",
        ),
        pytest.param(
            replace(HEALTHY, unanswered_s=31.0, steps=0), "not answered", id="frozen while forming"
        ),
        pytest.param(replace(HEALTHY, since_step_s=61.0), "others wait", id="step does not finish"),
        pytest.param(
            replace(HEALTHY, since_step_s=310.0, median_step_s=30.0),
            "others wait",
            id="ten times the median step",
        ),
        pytest.param(
            replace(HEALTHY, since_step_s=61.0, evaluated=7, steps=0),
            "its part of an evaluation, whose micro-batch 7 has taken 61.0 s; use smaller ones",
            id="a micro-batch of an evaluation does not end",
        ),
    ],
)
def test_hang_while_others_wait(pulse: Pulse, reason: str) -> None:
    assert reason in hang_reason(pulse, PATIENCE, others_wait=True)


def test_long_work_is_no_hang_while_nobody_waits() -> None:
    evaluates = replace(HEALTHY, since_step_s=4000.0)
    assert hang_reason(evaluates, PATIENCE, others_wait=False) == ""
    holds_the_lock = replace(HEALTHY, unanswered_s=20.0)
    assert hang_reason(holds_the_lock, PATIENCE, others_wait=False) == ""
    frozen = replace(HEALTHY, unanswered_s=31.0)
    assert "not answered" in hang_reason(frozen, PATIENCE, others_wait=False)


@pytest.mark.parametrize(
    ("pulse", "reason"),
    [
        pytest.param(Pulse(unanswered_s=29.0), "", id="stopped for a moment"),
        pytest.param(Pulse(unanswered_s=31.0), "stopped by a signal", id="stopped"),
        pytest.param(Pulse(steps=3, since_step_s=59.0), "", id="a long step"),
        pytest.param(Pulse(steps=3, since_step_s=61.0), "not called stop_requested", id="hangs"),
        pytest.param(Pulse(steps=2, since_step_s=9e9), "", id="it may compile its first step"),
        pytest.param(
            Pulse(steps=3, since_step_s=800.0, slowest_step_s=300.0), "", id="as long as before"
        ),
    ],
)
def test_hang_of_a_script_for_torchrun(pulse: Pulse, reason: str) -> None:
    complaint = script_hang_reason(pulse, PATIENCE)
    assert reason in complaint
    assert bool(reason) == bool(complaint)


def test_a_script_without_a_timeout_of_the_users_may_do_anything_between_two_steps() -> None:
    pulse = Pulse(steps=100, since_step_s=9e9, median_step_s=0.1)
    assert script_hang_reason(pulse, Patience(step_timeout_s=math.inf)) == ""


def test_clock_stands_still_while_its_owner_is_frozen() -> None:
    now = 100.0
    clock = PausableClock(lambda: now, max_gap_s=0.5)
    for _ in range(10):
        now += 0.2
        clock.tick()
    assert clock() == pytest.approx(2.0)
    now += 3600
    assert clock() == pytest.approx(2.5)
    clock.tick()
    now += 0.2
    assert clock() == pytest.approx(2.7)
