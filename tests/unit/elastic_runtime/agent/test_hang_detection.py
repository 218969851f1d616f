"""When a process is taken for hung, and when it is only slow."""

import pytest

from elastic_runtime.agent.hang_detection import Awake, Patience, Pulse, hangs

PATIENCE = Patience()
WELL = Pulse(
    steps=50, answers=40, slowest_answer_s=0.01, since_step_s=0.2, step_s=0.3, slowest_step_s=0.5
)


def pulse(**facts: object) -> Pulse:
    return Pulse(**({name: getattr(WELL, name) for name in Pulse.__dataclass_fields__} | facts))


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        pytest.param(pulse(), "", id="all is well"),
        pytest.param(pulse(unanswered_s=0.9), "", id="an answer within the second"),
        pytest.param(pulse(unanswered_s=1.1), "not answered", id="none within the second"),
        pytest.param(
            pulse(unanswered_s=1.1, arrived=True),
            "not answered",
            id="frozen while it waits for others",
        ),
        pytest.param(
            pulse(unanswered_s=1.1, slowest_answer_s=0.2), "", id="a busy machine answers late"
        ),
        pytest.param(
            pulse(unanswered_s=1.7, slowest_answer_s=0.2),
            "not answered",
            id="far later than it ever did",
        ),
        pytest.param(pulse(unanswered_s=20.0, steps=1), "", id="it compiles"),
        pytest.param(
            pulse(unanswered_s=20.0, answers=3), "", id="nobody knows yet how late it answers"
        ),
        pytest.param(
            pulse(unanswered_s=31.0, steps=0), "not answered", id="it was frozen while it formed"
        ),
        pytest.param(pulse(since_step_s=59.0), "", id="a slow step"),
        pytest.param(pulse(since_step_s=61.0), "others wait", id="a step without end"),
        pytest.param(
            pulse(since_step_s=61.0, arrived=True), "", id="it waits for the one that hangs"
        ),
        pytest.param(pulse(since_step_s=61.0, steps=2), "", id="the first steps compile"),
        pytest.param(pulse(since_step_s=290.0, step_s=30.0), "", id="steps are long"),
        pytest.param(pulse(since_step_s=310.0, step_s=30.0), "others wait", id="ten long steps"),
        pytest.param(
            pulse(since_step_s=110.0, slowest_step_s=40.0), "", id="it evaluates, as it did before"
        ),
    ],
)
def test_a_process_while_others_wait(seen: Pulse, why: str) -> None:
    found = hangs(seen, PATIENCE, others_wait=True)
    assert (why in found) if why else found == ""


def test_a_job_that_does_something_else_together_is_left_alone() -> None:
    assert hangs(pulse(since_step_s=4000.0), PATIENCE, others_wait=False) == ""
    assert hangs(pulse(unanswered_s=20.0), PATIENCE, others_wait=False) == "", (
        "a long call that holds Python's lock"
    )
    assert "not answered" in hangs(pulse(unanswered_s=31.0), PATIENCE, others_wait=False)


def test_who_was_frozen_itself_takes_nobody_for_silent() -> None:
    now = [100.0]
    clock = Awake(lambda: now[0], most_s=0.5)
    for _ in range(10):
        now[0] += 0.2
        clock.tick()
    assert clock() == pytest.approx(2.0)
    now[0] += 3600
    assert clock() == pytest.approx(2.5)
    clock.tick()
    now[0] += 0.2
    assert clock() == pytest.approx(2.7)
