"""Nodes of one type that are partitioned differently: each adds what it offers, and what is
admitted is placed."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.admin import TYPE, Admin, file, governed, node

pytestmark = pytest.mark.cluster
WHOLE = "gov-uncut"
PARTS = "gov-parts"
MIG = "nvidia.com/mig-1g.10gb"
MIXED: Json = {
    "name": TYPE,
    "accelerators": 8,
    "partitions": {MIG: 56},
    "cpu": "192",
    "memory": "2Ti",
}


def partitioned(name: str) -> Json:
    """A pretended node of `TYPE` whose accelerators are cut into sevenths."""
    found = node(name)
    room = {
        key: value for key, value in found["status"]["allocatable"].items() if key != names.GPU
    } | {MIG: "56"}
    return {**found, "status": {"capacity": room, "allocatable": room}}


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    """Two whole nodes and one that is partitioned: a team owns 16 accelerators, another 56
    partitions."""
    cluster.kubectl("apply", "-f", "-", stdin=file(partitioned("gov-mig")))
    try:
        with governed(cluster) as admin:
            admin.policy(instanceTypes=[MIXED])
            admin.team(WHOLE, 16)
            admin.team(PARTS, 0, quotas=[{"instanceType": TYPE, "partitions": {MIG: 56}}])
            yield admin
            admin.remove(WHOLE, PARTS)
    finally:
        cluster.kubectl("delete", "node", "gov-mig", "--ignore-not-found")


def of_partitions(admin: Admin, name: str, count: int) -> Json:
    """A job of pods that hold two partitions each."""
    job = admin.job(PARTS, name, 1, pods=count // 2)
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {MIG: "2"}
    return job


def running(admin: Admin, team: str, job: str) -> int:
    pods = admin.cluster.kubectl_json("get", "pods", "-n", team, "-l", f"job-name={job}")["items"]
    return sum(pod["status"]["phase"] == "Running" for pod in pods)


def test_each_layout_gives_what_it_has_and_no_more(admin: Admin) -> None:
    admin.submit(of_partitions(admin, "too-much", 58))
    admin.waits(PARTS, "too-much")
    admin.clear(PARTS)
    admin.submit(of_partitions(admin, "all", 56), admin.job(WHOLE, "whole", 16, pods=2))
    admin.runs(PARTS, "all")
    admin.runs(WHOLE, "whole")
    admin.cluster.until(
        lambda: (running(admin, PARTS, "all"), running(admin, WHOLE, "whole")) == (28, 2),
        "all pods to be placed",
        120,
    )


def test_the_policy_says_that_a_node_is_partitioned_otherwise(admin: Admin) -> None:
    [found] = admin.cluster.kubectl_json("get", "clusterpolicy", names.POLICY_NAME)["status"][
        "instanceTypes"
    ]
    assert found["message"].startswith(
        "1 healthy node (gov-mig) offer other partitions than a whole node of the type"
    )
    assert (found["healthy"][names.GPU], found["healthy"][MIG]) == ("16", "56")
