"""The journal of a job is read line by line."""

import pytest

from deploy.demo.record import Line, Step

LINE: Line = {"step": 3, "loss": 1.5, "size": 4, "time": 9.0, "generation": 2}


@pytest.mark.parametrize(
    ("pause", "expected"), [({}, None), ({"pause_ms": None}, None), ({"pause_ms": 30}, 30.0)]
)
def test_a_step_is_read_from_its_line(pause: Line, expected: float | None) -> None:
    assert Step.read({**LINE, **pause}) == Step(3, 1.5, 4, 9.0, 2, expected)
