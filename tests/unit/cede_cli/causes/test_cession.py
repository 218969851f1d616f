"""A Cession that is under way for a job, and what one has taken from a job."""

from typing import Any

import pytest

from cede.causes.cession import describe_loss, taken_from, why_cession
from cede.causes.facts import Estimate
from tests.builders.causes import cession, time
from tests.builders.reports import NOW

BASIS = "the grace periods of these jobs, if a scheduler leads all the time"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param({}, Estimate("", time(-90), BASIS), id="it was not asked yet"),
        pytest.param(
            {"requestedTime": time(30)}, Estimate("", time(-60), BASIS), id="its grace runs"
        ),
        pytest.param({"requestedTime": time(100)}, None, id="its grace has passed"),
        pytest.param(
            {"requestedTime": time(30), "releasedTime": time(1)}, None, id="it has released"
        ),
    ],
)
def test_a_cession_ends_its_wait_with_the_grace_of_its_targets(
    target: dict[str, Any], expected: Estimate | None
) -> None:
    under_way = cession(targets=[{"uid": "job-gpt", **target}])
    cause = why_cession(under_way, NOW)
    assert cause.estimate == expected
    assert bool(cause.no_estimate) == (expected is None)


@pytest.mark.parametrize(
    ("target", "lost", "words"),
    [
        pytest.param({}, None, "", id="not yet"),
        pytest.param(
            {"cededTime": time(9), "releasedTime": time(8), "step": 7, "durableStep": 5},
            0,
            "no step",
            id="it trains on",
        ),
        pytest.param(
            {
                "cededTime": time(9),
                "releasedTime": time(8),
                "step": 7,
                "durableStep": 5,
                "stopped": True,
            },
            2,
            "2 steps: it was at 7, and had saved 5",
            id="it was stopped",
        ),
        pytest.param(
            {
                "forcedTime": time(9),
                "releasedTime": time(8),
                "step": 7,
                "durableStep": 5,
                "stopped": True,
            },
            2,
            "2 steps: it was at 7, and had saved 5",
            id="it was stopped before it had ceded, and had reported its steps",
        ),
        pytest.param(
            {"forcedTime": time(9), "releasedTime": time(8)},
            None,
            "the steps since its newest save or copy, which it did not report",
            id="it did not report",
        ),
    ],
)
def test_what_a_job_lost(target: dict[str, Any], lost: int | None, words: str) -> None:
    [taken] = taken_from("job-gpt", [cession(targets=[{"uid": "job-gpt", **target}])])
    assert (taken.lost_steps, describe_loss(taken)) == (lost, words)
    assert (taken.preemptor, taken.rule, taken.from_size, taken.to_size) == (
        "vision/claim",
        "ReclaimOwnQuota",
        8,
        4,
    )
    assert taken.plan == "gpt shrinks, which loses least"


def test_others_have_lost_nothing() -> None:
    assert taken_from("job-other", [cession()]) == []
