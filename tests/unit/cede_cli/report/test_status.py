"""The facts of `cede status`, and the problems that need attention."""

from dataclasses import replace
from typing import Any

import pytest

from cede.api import names
from cede.api.cession import Cession
from cede.api.kueue import ClusterQueue, ClusterQueueSpec
from cede.api.objects import Meta, rfc3339
from cede.report.status import status
from tests.builders.reports import LEASE, LEASES, NOW, allocation, policy, snapshot
from tests.builders.scheduler import cession

EXPIRED_LEASE = replace(LEASE, spec=replace(LEASE.spec, renewTime=rfc3339(NOW - 300)))
FALSE_CONDITION = {
    "type": "Kueue",
    "status": "False",
    "reason": "TooOld",
    "message": "set fairSharing",
}
HELD_QUEUE = ClusterQueue(Meta(name="vision"), ClusterQueueSpec(stopPolicy="Hold"))


def test_a_healthy_cluster_needs_no_attention() -> None:
    teams = [
        allocation("vision", owns="4 gpu", used="0 gpu", lent="4 gpu", borrowed="0 gpu"),
        allocation("research", used="8 gpu"),
    ]
    facts = status(snapshot(allocations=teams, policy=policy(preemption="Cede")), NOW)
    assert (facts.mode, facts.leader, facts.attention) == ("Enforce", "s-1", ())
    uses = [(team.name, team.uses) for team in facts.teams]
    assert uses == [("research", "8 gpu"), ("vision", "0 gpu")]


def test_an_instance_type_is_a_sentence_with_its_amounts() -> None:
    type_status = {
        "name": "a100",
        "nodes": 3,
        "healthyNodes": 2,
        "healthy": {"nvidia.com/gpu": "16", "memory": "49163368Ki"},
        "unallocated": {"nvidia.com/gpu": "0"},
    }
    facts = status(snapshot(policy=policy(instanceTypes=[type_status])), NOW)
    assert facts.instance_types == (
        "a100: 2 of 3 nodes are healthy and have 16 nvidia.com/gpu, 46.89 GiB memory; "
        "unallocated: nothing",
    )


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        pytest.param(
            {"policy": None}, "there is no ClusterPolicy: apply one named default", id="no policy"
        ),
        pytest.param(
            {"unreadable": ["this cede cannot read it"]},
            "this cede cannot read it",
            id="a new form",
        ),
        pytest.param(
            {"leases": LEASES | {names.SCHEDULER_LEASE: None}},
            "cede-scheduler has had no leader: check Deployment cede-scheduler",
            id="no scheduler",
        ),
        pytest.param(
            {"leases": LEASES | {names.QUOTA_CONTROLLER_LEASE: EXPIRED_LEASE}},
            "cede-quota-controller has had no leader for 5 min: check Deployment",
            id="a dead quota_controller",
        ),
        pytest.param(
            {"policy": policy(conditions=[FALSE_CONDITION])},
            "ClusterPolicy default: Kueue is False (TooOld): set fairSharing",
            id="a condition of the policy",
        ),
        pytest.param(
            {"policy": policy(instanceTypes=[{"name": "a100", "message": "too few"}])},
            "instance type a100: too few",
            id="nodes",
        ),
        pytest.param(
            {"allocations": [allocation("vision", ready=False, message="in the way")]},
            "ComputeAllocation vision: Ready is False (R): in the way",
            id="an allocation",
        ),
        pytest.param(
            {"allocations": [allocation("vision", observedGeneration=0)]},
            "ComputeAllocation vision has changes that are not in effect yet",
            id="changes that nobody has read",
        ),
        pytest.param(
            {"queues": [HELD_QUEUE]},
            "ClusterQueue vision is on hold (Hold)",
            id="a held queue",
        ),
    ],
)
def test_a_problem_is_reported_with_its_cure(changed: dict[str, Any], problem: str) -> None:
    attention = status(snapshot(**changed), NOW).attention
    assert any(problem in sentence for sentence in attention), attention


def test_a_policy_that_cannot_be_read_is_not_missing() -> None:
    facts = status(snapshot(policy=None, unreadable=["this cede cannot read it"]), NOW)
    assert facts.attention == ("this cede cannot read it",)


def test_without_a_readable_lease_the_policy_names_the_leader() -> None:
    facts = status(snapshot(leases={}, policy=policy(leader="s-2")), NOW)
    assert (facts.leader, facts.attention) == ("s-2", ())


def completed(name: str, created: float) -> Cession:
    cession_ = cession("Completed", secondsToReady="3.2", admittedTime="x", completionTime="x")
    metadata = Meta(name=name, creationTimestamp=rfc3339(created))
    return cession_.model_copy(update={"metadata": metadata})


def test_all_open_cessions_and_the_last_five_ended_ones_are_listed() -> None:
    cessions = [*(completed(f"c-{i}", NOW - 1000 + i) for i in range(9)), cession("Asked")]
    facts = status(snapshot(cessions=cessions), NOW)
    assert [(summary.name, summary.phase) for summary in facts.open_cessions] == [("c-1", "Asked")]
    ended = [summary.name for summary in facts.ended_cessions]
    assert ended == ["c-8", "c-7", "c-6", "c-5", "c-4"]
