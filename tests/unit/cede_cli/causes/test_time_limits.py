"""By when jobs whose time is limited have ended."""

from dataclasses import replace

import pytest

from cede.api import names
from cede.api.kueue import Workload
from cede.causes.time_limits import ends_of
from tests.builders.causes import FLAVOR, index, running
from tests.builders.reports import NOW


def limited(
    job: str, gpus: int, limit_s: int, *, team: str = "vision", ran_before_s: int = 0
) -> Workload:
    """It was admitted 100 s ago, and had run for a while before."""
    item = running(job, team, gpus, ago_s=100)
    return replace(
        item,
        spec=replace(item.spec, maximumExecutionTimeSeconds=limit_s),
        status=replace(item.status, accumulatedPastExecutionTimeSeconds=ran_before_s),
    )


@pytest.mark.parametrize(
    ("jobs", "ends"),
    [
        pytest.param([limited("a", 4, 600)], [(500, 4)], id="the rest of its time"),
        pytest.param(
            [limited("a", 4, 600, ran_before_s=200)], [(300, 4)], id="what it ran before counts"
        ),
        pytest.param(
            [limited("a", 2, 600), limited("b", 1, 300)], [(200, 1), (500, 2)], id="the first first"
        ),
        pytest.param([running("a", "vision", 8)], [], id="no limit"),
        pytest.param([limited("a", 4, 90)], [], id="it should have ended by now"),
        pytest.param([limited("a", 4, 600, team="research")], [], id="another team"),
    ],
)
def test_when_jobs_of_a_team_have_ended(jobs: list[Workload], ends: list[tuple[int, int]]) -> None:
    known = ends_of("vision", FLAVOR, names.GPU, index(*jobs))
    assert [(end - NOW, used) for end, used in known] == ends
