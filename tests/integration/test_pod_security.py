"""In a team's namespace no pod of a member's job reaches the node that it runs on."""

import json
from typing import Any

import pytest

from cede.api.objects import Json
from tests.integration.user import AS_JOB_CONTROLLER

pytestmark = pytest.mark.cluster
CONTAINER: Json = {"name": "c", "image": "none"}
PRIVILEGED = CONTAINER | {"securityContext": {"privileged": True}}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"containers": [PRIVILEGED]}, "privileged", id="privileged"),
        pytest.param(
            {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}, "hostPath", id="hostPath"
        ),
        pytest.param({"hostPID": True}, "hostPID=true", id="hostPID"),
        pytest.param({"hostNetwork": True}, "hostNetwork=true", id="hostNetwork"),
    ],
)
def test_a_pod_that_reaches_its_node_is_refused(
    cluster: Any, team: str, fields: Json, reason: str
) -> None:
    """Members create no pods: the Job controller does, for their jobs."""
    assert not refusal(cluster, team, {})
    message = refusal(cluster, team, fields)
    assert "violates PodSecurity" in message
    assert reason in message


def refusal(cluster: Any, team: str, fields: Json) -> str:
    """Of a pod with these fields; empty if it is accepted."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "of-a-job", "namespace": team},
        "spec": {"containers": [CONTAINER]} | fields,
    }
    create = ("create", "--dry-run=server", "-f", "-", *AS_JOB_CONTROLLER)
    try:
        cluster.kubectl(*create, stdin=json.dumps(pod))
    except AssertionError as error:
        return str(error)
    return ""
