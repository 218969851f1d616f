"""The conditions Ready and Admits report what is, why, and what to do."""

from typing import Any

import pytest

from cede.api.objects import CLUSTER_QUEUES, Json
from cede.api.reasons import WriteReason
from cede.api.verdict import Verdict
from quota_controller.desired.conflicts import Problem, Problems
from quota_controller.desired.plan import make_plan
from quota_controller.status.allocation_conditions import (
    admits_verdict,
    ready_verdict,
    waiting_workloads,
)
from tests.builders.quotas import allocation, as_live, node, reservation, snapshot

QUEUE = (CLUSTER_QUEUES, ("", "vision"))
ACTIVE = {"conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": ""}]}
INACTIVE = {
    "conditions": [
        {"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "no flavor p5"}
    ]
}
WRITE_PROBLEM = {"vision": Problem(WriteReason.OBJECT_EXISTS, "exists already")}


# --- Ready ----------------------------------------------------------------------------------------
def ready(
    queue_status: Json | None, *, problems: Problems | None = None, nodes: int = 1, **spec: Any
) -> Verdict:
    """Condition Ready of an allocation whose queue has this status; None: no queue exists."""
    team = allocation(**spec)
    live_nodes = [node(str(number)) for number in range(nodes)]
    before = allocation(**{**spec, "deleting": False})
    live = as_live(make_plan(snapshot([before], nodes=live_nodes)))
    if queue_status is None:
        del live[QUEUE]
    else:
        live[QUEUE]["status"] = queue_status
    cluster = snapshot([team], nodes=live_nodes, live=live)
    return ready_verdict(team, make_plan(cluster), cluster, problems or {})


@pytest.mark.parametrize(
    ("queue_status", "case", "expected"),
    [
        pytest.param(None, {}, (None, "Creating", "is being created"), id="no queue yet"),
        pytest.param(
            {}, {}, (None, "WaitingForKueue", "check that its controller runs"), id="no report yet"
        ),
        pytest.param(
            INACTIVE, {}, (False, "QueueInactive", "no flavor p5"), id="Kueue does not use it"
        ),
        pytest.param(
            ACTIVE,
            {},
            (True, "Ready", "owns 8 nvidia.com/gpu, 180 cpu, 1800 GiB memory"),
            id="in place",
        ),
        pytest.param(
            ACTIVE,
            {"active": False},
            (True, "NotActive", "nothing new is admitted"),
            id="not active",
        ),
        pytest.param(
            ACTIVE,
            {"nodes": 0},
            (True, "NoNodesYet", "no node of type p5 exists yet"),
            id="no node",
        ),
        pytest.param(
            ACTIVE,
            {"quotas": [{"instanceType": "p5", "count": 3}]},
            (True, "Oversubscribed", "16 nvidia.com/gpu"),
            id="too few nodes",
        ),
        pytest.param(
            ACTIVE,
            {"sharing": {"strategy": "DontLend"}},
            (True, "Ready", "shares nothing"),
            id="shares nothing",
        ),
        pytest.param(
            ACTIVE,
            {"sharing": {"strategy": "Lend"}},
            (True, "Ready", "it lends idle quota"),
            id="only lends",
        ),
        pytest.param(
            ACTIVE,
            {"sharing": {"borrowLimits": [{"instanceType": "p5", "count": 1}]}},
            (True, "Ready", "borrows within its borrowLimits"),
            id="borrowing limits by amount",
        ),
        pytest.param(
            ACTIVE,
            {"sharing": {"borrowLimitPercent": 50}},
            (True, "Ready", "borrows up to 50 %"),
            id="borrowing limit",
        ),
        pytest.param(
            ACTIVE,
            {"maxPriorityClass": "vip"},
            (False, "UnknownPriorityClass", "use one of"),
            id="unknown class",
        ),
        pytest.param(
            ACTIVE,
            {"problems": WRITE_PROBLEM},
            (False, "ObjectExists", "exists already"),
            id="an object is not written",
        ),
    ],
)
def test_ready(
    queue_status: Json | None, case: Json, expected: tuple[bool | None, str, str]
) -> None:
    verdict = ready(queue_status, **case)
    assert (verdict.status, verdict.reason) == expected[:2]
    assert expected[2] in verdict.message


@pytest.mark.parametrize(
    ("workloads", "expected"),
    [
        pytest.param(0, "Kueue has not confirmed it yet", id="no hold yet"),
        pytest.param(1, "1 workload still uses its quota", id="one"),
        pytest.param(2, "2 workloads still use its quota", id="two"),
    ],
)
def test_a_deleted_allocation_reports_what_it_waits_for(workloads: int, expected: str) -> None:
    verdict = ready({"reservingWorkloads": workloads}, deleting=True)
    assert (verdict.status, verdict.reason) == (False, "Draining")
    assert expected in verdict.message


# --- Admits ---------------------------------------------------------------------------------------
def admits(
    *, waiting: int, used: int = 0, borrowed: int = 0, without_policy: bool = False, **spec: Any
) -> Verdict:
    """Condition Admits of vision, which owns 8 of 16.

    Team research uses `used` of the 16 and borrows `borrowed` of that.
    """
    teams = [allocation(**spec), allocation("research")]
    nodes = [node("a"), node("b")]
    live = as_live(
        make_plan(snapshot(teams, nodes=nodes)),
        vision={**ACTIVE, "pendingWorkloads": waiting},
        research=reservation(used, borrowed),
    )
    if not spec.get("active", True):
        live[QUEUE]["status"]["conditions"] = [{"type": "Active", "status": "False"}]
    cluster = snapshot(teams, nodes=nodes, live=live, without_policy=without_policy)
    assert waiting_workloads(teams[0], cluster) == waiting
    return admits_verdict(teams[0], make_plan(cluster), cluster)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(
            {"waiting": 0}, (True, "NoWorkloadsPending", "no workload waits"), id="nothing waits"
        ),
        pytest.param(
            {"waiting": 1},
            (
                False,
                "WorkloadsPending",
                "1 workload waits: the team's next job could use 16 nvidia.com",
            ),
            id="idle capacity",
        ),
        pytest.param(
            {"waiting": 2, "used": 12, "borrowed": 4},
            (
                False,
                "WorkloadsPending",
                "could use 4 nvidia.com/gpu; 8 nvidia.com/gpu of its own quota is idle or lent, "
                "and other teams use 4 nvidia.com/gpu of that: Cede reclaims",
            ),
            id="lent to others",
        ),
        pytest.param(
            {"waiting": 1, "sharing": {"borrowLimitPercent": 25}},
            (False, "WorkloadsPending", "could use 10 nvidia.com/gpu"),
            id="borrowing limit",
        ),
        pytest.param(
            {"waiting": 1, "active": False},
            (False, "AdmissionStopped", "see condition Ready"),
            id="not active",
        ),
        pytest.param(
            {"waiting": 0, "maxPriorityClass": "gone"},
            (True, "NoWorkloadsPending", ""),
            id="an unknown class does not stop admission",
        ),
        pytest.param(
            {"waiting": 1, "without_policy": True},
            (False, "WorkloadsPending", "1 workload waits: there is no ClusterPolicy"),
            id="no policy",
        ),
    ],
)
def test_admits(case: Json, expected: tuple[bool, str, str]) -> None:
    verdict = admits(**case)
    assert (verdict.status, verdict.reason) == expected[:2]
    assert expected[2] in verdict.message
