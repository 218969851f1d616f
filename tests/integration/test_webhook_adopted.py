"""A Deployment from before its namespace became a team's: how it gets into the queue."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from tests.builders.job_kinds import pod_spec
from tests.integration.admin import FAKE, Admin, governed, kubectl_list

pytestmark = pytest.mark.cluster
LAB = "gov-served"
SERVER = ("deployment", "server", "-n", LAB)


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    """A namespace with a running Deployment, which then becomes a team's."""
    with governed(cluster) as admin:
        cluster.kubectl("create", "namespace", LAB)
        cluster.kubectl("apply", "-f", "-", stdin=server_file())
        cluster.until(lambda: count_ready(admin) == 1, "the server to be ready", 120)
        admin.apply_team(LAB, 8, namespace={"name": LAB, "adopt": True})
        try:
            yield admin
        finally:
            cluster.kubectl("delete", *SERVER, "--wait=true")
            cluster.kubectl("delete", "computeallocation", LAB, "--timeout=120s")
            cluster.kubectl("delete", "namespace", LAB, "--timeout=120s")


def server_file(**labels: str) -> str:
    template = {
        "metadata": {"labels": {"app": "server"} | labels},
        "spec": pod_spec({"cpu": "1"}, tolerations=[FAKE]),
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "server"}}, "template": template}
    return kubectl_list(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "server", "namespace": LAB},
            "spec": spec,
        }
    )


def count_ready(admin: Admin) -> int:
    return int(admin.cluster.kubectl_json("get", *SERVER).get("status", {}).get("readyReplicas", 0))


def test_it_keeps_running_and_is_queued_after_it_was_scaled_to_zero(admin: Admin) -> None:
    assert count_ready(admin) == 1, "it keeps running"
    # Kueue refuses to add a queue while pods are ready
    with pytest.raises(AssertionError, match="field is immutable"):
        admin.cluster.kubectl("apply", "-f", "-", stdin=server_file(version="2"))
    admin.cluster.kubectl("scale", *SERVER, "--replicas=0")
    admin.cluster.until(lambda: count_ready(admin) == 0, "the server to stop", 120)
    admin.cluster.kubectl("apply", "-f", "-", stdin=server_file(version="2"))
    labels = admin.cluster.kubectl_json("get", *SERVER)["metadata"]["labels"]
    assert labels == {names.QUEUE_NAME: "default", names.PRIORITY_CLASS: "training"}
    admin.cluster.until(lambda: count_ready(admin) == 1, "Kueue to admit the server", 120)
