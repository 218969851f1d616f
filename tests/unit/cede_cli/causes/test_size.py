"""Why an elastic job is smaller than desired."""

from typing import Any

import pytest

from cede.api import names
from cede.api.kueue import Job
from cede.api.wait_reasons import WaitReason
from tests.builders.causes import (
    cession,
    elastic,
    pod,
    policy,
    queue,
    reasons,
    running,
    time,
    unscheduled,
)


def shrunk(phase: str = "Completed", **status: Any) -> dict[str, Any]:
    """By a Cession that takes four of its eight pods."""
    targets = [{"uid": "job-claim", **status}]
    return {"cessions": (cession("first", "claim", phase, targets=targets),)}


RUNS = running("claim", "vision", 4)
IDLE = {"queues": (queue("vision", 4, 4), queue("research", 8, 2))}
FULL_NOW = {"queues": (queue("vision", 4, 4), queue("research", 8, 8))}
RELEASED: dict[str, Any] = {
    "releasedTime": time(30),
    "cededTime": time(31),
    "step": 7,
    "durableStep": 5,
}


@pytest.mark.parametrize(
    ("job", "changed", "expected"),
    [
        pytest.param(elastic(8, 8), shrunk("Completed"), [], id="it has what its user wants"),
        pytest.param(
            elastic(8, 8),
            shrunk("Asked"),
            [WaitReason.SHRINKS_FOR_CESSION],
            id="it has what its user wants, and was asked to cede",
        ),
        pytest.param(
            elastic(4, 8),
            shrunk("Asked", requestedTime=time(9)),
            [WaitReason.SHRINKS_FOR_CESSION],
            id="it is asked",
        ),
        pytest.param(
            elastic(4, 8, **{names.SHRUNK_AT: time(30)}),
            shrunk(**RELEASED) | IDLE,
            [WaitReason.SHRUNK_FOR_CESSION, WaitReason.GROWTH_COOLDOWN],
            id="it shrank, and its cooldown",
        ),
        pytest.param(elastic(4, 8), FULL_NOW, [WaitReason.GROWTH_NO_QUOTA], id="nothing is idle"),
        pytest.param(
            elastic(4, 8),
            IDLE | {"pods": [pod(conditions=[unscheduled()])]},
            [WaitReason.GROWTH_NO_NODE],
            id="no node for one more pod",
        ),
        pytest.param(elastic(4, 8), IDLE, [WaitReason.GROWTH_PENDING], id="it may grow"),
        pytest.param(
            elastic(4, 8),
            IDLE | {"policy": policy("Observe")},
            [WaitReason.POLICY_OBSERVES],
            id="mode Observe",
        ),
        pytest.param(
            elastic(4, 8),
            {"queues": (), "incomplete": frozenset({"clusterqueues"})},
            [],
            id="nothing is invented",
        ),
    ],
)
def test_why_an_elastic_job_is_small(
    job: Job, changed: dict[str, Any], expected: list[WaitReason]
) -> None:
    assert reasons(RUNS, job, **changed) == expected
