"""How the benchmarks of the runtime count: from lines to a pause, from figures to a row."""

import pytest

from tests.bench.runtime.commits import Commit, resumed
from tests.bench.runtime.table import Row, as_text


def commits(rank: str, era: int, world: int, *times: float, step: int = 1) -> list[Commit]:
    return [Commit(time, rank, step + n, world, era) for n, time in enumerate(times)]


OLD = [*commits("a", 1, 2, 1.0, 2.0, 3.0), *commits("b", 1, 2, 1.0, 2.0, 3.0)]


def test_a_pause_is_the_gap_until_all_ranks_have_committed_less_one_step() -> None:
    new = [*commits("a", 2, 2, 5.0, 6.0, 7.0, step=4), *commits("b", 2, 2, 5.5, 6.5, 7.5, step=4)]
    result = resumed(OLD + new, lambda c: c.era == 2, 2, more=2)
    assert result
    assert (result.last, result.first, result.step_s, result.redone) == (3.0, 5.5, 1.0, 0)
    assert result.pause_s == pytest.approx(1.5)


def test_repeated_steps_are_counted() -> None:
    new = [*commits("a", 2, 1, 5.0, 6.0, 7.0, step=2)]
    result = resumed(OLD + new, lambda c: c.era == 2, 1, more=2)
    assert result
    assert result.redone == 2


def test_a_job_has_resumed_when_all_its_ranks_have() -> None:
    new = commits("a", 2, 2, 5.0, 6.0, 7.0, step=4)
    assert resumed(OLD + new, lambda c: c.era == 2, 2, more=2) is None


@pytest.mark.parametrize(
    ("row", "met"),
    [
        pytest.param(
            Row("r", "q", "g", "s", [1, 2, 3], at_most=2), True, id="the median is what counts"
        ),
        pytest.param(
            Row("r", "q", "g", "", [0, 0, 5], at_most=0, always=True), False, id="always is always"
        ),
        pytest.param(
            Row("r", "q", "g", "s", [1, 2, 3], "p", [20, 30, 40], at_most=2, ratio_at_most=0.05),
            False,
            id="every bound must hold",
        ),
        pytest.param(
            Row("r", "q", "g", "s", [1, 2], "p", [10, 40], ratio_at_most=0.08),
            True,
            id="ratios are taken run by run",
        ),
        pytest.param(
            Row("r", "q", "g", "s", [1, 2], "p", [], at_most=3, ratio_at_most=0.5),
            None,
            id="no peer, no verdict",
        ),
        pytest.param(Row("r", "q", "g", "s", [], at_most=3), None, id="not measured, no verdict"),
        pytest.param(
            Row("r", "q", "g", "GB/s", [9], "disk", [10], ratio_at_least=0.85), True, id="at least"
        ),
    ],
)
def test_a_promise_is_met(row: Row, met: bool | None) -> None:
    assert row.met is met
    assert row.as_json()["met"] is met
    assert len(as_text([row]).splitlines()) == 3
