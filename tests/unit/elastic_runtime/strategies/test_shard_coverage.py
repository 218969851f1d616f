"""From which step a sharded job continues."""

import json

import pytest

from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies.shard_coverage import Report, Source, choose_source

FIRST, SECOND = Shard(0, 2), Shard(1, 2)
ROWS = [4, 6]


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        pytest.param(
            [Report([FIRST], {}), Report([SECOND], {}), Report([], {})],
            Source({0: [FIRST], 1: [SECOND]}),
            id="the live state, if it is complete",
        ),
        pytest.param(
            [Report([FIRST], {8: [FIRST, SECOND]}), Report([SECOND], {})],
            Source({0: [FIRST], 1: [SECOND]}),
            id="the live state before a copy",
        ),
        pytest.param(
            [Report([FIRST], {4: [SECOND, FIRST], 8: [SECOND, FIRST]}), Report([], {})],
            Source({0: [SECOND, FIRST]}, 8),
            id="else the newest copy",
        ),
        pytest.param(
            [Report([FIRST], {4: [FIRST], 8: [FIRST]}), Report([], {4: [SECOND]})],
            Source({0: [FIRST], 1: [SECOND]}, 4),
            id="the newest copy that is complete",
        ),
        pytest.param(
            [Report([FIRST], {8: [FIRST]}), Report([], {})], None, id="none if a row is lost"
        ),
        pytest.param([Report([], {}), Report([], {})], None, id="none if nothing is left"),
    ],
)
def test_the_newest_complete_state_is_chosen(
    reports: list[Report], expected: Source | None
) -> None:
    assert choose_source(ROWS, reports) == expected


def test_the_first_rank_that_holds_something_sends_what_is_not_split() -> None:
    assert Source({2: [SECOND], 1: [FIRST]}).first_rank == 1


def test_a_report_is_the_same_after_json() -> None:
    report = Report([FIRST], {4: [FIRST, SECOND], 8: []})
    assert Report.from_plain_data(json.loads(json.dumps(report.as_plain_data()))) == report
