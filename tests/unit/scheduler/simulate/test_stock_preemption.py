"""Whom stock Kueue preempts."""

import pytest

from scheduler.simulate.kueue import Kueue
from scheduler.simulate.objects import Workload
from scheduler.simulate.stock_preemption import targets
from tests.builders.simulated import STOCK, admit, teams, workload


def chosen(kueue: Kueue, preemptor: Workload) -> list[str]:
    return sorted(w.name for w in targets(preemptor, kueue.admitted.values(), kueue.quota()))


def test_the_youngest_of_those_that_borrow_goes_first() -> None:
    kueue = Kueue(teams(vision=4, research=4), STOCK)
    for name, now in (("old", 1.0), ("young", 3.0), ("middle", 2.0)):
        admit(kueue, name, "research", 2, now=now)
    assert chosen(kueue, workload("claim", "vision", 4)) == ["young"]


def test_a_queue_that_is_back_within_its_own_gives_no_more() -> None:
    kueue = Kueue(teams(vision=4, research=2, other=2), STOCK)
    admit(kueue, "lent", "research", 4, now=9)
    admit(kueue, "own", "research", 2, now=8)
    admit(kueue, "second", "other", 2)
    assert chosen(kueue, workload("claim", "vision", 4)) == ["lent"]


def test_what_turns_out_not_to_be_needed_is_spared() -> None:
    kueue = Kueue(teams(vision=4, research=2), STOCK)
    admit(kueue, "small", "research", 1, now=9)
    admit(kueue, "large", "research", 5, now=8)
    assert chosen(kueue, workload("claim", "vision", 4)) == ["large"]


@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        pytest.param(90, ["own"], id="lower priority in the same queue"),
        pytest.param(50, [], id="never of equal priority"),
    ],
)
def test_in_its_own_queue(priority: int, expected: list[str]) -> None:
    kueue = Kueue(teams(vision=4, research=4), STOCK)
    admit(kueue, "own", "vision", 4)
    admit(kueue, "other", "research", 4)
    assert chosen(kueue, workload("claim", "vision", 4, priority=priority)) == expected


def test_nobody_goes_when_all_together_would_not_be_enough() -> None:
    kueue = Kueue(teams(vision=4, research=4), STOCK)
    admit(kueue, "lent", "research", 5)
    admit(kueue, "own", "vision", 3)
    assert chosen(kueue, workload("claim", "vision", 4)) == []
