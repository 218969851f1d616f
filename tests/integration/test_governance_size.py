"""What Kueue admits, nodes can hold: whole nodes less what DaemonSets take there, and the pods of
the job that takes all are placed."""

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
EVERY_NODE: Json = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": DAEMON, "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": DAEMON}},
        "template": {
            "metadata": {"labels": {"app": DAEMON}},
            "spec": {
                "nodeSelector": {"node.kubernetes.io/instance-type": TYPE},
                "tolerations": [FAKE],
                "containers": [
                    {
                        "name": "c",
                        "image": "none",
                        "resources": {"requests": {"cpu": "1500m", "memory": "3Gi"}},
                    }
                ],
            },
        },
    },
}


@pytest.fixture(scope="module")
def world(cluster: Any) -> Iterator[Admin]:
    """One team owns both nodes whole; a DaemonSet has a part of each."""
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(EVERY_NODE))
    try:
        with governed(cluster) as admin:
            admin.team(TEAM, 0, quotas=[{"instanceType": TYPE, "count": 2}])
            yield admin
            admin.remove(TEAM)
    finally:
        cluster.kubectl("delete", "daemonset", "-n", "kube-system", DAEMON)


@pytest.fixture
def admin(world: Admin) -> Iterator[Admin]:
    world.cluster.until(
        lambda: whole(world).get("cpu") == "190500m", "the DaemonSet's part to be subtracted", 120
    )
    yield world
    world.clear(TEAM)


def whole(admin: Admin) -> dict[str, str]:
    """What the policy's status says a job can have of one node."""
    types = admin.cluster.kubectl_json("get", "clusterpolicy", names.POLICY_NAME)["status"][
        "instanceTypes"
    ]
    return dict(next(one for one in types if one["name"] == TYPE)["whole"])


def nodes_of(admin: Admin, job: str) -> set[str]:
    pods = admin.cluster.kubectl_json("get", "pods", "-n", TEAM, "-l", f"job-name={job}")["items"]
    return {pod["spec"].get("nodeName", "") for pod in pods if pod["status"]["phase"] == "Running"}


def test_a_job_that_fits_the_quota_exactly_in_whole_nodes_is_admitted_and_all_its_pods_are_placed(
    admin: Admin,
) -> None:
    job = admin.job(TEAM, "all", 16, pods=2)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"] = whole(admin)
    admin.submit(job)
    admin.runs(TEAM, "all")
    admin.cluster.until(
        lambda: nodes_of(admin, "all") == {"gov-1", "gov-2"}, "a pod to run on each node", 120
    )
    used = {one["instanceType"]: one for one in admin.allocation(TEAM)["status"]["quotas"]}[TYPE]
    total = {name: quantity(name, 2 * amount(name, value)) for name, value in whole(admin).items()}
    assert used["nominal"] == total, "the job has all that the team owns"


def test_a_pod_that_no_node_could_hold_is_refused(admin: Admin) -> None:
    """The nodes together have the quota for it; one node has not."""
    job = admin.job(TEAM, "wide", 1)
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {
        names.GPU: "1",
        "cpu": "191",
    }
    with pytest.raises(AssertionError, match="191"):
        admin.submit(job)
