"""A team is told what it lacks, how much would fit, and whether nodes are down or never were."""

from dataclasses import replace

from cede.api.kueue import Node
from cede.api.objects import Json
from cede.api.verdict import Verdict
from quota_controller.desired.plan import make_plan
from quota_controller.status.quota_verdict import quota_verdict
from tests.builders.quotas import allocation, node, policy, snapshot


def verdict_after(
    quotas: list[Json], before: list[Node], after: list[Node] | None = None
) -> Verdict:
    """Condition Ready of the team, beside one with a node, when the nodes are as in `after`."""
    teams = [allocation("other"), allocation(quotas=quotas)]
    first = make_plan(snapshot(teams[:1], nodes=before))
    records = first.grant_records
    for nodes in (before, after if after is not None else before):
        cluster = replace(snapshot(teams, nodes=nodes), grant_records=records)
        plan = make_plan(cluster)
        records = plan.grant_records
    return quota_verdict(teams[1], plan)


def p5(**amounts: object) -> list[Json]:
    return [{"instanceType": "p5", **amounts}]


UP = [node("a"), node("b")]
ONE_DOWN = [node("a"), node("b", ready="False")]


def test_of_whole_nodes_the_number_that_fits_is_named() -> None:
    verdict = verdict_after(p5(count=50), UP)
    assert (verdict.status, verdict.reason) == (True, "Oversubscribed")
    assert "392 nvidia.com/gpu" in verdict.message
    assert "of p5, 1 of 50 nodes fits; lower the entry to what fits" in verdict.message


def test_of_amounts_the_amounts_that_fit_are_named() -> None:
    verdict = verdict_after(p5(accelerators=12), UP)
    assert verdict.reason == "Oversubscribed"
    assert "of p5, 8 nvidia.com/gpu, 180 cpu, 1800 GiB memory fits" in verdict.message


def test_nodes_that_are_down_reduce_what_was_granted() -> None:
    verdict = verdict_after(p5(count=1), UP, ONE_DOWN)
    assert verdict.reason == "InsufficientNodes"
    assert "4 nvidia.com/gpu, 90 cpu, 900 GiB memory of it is missing" in verdict.message
    assert "every quota is reduced in proportion" in verdict.message


def test_a_request_that_fits_when_nodes_return_waits_for_them() -> None:
    verdict = verdict_after(p5(count=1), ONE_DOWN)
    assert verdict.reason == "InsufficientNodes"
    assert (
        "of p5, 0 of 1 nodes fit, and 1 of 1 nodes fits when all nodes are back: 1 of 2 down"
        in verdict.message
    )
    assert "add nodes" not in verdict.message


def test_one_that_is_too_large_and_lost_a_node_is_told_both() -> None:
    verdict = verdict_after(p5(count=50), UP, ONE_DOWN)
    assert verdict.reason == "Oversubscribed"
    assert "of what is granted is missing" in verdict.message


def test_a_type_without_nodes_is_in_order() -> None:
    verdict = verdict_after(p5(count=50), [])
    assert (verdict.status, verdict.reason) == (True, "NoNodesYet")


def test_a_borrowing_limit_in_percent_is_of_what_is_granted() -> None:
    teams = [allocation("other"), allocation(quotas=p5(count=50))]
    teams[1] = allocation(quotas=p5(count=50), sharing={"borrowLimitPercent": 50})
    plan = make_plan(snapshot(teams, nodes=UP, cluster_policy=policy()))
    [queue] = [d for d in plan.objects if d.kind.kind == "ClusterQueue" and d.key[1] == "vision"]
    [group] = queue.body["spec"]["resourceGroups"]
    entries = {entry["name"]: entry for entry in group["flavors"][0]["resources"]}
    assert entries["nvidia.com/gpu"]["nominalQuota"] == "8"
    assert entries["nvidia.com/gpu"]["borrowingLimit"] == "4"
