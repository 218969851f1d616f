"""A fault in one part of a plan is kept from the others."""

from collections.abc import Iterator

from scheduler.faults import Fault, Faults


def broken(text: str) -> Iterator[int]:
    yield 1
    raise ValueError(text)


def test_a_part_that_raises_yields_nothing_and_leaves_a_fault() -> None:
    faults = Faults()
    assert faults.attempt_all("growth", broken, "no such queue") == ()
    assert faults.all == [Fault("growth", "ValueError in broken: no such queue")]


def test_a_part_that_works_leaves_no_fault() -> None:
    faults = Faults()
    assert faults.attempt_all("growth", range, 3) == (0, 1, 2)
    assert faults.attempt("name", "", str.upper, "x") == "X"
    assert faults.all == []
