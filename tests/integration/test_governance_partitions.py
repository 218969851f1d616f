"""Nodes of one type with different partitions: each adds what it offers, and admitted pods run."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.admin import TYPE, Admin, governed, kubectl_list, node

pytestmark = pytest.mark.cluster
WHOLE = "gov-uncut"
PARTS = "gov-parts"
MIG = "nvidia.com/mig-1g.10gb"
MIXED_TYPE: Json = {
    "name": TYPE,
    "accelerators": 8,
    "partitions": {MIG: 56},
    "cpu": "192",
    "memory": "2Ti",
}


def partitioned_node(name: str) -> Json:
    """A fake node of `TYPE` with seven partitions of each accelerator."""
    body = node(name)
    resources = dict(body["status"]["allocatable"])
    del resources[names.GPU]
    resources[MIG] = "56"
    return {**body, "status": {"capacity": resources, "allocatable": resources}}


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    """Two whole nodes and a partitioned one: a team owns 16 accelerators, another 56 partitions."""
    cluster.kubectl("apply", "-f", "-", stdin=kubectl_list(partitioned_node("gov-mig")))
    try:
        with governed(cluster) as admin:
            admin.apply_policy(instanceTypes=[MIXED_TYPE])
            admin.apply_team(WHOLE, 16)
            admin.apply_team(PARTS, 0, quotas=[{"instanceType": TYPE, "partitions": {MIG: 56}}])
            yield admin
            admin.delete_teams(WHOLE, PARTS)
    finally:
        cluster.kubectl("delete", "node", "gov-mig", "--ignore-not-found")


def partition_job(admin: Admin, name: str, count: int) -> Json:
    """A job that needs this number of partitions, two for each pod."""
    job = admin.job(PARTS, name, 1, pods=count // 2)
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {MIG: "2"}
    return job


def running_pods(admin: Admin, team: str, job: str) -> int:
    pods = admin.cluster.kubectl_json("get", "pods", "-n", team, "-l", f"job-name={job}")["items"]
    return sum(pod["status"]["phase"] == "Running" for pod in pods)


def test_each_layout_has_exactly_the_quota_that_it_offers(admin: Admin) -> None:
    admin.submit(partition_job(admin, "too-much", 58))
    admin.wait_until_pending(PARTS, "too-much")
    admin.delete_jobs(PARTS)
    admin.submit(partition_job(admin, "all", 56), admin.job(WHOLE, "whole", 16, pods=2))
    admin.wait_for_admission(PARTS, "all")
    admin.wait_for_admission(WHOLE, "whole")
    admin.cluster.until(
        lambda: (running_pods(admin, PARTS, "all"), running_pods(admin, WHOLE, "whole")) == (28, 2),
        "all pods to run",
        120,
    )


def test_the_policy_reports_a_node_with_other_partitions(admin: Admin) -> None:
    [type_status] = admin.policy()["status"]["instanceTypes"]
    assert type_status["message"].startswith(
        "1 healthy node (gov-mig) with other partitions than a whole node of the type"
    )
    assert (type_status["healthy"][names.GPU], type_status["healthy"][MIG]) == ("16", "56")
