"""A job that gets the runtime from Cede's image, with a real kubectl and API server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from deploy.local.images import CEDE
from tests.integration.test_webhook_updates import WRITING_VERBS, Verb, create_job, kubectl_diff
from tests.integration.user import WriteFile, job_file
from webhook.runtime_injection import MOUNT, NAME, OWN_PATH

pytestmark = pytest.mark.cluster
PATH = {"name": "PYTHONPATH", "value": "/torch"}
PATH_OF_A_SECRET = {
    "name": "PYTHONPATH",
    "valueFrom": {"secretKeyRef": {"name": "paths", "key": "path"}},
}
RESTRICTED: Json = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def wrapped_job(team: str, variable: Json = PATH) -> Json:
    """As its user writes it for torchrun."""
    job = job_file(team)
    job["metadata"]["annotations"][names.RUNTIME] = names.WRAP
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container |= {"command": ["torchrun"], "args": ["train.py"], "env": [variable]}
    return job


@pytest.mark.parametrize("verb", WRITING_VERBS)
@pytest.mark.parametrize("variable", [PATH, PATH_OF_A_SECRET], ids=["value", "of a Secret"])
def test_writing_the_same_file_again_changes_no_pod(
    user: Any, team: str, write: WriteFile, verb: Verb, variable: Json
) -> None:
    file = write(wrapped_job(team, variable))
    create_job(user, file, verb)
    before = user.kubectl_json("get", "job", "-n", team, "gpt")
    user.kubectl(*verb, "-f", file)
    after = user.kubectl_json("get", "job", "-n", team, "gpt")
    assert after["spec"] == before["spec"]
    user.kubectl("annotate", "job", "-n", team, "gpt", "note=1")
    if verb == ("apply",):
        assert kubectl_diff(user, "-f", file) == []


def test_a_dry_run_shows_what_the_pods_will_run(user: Any, team: str, write: WriteFile) -> None:
    file = write(wrapped_job(team, PATH_OF_A_SECRET))
    job = user.kubectl_json("create", "-f", file, "--dry-run=server")
    pod = job["spec"]["template"]["spec"]
    (init_container,) = pod["initContainers"]
    assert (init_container["name"], init_container["image"]) == (NAME, CEDE)
    (container,) = pod["containers"]
    assert " ".join(container["command"]) == "python -m elastic_runtime --restart -- train.py"
    variables = {item["name"]: item.get("value") for item in container["env"]}
    assert variables["PYTHONPATH"] == f"{MOUNT}:$({OWN_PATH})"


@pytest.fixture
def restricted(cluster: Any) -> Iterator[str]:
    """A namespace of no team that enforces Pod Security `restricted`."""
    name = "restricted-test"
    labels = {names.POD_SECURITY_ENFORCE: "restricted"}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(namespace))
    cluster.until(
        lambda: "default" in cluster.kubectl("get", "serviceaccounts", "-n", name, "-o", "name"),
        "its service account, without which there are no pods",
        30,
    )
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def test_pod_security_restricted_accepts_the_pods(
    user: Any, team: str, write: WriteFile, restricted: str
) -> None:
    """If it accepts those of the user."""
    job = wrapped_job(team)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    container["securityContext"] = RESTRICTED
    made = user.kubectl_json("create", "-f", write(job), "--dry-run=server")
    spec = made["spec"]["template"]["spec"]
    metadata = {"name": "member", "namespace": restricted}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    create = ("create", "--dry-run=server", "-f")
    user.kubectl(*create, write(pod))
    del spec["initContainers"][0]["securityContext"]
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        user.kubectl(*create, write(pod))
