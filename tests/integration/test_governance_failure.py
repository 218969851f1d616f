"""Quotas follow nodes that really fail: a kubelet is powered off and comes back."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from tests.integration.admin import POLICY, Admin, condition_of, governed
from tests.marks import LONG

pytestmark = [pytest.mark.cluster, LONG]
NORTH = "gov-north"
SOUTH = "gov-south"
LOCAL_TYPE = "local-4gpu"
"""The type of the local cluster's own nodes n1 and n2, each with a kubelet and 4 accelerators."""
FAILING_NODE = "n2"


@pytest.fixture
def admin(cluster: Any) -> Iterator[Admin]:
    """Two teams that own a real node each. All controllers run on the node that stays."""
    with governed(cluster, nodes=1) as admin:
        local_type = {"name": LOCAL_TYPE, "accelerators": 4, "cpu": "2", "memory": "16Gi"}
        admin.apply_policy(instanceTypes=[*POLICY["instanceTypes"], local_type])
        for team in (NORTH, SOUTH):
            quotas = [{"instanceType": LOCAL_TYPE, "count": 1}]
            admin.apply_team(team, 0, quotas=quotas, sharing={"strategy": "Lend"})
        move_controllers(admin)
        yield admin
        admin.delete_teams(NORTH, SOUTH)


def move_controllers(admin: Admin) -> None:
    """Restarts the controllers of the node that is going to fail on the other node."""
    kubectl = admin.cluster.kubectl
    kubectl("cordon", FAILING_NODE)
    try:
        for namespace in (names.SYSTEM_NAMESPACE, "kueue-system"):
            on_node = f"--field-selector=spec.nodeName={FAILING_NODE}"
            kubectl("delete", "pods", "-n", namespace, on_node, "--wait=true")
        admin.cluster.wait_for_controllers()
    finally:
        kubectl("uncordon", FAILING_NODE)
    admin.wait_for_message(NORTH, f"team {NORTH} owns 4")


def ready_reason(admin: Admin, team: str) -> str:
    return str(condition_of(admin.allocation(team), "Ready").get("reason"))


def wait_for_quotas(admin: Admin, accelerators: str) -> None:
    """Waits until both teams have this many accelerators."""
    admin.cluster.until(
        lambda: all(admin.accelerator_quota(team) == accelerators for team in (NORTH, SOUTH)),
        f"both teams to have {accelerators} accelerators",
        120,
    )


def test_a_failed_node_reduces_every_quota_until_it_is_back(admin: Admin) -> None:
    """While a team has half a node, a job that needs a whole node is not admitted."""
    cluster = admin.cluster
    wait_for_quotas(admin, "4")
    admin.submit(admin.job(SOUTH, "runs", 4, pods=4))
    admin.wait_for_admission(SOUTH, "runs")
    cluster.fail(FAILING_NODE)
    try:
        wait_for_quotas(admin, "2")
        for team in (NORTH, SOUTH):
            admin.wait_for_message(team, "healthy local-4gpu nodes hold less than is granted")
            admin.wait_for_message(team, "every quota is reduced in proportion")
            assert ready_reason(admin, team) == "InsufficientNodes"
        types = {type_["name"]: type_ for type_ in admin.policy()["status"]["instanceTypes"]}
        assert (types[LOCAL_TYPE]["nodes"], types[LOCAL_TYPE]["healthyNodes"]) == (2, 1)
        assert types[LOCAL_TYPE]["healthy"][names.GPU] == "4", "the accelerators of one node"
        assert "runs" in admin.admitted_jobs(SOUTH), "a reduced quota stops no running job"
        assert not admin.eviction_reason(SOUTH, "runs")
        admin.submit(admin.job(NORTH, "node", 4, pods=4))
        admin.wait_until_pending(NORTH, "node")
    finally:
        cluster.join(FAILING_NODE)
    wait_for_quotas(admin, "4")
    cluster.until(lambda: ready_reason(admin, NORTH) == "Ready", "reason Ready again", 120)
    admin.wait_for_admission(NORTH, "node")
