"""Why a job does not fit, and who has what it lacks."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cede.api import names
from cede.api.kueue import ClusterQueue, Workload
from cede.api.objects import unix
from cede.api.wait_reasons import WaitReason
from cede.causes.facts import Holder, Shortage
from tests.builders.causes import causes, exceeds, lacks, policy, queue, reasons, running, workload
from tests.builders.reports import NOW, allocation

FULL = (queue("vision", 4, 0), queue("research", 8, 8))


@pytest.mark.parametrize(
    ("item", "changed", "reason"),
    [
        pytest.param(
            workload(exceeds(16, 8)),
            {},
            WaitReason.EXCEEDS_MAXIMUM,
            id="more than there may ever be",
        ),
        pytest.param(
            workload(exceeds(8, 4), gpus=8),
            {"allocations": (allocation("vision", reason="Oversubscribed", nominal=8),)},
            WaitReason.OVERSUBSCRIBED_QUOTA,
            id="an oversubscribed allocation",
        ),
        pytest.param(
            workload(lacks(2), gpus=6),
            {"allocations": (allocation("vision", reason="InsufficientNodes", nominal=8),)},
            WaitReason.NODES_DOWN,
            id="nodes that are down",
        ),
        pytest.param(
            workload(lacks(1), gpus=2),
            {"queues": (queue("vision", 4, 7, borrowing=4), queue("research", 4, 0))},
            WaitReason.BORROWING_LIMIT,
            id="the borrowing limit",
        ),
        pytest.param(
            workload(lacks(2), gpus=2),
            {
                "queues": (queue("vision", 4, 4), queue("research", 8, 8)),
                "workloads": (running("own", "vision", 4), running("gpt", "research", 8)),
            },
            WaitReason.OWN_TEAM_USES_QUOTA,
            id="jobs of the own team",
        ),
        pytest.param(workload(lacks(4)), {}, WaitReason.LENT_QUOTA_IN_USE, id="quota that is lent"),
        pytest.param(
            workload(lacks(4), gpus=8),
            {"queues": (queue("vision", 4, 0), queue("research", 4, 0, lending=0))},
            WaitReason.LENDING_LIMITS,
            id="quota that is not lent",
        ),
        pytest.param(
            workload(lacks(4), gpus=8),
            {"queues": FULL},
            WaitReason.NO_IDLE_CAPACITY,
            id="nothing idle",
        ),
        pytest.param(
            workload(lacks(4)),
            {"queues": (), "incomplete": frozenset({"clusterqueues"})},
            WaitReason.QUOTA_IN_USE,
            id="queues that the user may not read",
        ),
    ],
)
def test_why_a_job_does_not_fit(
    item: Workload, changed: dict[str, Any], reason: WaitReason
) -> None:
    assert reasons(item, **changed)[0] is reason


# --- who has it -----------------------------------------------------------------------------------
def test_a_shortage_has_the_amounts_and_the_teams_and_jobs_that_borrow() -> None:
    [lent] = causes(workload(lacks(3)), queues=(queue("vision", 4, 0), queue("research", 4, 7)))
    assert lent.shortage == Shortage(
        names.GPU,
        "a100",
        asked="4",
        free="1",
        missing="3",
        owned="4",
        used="0",
        may_borrow=None,
        holders=(
            Holder("research", "", "3", "borrows"),
            Holder("research", "research/gpt", "8", "is a job of a team that borrows"),
        ),
    )
    assert lent.sentence == (
        "Its team owns what it lacks: 3 nvidia.com/gpu of a100 are lent (team research has 3 "
        "nvidia.com/gpu)."
    )


def test_without_the_right_to_read_other_jobs_the_teams_are_named() -> None:
    item = workload(lacks(4))
    [lent] = causes(item, workloads=(item,), incomplete=frozenset({"workloads"}))
    assert lent.shortage is not None
    assert [(holder.team, holder.job) for holder in lent.shortage.holders] == [("research", "")]


def test_own_jobs_are_named_with_what_they_use() -> None:
    own, _ = causes(
        workload(lacks(2), gpus=2),
        queues=(queue("vision", 4, 4), queue("research", 8, 8)),
        workloads=(running("one", "vision", 1), running("three", "vision", 3)),
    )
    assert own.sentence == (
        "Team vision owns 4 nvidia.com/gpu of a100, and its own jobs use 4 nvidia.com/gpu "
        "(vision/three has 3 nvidia.com/gpu, vision/one has 1 nvidia.com/gpu); none of them has "
        "lower priority."
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, WaitReason.POLICY_OBSERVES, id="they could give"),
        pytest.param(
            {"preemptOwnTasks": "Never"}, WaitReason.OWN_TEAM_USES_QUOTA, id="they do not give"
        ),
    ],
)
def test_own_jobs_of_lower_priority(spec: dict[str, str], expected: WaitReason) -> None:
    its_reasons = reasons(
        workload(lacks(2), gpus=2, priority=80),
        queues=(queue("vision", 4, 4), queue("research", 8, 8)),
        workloads=(running("low", "vision", 4, priority=10),),
        allocations=(allocation("vision", spec=spec),),
        policy=policy("Observe"),
    )
    assert its_reasons[0] is expected


def test_a_job_that_can_never_fit_says_what_the_most_is() -> None:
    [cause] = causes(workload(exceeds(16, 8)), queues=(queue("vision", 4, 0, borrowing=4),))
    assert cause.sentence == (
        "It asks for 16 nvidia.com/gpu of a100, and queue vision may never use more than 8 "
        "nvidia.com/gpu: it owns 4 nvidia.com/gpu, and may borrow 4 nvidia.com/gpu."
    )


def test_a_quota_that_is_no_quantity_is_not_known() -> None:
    broken = msgspec.convert(
        msgspec.to_builtins(queue("vision", 4, 0))
        | {
            "spec": {
                "resourceGroups": [
                    {
                        "flavors": [
                            {
                                "name": "a100",
                                "resources": [{"name": names.GPU, "nominalQuota": "many"}],
                            }
                        ]
                    }
                ]
            }
        },
        ClusterQueue,
    )
    assert reasons(workload(lacks(4)), queues=(broken,)) == [WaitReason.QUOTA_IN_USE]


def limited(job: str, gpus: int) -> Workload:
    """It runs for 100 of 600 s."""
    item = running(job, "vision", gpus, ago_s=100)
    return replace(item, spec=replace(item.spec, maximumExecutionTimeSeconds=600))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({"workloads": [limited("own", 4)]}, NOW + 500 + 60, id="when they end"),
        pytest.param(
            {"workloads": [limited("own", 1), running("long", "vision", 3)]},
            None,
            id="not if they free too little",
        ),
        pytest.param(
            {"workloads": [limited("own", 4), workload(lacks(1), job="first", age_s=999)]},
            None,
            id="not behind another job",
        ),
        pytest.param(
            {"workloads": [limited("own", 4)], "policy": None},
            NOW + 500,
            id="without a policy what is idle then",
        ),
    ],
)
def test_own_jobs_with_a_limited_time_are_a_ground_for_an_estimate(
    changed: dict[str, Any], expected: float | None
) -> None:
    waits = workload(lacks(2), gpus=2)
    facts = changed | {"workloads": [waits, *changed["workloads"]]}
    own, _ = causes(waits, queues=(queue("vision", 4, 4), queue("research", 8, 8)), **facts)
    assert own.reason is WaitReason.OWN_TEAM_USES_QUOTA
    assert (unix(own.estimate.latest) if own.estimate else None) == expected
