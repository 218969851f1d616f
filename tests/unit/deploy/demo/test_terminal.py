"""The terminal output of the demo."""

import io

import pytest

from deploy.demo.record import Step
from deploy.demo.terminal import Screen, bar


@pytest.mark.parametrize(
    ("by_team", "expected"),
    [
        ({}, "········"),
        ({"research": 8}, "RRRRRRRR"),
        ({"vision": 2, "research": 4}, "RRRRVV··"),
        ({"research": 9}, "RRRRRRRRR"),
    ],
)
def test_a_bar_has_a_cell_for_each_accelerator(by_team: dict[str, int], expected: str) -> None:
    assert bar(by_team, 8, color=False) == expected


def test_a_state_is_printed_again_only_when_the_holdings_change() -> None:
    output = io.StringIO()
    screen = Screen(8, output)
    screen.draw({}, None)
    screen.draw({"research": 2}, Step(1, 2.5, 2, 0.0))
    screen.draw({"research": 2}, Step(2, 2.4, 2, 0.5))
    lines = output.getvalue().splitlines()
    assert len(lines) == 2
    assert "no accelerator in use" in lines[0]
    assert "research 2" in lines[1]
    assert lines[1].endswith("step 1  loss 2.500  on 2")
