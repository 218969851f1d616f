"""By when jobs whose time is limited have freed quota."""

from dataclasses import replace

import pytest

from cede.api import names
from cede.api.kueue import Workload
from cede.causes.time_limits import freed_by
from tests.builders.causes import FLAVOR, index, running
from tests.builders.reports import NOW

NEVER = -NOW


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
    ("jobs", "seconds"),
    [
        pytest.param([limited("a", 4, 600)], 500, id="the rest of its time"),
        pytest.param([limited("a", 4, 600, ran_before_s=200)], 300, id="what it ran before counts"),
        pytest.param(
            [limited("a", 2, 600), limited("b", 2, 300)], 500, id="the last that it takes"
        ),
        pytest.param(
            [limited("a", 2, 600), limited("b", 4, 300)], 200, id="the first if that is enough"
        ),
        pytest.param([limited("a", 3, 600)], NEVER, id="too little"),
        pytest.param([running("a", "vision", 8)], NEVER, id="no limit"),
        pytest.param([limited("a", 4, 90)], NEVER, id="it should have ended by now"),
        pytest.param([limited("a", 4, 600, team="research")], NEVER, id="another team"),
    ],
)
def test_the_time_by_which_four_are_free(jobs: list[Workload], seconds: float) -> None:
    assert freed_by("vision", FLAVOR, names.GPU, 4, index(*jobs)) == NOW + seconds
