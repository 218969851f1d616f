"""An allocation is applied, or nodes are drained → what would happen to whom, and why."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from cede.api import names
from cede.api.budget import MonthUse, month_of
from cede.api.objects import Json, rfc3339
from tests.builders.pictures import (
    NOW,
    ClusterOf,
    JobOf,
    allocation,
    node,
    policy,
)
from tests.builders.predictions import GPT, RIGID, effects, submit
from whatif.questions import Picture, ask_allocation, ask_drain
from whatif.submission import BadQuestion


# --- allocation -----------------------------------------------------------------------------------
def allocate(name: str, accelerators: int, **spec: Any) -> Json:
    quotas = [{"instanceType": "a100", "accelerators": accelerators}]
    return {
        "apiVersion": "cede.dev/v1alpha1",
        "kind": "ComputeAllocation",
        "metadata": {"name": name},
        "spec": {"quotas": quotas} | spec,
    }


def test_a_waiting_job_takes_back_what_its_team_is_given() -> None:
    """vision owns nothing, and all is borrowed: with four accelerators its job has a claim."""
    teams = (allocation("vision", 0), allocation("research", 4))
    waiting = JobOf("vision", "waits", 4)
    cluster = ClusterOf([GPT, waiting], allocations=teams)
    answer = ask_allocation(cluster.picture(), allocate("vision", 4))
    assert effects(answer) == [("gpt", "Shrinks", 8, 4), ("waits", "Admitted", 0, 4)]
    assert answer.notes == (
        "team vision owns 4 nvidia.com/gpu, 40 cpu, 400 GiB memory; it lends idle quota and "
        "borrows",
    )


def test_a_new_team_is_granted_what_is_unallocated() -> None:
    cluster = ClusterOf(allocations=(allocation("research"),))
    answer = ask_allocation(cluster.picture(), allocate("vision", 4))
    new = next(team for team in answer.teams if team.team == "vision")
    assert new.before is None
    assert new.after
    assert (new.after.owns, new.after.available) == ("4 gpu", "8 gpu")


def test_what_is_not_granted_is_told_as_the_status_would() -> None:
    answer = ask_allocation(ClusterOf().picture(), allocate("new", 4))
    assert "is not granted, because no more of the a100 nodes is unallocated" in answer.notes[0]
    assert answer.changes == ()


def test_an_unknown_instance_type_is_told_with_the_cure() -> None:
    written = allocate("vision", 4)
    written["spec"]["quotas"] = [{"instanceType": "h900", "count": 1}]
    answer = ask_allocation(ClusterOf().picture(), written)
    assert any("the policy has no instance type h900" in note for note in answer.notes)


def test_less_quota_shrinks_who_uses_more_than_there_is() -> None:
    """All eight are in use, and what is in no allocation is not shared."""
    jobs = [
        JobOf("research", "gpt", 4, ["n1"] * 4, sizes="1-4"),
        JobOf("vision", "other", 4, ["n2"] * 4),
    ]
    cluster = ClusterOf(jobs, policy=policy(shareUnallocated=False))
    answer = ask_allocation(cluster.picture(), allocate("research", 2))
    assert effects(answer) == [("gpt", "Shrinks", 4, 2)]


def test_less_quota_shrinks_nobody_while_there_is_enough() -> None:
    """Also of a team that may borrow nothing new."""
    cluster = ClusterOf([JobOf("research", "gpt", 4, ["n1"] * 4, sizes="1-4")])
    written = allocate("research", 2, sharing={"strategy": "Lend"})
    assert effects(ask_allocation(cluster.picture(), written)) == []


def test_a_budget_that_is_used_is_told_and_shrinks_nobody() -> None:
    cluster = ClusterOf([JobOf("research", "gpt", 8, ["n1", "n2"] * 4, sizes="1-8")])
    used = {"research": {"a100": {names.GPU: Decimal(100)}}}
    use = MonthUse(month_of(NOW), rfc3339(NOW), used=used)
    picture = replace(cluster.picture(), month_use=use)
    answer = ask_allocation(picture, allocate("research", 4, budget={"hardHours": 100}))
    assert effects(answer) == []
    assert "it borrows nothing new" in answer.notes[1]


def test_a_budget_that_is_used_stops_no_lower_class_of_the_team() -> None:
    """Also not before the cluster has the allocation's new status."""
    sweeps = [
        JobOf("research", name, 4, [name] * 4, priority_class="sweep") for name in ("n1", "n2")
    ]
    cluster = ClusterOf([*sweeps, JobOf("research", "urgent", 1)])
    used = {"research": {"a100": {names.GPU: Decimal(100)}}}
    use = MonthUse(month_of(NOW), rfc3339(NOW), used=used)
    picture = replace(cluster.picture(), month_use=use)
    assert len(picture.without.changes) > 1, "without a budget the urgent job stops one of them"
    answer = ask_allocation(picture, allocate("research", 4, budget={"hardHours": 100}))
    assert effects(answer) == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"kind": "Job"}, "it must have a ComputeAllocation of cede.dev/v1alpha1"),
        (allocate("", 4), "the allocation has no metadata.name: give it one"),
        (allocate("vision", -1), "spec.quotas.0.accelerators of the allocation is wrong"),
        (
            allocate("vision", 4, quotas=[{"instanceType": "a100", "cpu": "much"}]),
            "instance type a100: cpu is 'much', which is no quantity",
        ),
        (allocate("vision", 4) | {"metadata": "x"}, "metadata of the allocation is wrong"),
    ],
)
def test_an_allocation_that_cannot_be_read_is_refused(written: Json, expected: str) -> None:
    with pytest.raises(BadQuestion, match=expected):
        ask_allocation(ClusterOf().picture(), written)


