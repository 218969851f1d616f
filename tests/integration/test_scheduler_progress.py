"""The scheduler's passes go on, whatever the cluster contains and whichever replica leads."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json, unix

pytestmark = pytest.mark.cluster
NAMESPACE = "default"
SYSTEM = ("-n", names.SYSTEM_NAMESPACE)
FAILOVER_S = 5.0
# a pod on a busy machine ends late
TOLERANCE_S = 10.0


def lease(cluster: Any) -> Json:
    body: Json = cluster.kubectl_json("get", "lease", names.SCHEDULER_LEASE, *SYSTEM)
    return body


def last_pass(cluster: Any) -> float:
    return unix(lease(cluster)["metadata"].get("annotations", {}).get(names.LAST_PASS))


@pytest.fixture
def claiming_job(cluster: Any) -> Iterator[None]:
    """A suspended Job whose pods claim a device (dynamic resource allocation)."""
    container = {
        "name": "main",
        "image": "none",
        "resources": {"claims": [{"name": "device"}]},
    }
    pod = {
        "containers": [container],
        "restartPolicy": "Never",
        "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "none"}],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "claims-a-device", "namespace": NAMESPACE},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    yield
    cluster.kubectl("delete", "job", "claims-a-device", "-n", NAMESPACE)


def test_a_job_that_claims_devices_delays_no_pass(cluster: Any, claiming_job: None) -> None:
    now = time.time()
    cluster.until(lambda: last_pass(cluster) > now, "a pass", 30)


@pytest.fixture
def two_replicas(cluster: Any) -> Iterator[None]:
    deployment = ("deployment", names.SCHEDULER, *SYSTEM)
    cluster.kubectl("scale", *deployment, "--replicas=2")
    cluster.kubectl("rollout", "status", *deployment, "--timeout=60s")
    yield
    cluster.kubectl("scale", *deployment, "--replicas=1")
    cluster.kubectl("rollout", "status", *deployment, "--timeout=60s")


def test_a_standby_is_ready_and_leads_when_the_leader_is_gone(
    cluster: Any, two_replicas: None
) -> None:
    holder = lease(cluster)["spec"]["holderIdentity"]
    cluster.kubectl("delete", "pod", holder, *SYSTEM, "--force", "--grace-period=0")
    gone = time.time()
    cluster.until(
        lambda: (
            lease(cluster)["spec"]["holderIdentity"] not in ("", holder)
            and last_pass(cluster) > gone
        ),
        "a pass of the other replica",
        FAILOVER_S + TOLERANCE_S,
    )
