"""Quota follows nodes that really fail: a kubelet is powered off, every owner gives in proportion
and is told, and it is undone."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from tests.integration.admin import POLICY, Admin, condition, governed

pytestmark = pytest.mark.cluster
A = "gov-north"
B = "gov-south"
# the local cluster's own nodes: n1 and n2, each with a kubelet and four accelerators
REAL = "local-4gpu"
NODE = "n2"


@pytest.fixture
def admin(cluster: Any) -> Iterator[Admin]:
    """Two teams that own a real node each; what governs runs on the node that stays."""
    with governed(cluster, nodes=1) as admin:
        admin.policy(
            instanceTypes=[
                *POLICY["instanceTypes"],
                {"name": REAL, "accelerators": 4, "cpu": "2", "memory": "16Gi"},
            ]
        )
        for team in (A, B):
            admin.team(
                team, 0, quotas=[{"instanceType": REAL, "count": 1}], sharing={"strategy": "Lend"}
            )
        clear_of_controllers(admin)
        yield admin
        admin.remove(A, B)


def clear_of_controllers(admin: Admin) -> None:
    """No controller runs on the node that is going to fail: they are started anew on the other."""
    kubectl = admin.cluster.kubectl
    kubectl("cordon", NODE)
    try:
        for namespace in (names.SYSTEM_NAMESPACE, "kueue-system"):
            kubectl(
                "delete",
                "pods",
                "-n",
                namespace,
                f"--field-selector=spec.nodeName={NODE}",
                "--wait=true",
            )
            kubectl(
                "wait",
                "deployments",
                "--all",
                "-n",
                namespace,
                "--for=condition=Available",
                "--timeout=120s",
            )
    finally:
        kubectl("uncordon", NODE)
    admin.says(A, f"team {A} owns 4")


def in_short(admin: Admin, team: str) -> str:
    return str(condition(admin.allocation(team), "Ready").get("reason"))


def test_a_node_that_fails_takes_from_every_owner_in_proportion_until_it_is_back(
    admin: Admin,
) -> None:
    """What the cluster cannot hold is not admitted: a job of a whole node waits while half a node
    is all a team has."""
    cluster = admin.cluster
    cluster.until(
        lambda: [admin.limit(team) for team in (A, B)] == ["4", "4"], "both to have a node", 120
    )
    admin.submit(admin.job(B, "runs", 4, pods=4))
    admin.runs(B, "runs")
    cluster.fail(NODE)
    try:
        cluster.until(
            lambda: [admin.limit(team) for team in (A, B)] == ["2", "2"],
            "both to have half a node",
            120,
        )
        for team in (A, B):
            admin.says(
                team, "of it is not there: healthy local-4gpu nodes hold less than is allocated"
            )
            admin.says(team, "every owner gives in proportion")
            assert in_short(admin, team) == "Short"
        types = {
            one["name"]: one
            for one in cluster.kubectl_json("get", "clusterpolicy", names.POLICY_NAME)["status"][
                "instanceTypes"
            ]
        }
        assert (types[REAL]["nodes"], types[REAL]["healthyNodes"]) == (2, 1)
        assert types[REAL]["healthy"][names.GPU] == "4", (
            "what is given out is what the healthy node has"
        )
        assert "runs" in admin.admitted(B), "what runs is not stopped for a quota that shrinks"
        assert not admin.evicted(B, "runs")
        admin.submit(admin.job(A, "node", 4, pods=4))
        admin.waits(A, "node")
    finally:
        cluster.join(NODE)
    cluster.until(
        lambda: [admin.limit(team) for team in (A, B)] == ["4", "4"],
        "both to have a node again",
        120,
    )
    cluster.until(lambda: in_short(admin, A) == "InPlace", "the sentence to go", 120)
    admin.runs(A, "node")
