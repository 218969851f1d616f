"""Nodes can run what Kueue admits: quota is whole nodes minus the requests of DaemonSets."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from cede.api.resources import amount, quantity
from tests.integration.admin import FAKE, TYPE, Admin, governed

pytestmark = pytest.mark.cluster
TEAM = "gov-whole"
DAEMON = "gov-daemon"
DAEMON_POD: Json = {
    "nodeSelector": {"node.kubernetes.io/instance-type": TYPE},
    "tolerations": [FAKE],
    "containers": [
        {
            "name": "c",
            "image": "none",
            "resources": {"requests": {"cpu": "1500m", "memory": "3Gi"}},
        }
    ],
}
DAEMON_SET: Json = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": DAEMON, "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": DAEMON}},
        "template": {"metadata": {"labels": {"app": DAEMON}}, "spec": DAEMON_POD},
    },
}


@pytest.fixture(scope="module")
def governed_cluster(cluster: Any) -> Iterator[Admin]:
    """One team owns both nodes; a DaemonSet has a pod on each."""
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(DAEMON_SET))
    try:
        with governed(cluster) as admin:
            admin.apply_team(TEAM, 0, quotas=[{"instanceType": TYPE, "count": 2}])
            yield admin
            admin.delete_teams(TEAM)
    finally:
        cluster.kubectl("delete", "daemonset", "-n", "kube-system", DAEMON)


@pytest.fixture
def admin(governed_cluster: Admin) -> Iterator[Admin]:
    admin = governed_cluster
    admin.cluster.until(
        lambda: whole_node(admin).get("cpu") == "190500m",
        "the DaemonSet's requests to be subtracted",
        120,
    )
    yield admin
    admin.delete_jobs(TEAM)


def whole_node(admin: Admin) -> dict[str, str]:
    """What a job can get of one node, by the policy's status."""
    types = {type_["name"]: type_ for type_ in admin.policy()["status"]["instanceTypes"]}
    return dict(types[TYPE]["largestNode"])


def nodes_with_running_pods(admin: Admin, job: str) -> set[str]:
    pods = admin.cluster.kubectl_json("get", "pods", "-n", TEAM, "-l", f"job-name={job}")["items"]
    return {pod["spec"].get("nodeName", "") for pod in pods if pod["status"]["phase"] == "Running"}


def test_a_job_of_all_whole_nodes_is_admitted_and_its_pods_run(admin: Admin) -> None:
    job = admin.job(TEAM, "all", 16, pods=2)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"] = whole_node(admin)
    admin.submit(job)
    admin.wait_for_admission(TEAM, "all")
    admin.cluster.until(
        lambda: nodes_with_running_pods(admin, "all") == {"gov-1", "gov-2"},
        "a pod to run on each node",
        120,
    )
    status = admin.allocation(TEAM)["status"]
    quotas = {quota["instanceType"]: quota for quota in status["quotas"]}
    two_nodes = {
        name: quantity(name, 2 * amount(name, value)) for name, value in whole_node(admin).items()
    }
    assert quotas[TYPE]["nominal"] == two_nodes, "the job uses all that the team owns"


def test_a_pod_that_fits_no_node_is_refused(admin: Admin) -> None:
    """All nodes together have the quota for it, and no single node has."""
    job = admin.job(TEAM, "wide", 1)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"] = {names.GPU: "1", "cpu": "191"}
    with pytest.raises(AssertionError, match="191"):
        admin.submit(job)
