"""A server that ran before its namespace was a team's: what it takes to get it into the queue."""

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
    """A namespace with a Deployment that serves, then a team's."""
    with governed(cluster) as admin:
        cluster.kubectl("create", "namespace", LAB)
        cluster.kubectl("apply", "-f", "-", stdin=server())
        cluster.until(lambda: ready(admin) == 1, "the server to serve", 120)
        admin.apply_team(LAB, 8, namespace={"name": LAB, "adopt": True})
        try:
            yield admin
        finally:
            cluster.kubectl("delete", *SERVER, "--wait=true")
            cluster.kubectl("delete", "computeallocation", LAB, "--timeout=120s")
            cluster.kubectl("delete", "namespace", LAB, "--timeout=120s")


def server(**labels: str) -> str:
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


def ready(admin: Admin) -> int:
    return int(admin.cluster.kubectl_json("get", *SERVER).get("status", {}).get("readyReplicas", 0))


def test_it_serves_on_and_is_queued_with_its_priority_once_it_has_been_at_rest(
    admin: Admin,
) -> None:
    assert ready(admin) == 1, "it serves on"
    # Kueue's word, which we cannot change
    with pytest.raises(AssertionError, match="field is immutable"):
        admin.cluster.kubectl("apply", "-f", "-", stdin=server(version="2"))
    admin.cluster.kubectl("scale", *SERVER, "--replicas=0")
    admin.cluster.until(lambda: ready(admin) == 0, "the server to rest", 120)
    admin.cluster.kubectl("apply", "-f", "-", stdin=server(version="2"))
    labels = admin.cluster.kubectl_json("get", *SERVER)["metadata"]["labels"]
    assert labels == {names.QUEUE_NAME: "default", names.PRIORITY_CLASS: "training"}
    admin.cluster.until(
        lambda: ready(admin) == 1, "Kueue to admit the server, and it to serve", 120
    )