# --- drain ----------------------------------------------------------------------------------------
def test_pods_move_to_nodes_with_room() -> None:
    cluster = ClusterOf([JobOf("research", "gpt", 2, ["n1", "n1"], sizes="1-2")])
    answer = ask_drain(cluster.picture(), ["n1"])
    assert effects(answer) == []
    assert answer.notes == ("1 job finds room for all pods on other nodes",)


def test_an_elastic_job_shrinks_to_the_nodes_that_are_left() -> None:
    answer = ask_drain(ClusterOf([GPT]).picture(), ["n2"])
    assert effects(answer) == [("gpt", "LacksNodes", 8, 8), ("gpt", "Shrinks", 8, 4)]
    team = next(team for team in answer.teams if team.team == "vision")
    assert team.before
    assert team.after
    assert (team.before.owns, team.after.owns) == ("4 gpu", "2 gpu")


def test_a_job_that_cannot_shrink_lacks_its_pods() -> None:
    answer = ask_drain(ClusterOf([RIGID]).picture(), ["n2"])
    assert effects(answer) == [("rigid", "LacksNodes", 8, 8)]
    assert answer.changes[0].why == "4 of its pods find no other node with room for them"


def test_an_idle_node_may_go_without_anybody_losing_a_pod() -> None:
    cluster = ClusterOf(nodes=(node("n1"), node("n2"), node("spare")))
    answer = ask_drain(cluster.picture(), ["spare"])
    assert (answer.changes, answer.notes) == ((), ())


def test_a_node_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(BadQuestion, match="there is no node n9: name one of n1, n2"):
        ask_drain(ClusterOf().picture(), ["n9"])


# --- what is not there ----------------------------------------------------------------------------
def test_without_a_policy_there_is_no_answer() -> None:
    picture = ClusterOf().picture()
    without = Picture(picture.objects.__class__(nodes=picture.objects.nodes), NOW)
    with pytest.raises(BadQuestion, match="there is no ClusterPolicy"):
        submit(without)


def test_every_answer_says_what_it_assumes() -> None:
    asked = ClusterOf().picture()
    live = Picture(asked.objects, NOW, ({"metadata": {"name": "vision"}},), knows_runtimes=False)
    assert any("namespaces are not in a snapshot" in text for text in submit(asked).assumptions)
    assert any("no runtime was asked" in text for text in submit(live).assumptions)


def test_the_picture_is_not_changed_by_a_question() -> None:
    picture = ClusterOf([GPT]).picture()
    first = submit(picture)
    assert submit(picture) == first
    assert names.SHRUNK_AT not in picture.objects.jobs[0].metadata.annotations
