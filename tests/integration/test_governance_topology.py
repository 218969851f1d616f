"""The policy's topology decides where a real Kueue places pods."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api.objects import Json
from cede.api.wait_reasons import WaitReason
from tests.integration.admin import Admin, condition_of, governed
from tests.integration.explained import wait_for_reason

pytestmark = pytest.mark.cluster
TEAM = "gov-racks"
RACK_LABEL = "cede.test/rack"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
RACKS = {"gov-1": "a", "gov-2": "a", "gov-3": "b"}
# a type of its own, because a flavor keeps its topology
TYPE: Json = {
    "name": "gov-racked",
    "nodeLabels": {"type": "kwok"},
    "accelerators": 8,
    "cpu": "192",
    "memory": "2Ti",
}


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    """A team that owns three nodes, two of them in one rack."""
    with governed(cluster, nodes=3) as admin:
        for node, rack in RACKS.items():
            cluster.kubectl("label", "node", node, f"{RACK_LABEL}={rack}")
        topology = [RACK_LABEL, "kubernetes.io/hostname"]
        admin.apply_policy(topology=topology, instanceTypes=[TYPE])
        admin.apply_team(TEAM, 0, quotas=[{"instanceType": TYPE["name"], "count": 3}])
        yield admin
        admin.delete_teams(TEAM)


def one_rack_job(admin: Admin, name: str, nodes: int) -> Json:
    """A job of whole-node pods that must all be in one rack."""
    job = admin.job(TEAM, name, 8 * nodes, pods=nodes)
    annotations = {REQUIRED_TOPOLOGY: RACK_LABEL}
    job["spec"]["template"]["metadata"] = {"annotations": annotations}
    return job


def wait_for_placement(admin: Admin, job: str, nodes: set[str]) -> None:
    def node_names() -> set[str]:
        selector = f"job-name={job}"
        pods = admin.cluster.kubectl_json("get", "pods", "-n", TEAM, "-l", selector)["items"]
        return {pod["spec"].get("nodeName", "") for pod in pods}

    admin.cluster.until(lambda: node_names() == nodes, f"pods of {job} on {nodes}", 120)


def test_a_job_for_one_rack_is_placed_in_one_or_waits(admin: Admin) -> None:
    """The quota would be enough for the job that waits."""
    admin.submit(one_rack_job(admin, "wide", 3))
    admin.wait_until_pending(TEAM, "wide", "topology")
    wait_for_reason(admin.cluster, TEAM, "wide", WaitReason.NO_NODE_FITS)
    admin.delete_jobs(TEAM)
    admin.submit(one_rack_job(admin, "fits", 2))
    admin.wait_for_admission(TEAM, "fits")
    wait_for_placement(admin, "fits", {"gov-1", "gov-2"})
    admin.submit(one_rack_job(admin, "one", 1))
    wait_for_placement(admin, "one", {"gov-3"})


def test_the_policy_reports_the_feature_gate_that_elastic_jobs_need(admin: Admin) -> None:
    configured = condition_of(admin.policy(), "KueueConfigured")
    verdict = (configured["status"], configured["reason"])
    assert verdict == ("False", "ElasticTopologyOff"), json.dumps(configured)
    assert "ElasticJobsViaWorkloadSlicesWithTAS" in configured["message"]
