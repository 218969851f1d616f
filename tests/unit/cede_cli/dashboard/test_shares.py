"""Teams × accelerators."""

from cede.api.allocation import ComputeAllocation
from cede.api.policy import ClusterPolicy
from cede.dashboard.shares import Share, TypeRow, team_row, type_rows
from tests.builders.shared_cluster import allocation, policy, quota


def team(*quotas: object, **facts: object) -> ComputeAllocation:
    return ComputeAllocation.model_validate(allocation("vision", *quotas, **facts))  # type: ignore[arg-type]


def test_a_share_has_the_accelerators_of_one_type() -> None:
    row = team_row(team(quota("a100", 8, 6, lends=1), quota("h100", 0, 2, borrows=2)))
    assert row.shares == (
        Share("a100", "nvidia.com/gpu", owns=8, quota=8, uses=6, lends=1, borrows=0),
        Share("h100", "nvidia.com/gpu", owns=0, quota=0, uses=2, lends=0, borrows=2),
    )


def test_a_type_that_the_team_neither_owns_nor_uses_is_left_out() -> None:
    assert team_row(team(quota("a100", 0, 0))).shares == ()


def test_each_kind_of_partition_is_a_share_of_its_own() -> None:
    amounts = {"nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "2", "cpu": "8"}
    body = {"instanceType": "a100", "nominal": amounts, "used": {"nvidia.com/mig-3g.40gb": "1"}}
    shares = team_row(team(body)).shares
    assert [(share.resource, share.owns, share.uses) for share in shares] == [
        ("nvidia.com/mig-1g.10gb", 7, 0),
        ("nvidia.com/mig-3g.40gb", 2, 1),
    ]


def test_a_team_that_is_not_ready_says_why() -> None:
    row = team_row(team(problem="its namespace belongs to others", waiting=3))
    assert (row.ready, row.problem, row.waiting) == (False, "its namespace belongs to others", 3)
    assert (team_row(team()).ready, team_row(team()).problem) == (True, "")


def test_a_type_has_the_sums_of_all_teams() -> None:
    types = ClusterPolicy.model_validate(policy(a100=16, h100=8)).status.instanceTypes
    rows = {
        "vision": team_row(team(quota("a100", 8, 6, lends=2))),
        "research": team_row(team(quota("a100", 8, 10, borrows=2), quota("h100", 8, 1))),
    }
    gpu = "nvidia.com/gpu"
    assert type_rows(types, rows) == (
        TypeRow("a100", gpu, nodes=2, healthy_nodes=2, healthy=16, uses=16, borrows=2),
        TypeRow("h100", gpu, nodes=1, healthy_nodes=1, healthy=8, uses=1, borrows=0),
    )
