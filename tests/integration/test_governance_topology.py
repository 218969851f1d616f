"""Levels that the policy names decide where a real Kueue places pods: what fits the quota and no
rack waits, and is told why."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.admin import Admin, condition, governed

pytestmark = pytest.mark.cluster
TEAM = "gov-racks"
RACK = "cede.test/rack"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
RACKS = {"gov-1": "a", "gov-2": "a", "gov-3": "b"}


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    """A team that owns three nodes, two of them in one rack; afterwards no flavor keeps the
    topology."""
    with governed(cluster, nodes=3) as admin:
        for node, rack in RACKS.items():
            cluster.kubectl("label", "node", node, f"{RACK}={rack}")
        admin.policy(topology=[RACK, "kubernetes.io/hostname"], instanceTypes=[TYPE])
        admin.team(TEAM, 0, quotas=[{"instanceType": TYPE["name"], "count": 3}])
        yield admin
        admin.remove(TEAM)


TYPE: Json = {
    "name": "gov-racked",
    "nodeLabels": {"type": "kwok"},
    "accelerators": 8,
    "cpu": "192",
    "memory": "2Ti",
}


def together(admin: Admin, name: str, nodes: int) -> Json:
    """A job of a whole node a pod that wants all of them in one rack."""
    job = admin.job(TEAM, name, 8 * nodes, pods=nodes)
    job["spec"]["template"]["metadata"] = {"annotations": {REQUIRED: RACK}}
    return job


def placed(admin: Admin, job: str) -> set[str]:
    pods = admin.cluster.kubectl_json("get", "pods", "-n", TEAM, "-l", f"job-name={job}")["items"]
    return {pod["spec"].get("nodeName", "") for pod in pods}


def test_a_job_that_wants_one_rack_is_placed_in_one_or_waits_though_the_quota_would_do(
    admin: Admin,
) -> None:
    admin.submit(together(admin, "wide", 3))
    admin.waits(TEAM, "wide", "topology")
    admin.clear(TEAM)
    admin.submit(together(admin, "fits", 2))
    admin.runs(TEAM, "fits")

    admin.cluster.until(
        lambda: placed(admin, "fits") == {"gov-1", "gov-2"}, "its pods to be placed in rack a", 120
    )
    admin.submit(together(admin, "one", 1))
    admin.cluster.until(
        lambda: placed(admin, "one") == {"gov-3"}, "the other rack to take a job of one node", 120
    )


def test_the_policy_says_what_kueue_must_know_of_elastic_jobs_and_topology(admin: Admin) -> None:
    policy = admin.cluster.kubectl_json("get", "clusterpolicy", names.POLICY_NAME)
    said = condition(policy, "KueueConfigured")
    assert (said["status"], said["reason"]) == ("False", "ElasticTopologyOff"), json.dumps(said)
    assert "ElasticJobsViaWorkloadSlicesWithTAS" in said["message"]
