"""An elastic job that misses pods trains on: it is never evicted, its Job counts no failure, and
nothing is lost.

With CEDE_LONG_FAULTS, as in `make test-long`, the faults last for minutes.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from cede.api.objects import Json
from deploy.demo.figures import merged
from tests.e2e.training import INDEX, Training
from tests.harness.local_cluster import agent_pid
from tests.marks import HAS_LONG_FAULTS, LONG, LONG_FAULTS
from tests.paths import TREE

EXAMPLES = TREE / "examples"
NODE_IS_OFF_S = 600
SOON_S = 40
"""The second delay of the Job controller, 20 s, with the end and the start of a pod."""
PODS_ARE_REFUSED_S = 180 if HAS_LONG_FAULTS else 0

NO_SUCH_IMAGE = "docker.io/none/none:none"
pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any


def gpt(cluster: Cluster) -> Training:
    return Training(cluster, "research", "gpt")


@pytest.fixture(scope="module")
def research(growing: Cluster) -> None:
    """The job of examples/gpt on four accelerators."""
    growing.kubectl("delete", "job", "-n", "research", "--all", "--wait=true")
    job = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    job["metadata"]["annotations"]["cede.dev/sizes"] = "2-4"
    job["spec"] |= {"parallelism": 4, "completions": 4}
    growing.kubectl("apply", "-f", "-", stdin=json.dumps(job))


@pytest.fixture
def last_step(cluster: Cluster, research: None) -> Iterator[int]:
    """The last step when the job trains on all four. Afterwards it must still be the same Job, with
    nothing lost."""
    cluster.until(gpt(cluster).trains_on(4), "the job to train on 4", 300)
    yield merged(gpt(cluster).steps())[-1].step
    gpt(cluster).check_undisturbed()


def delete_pod(cluster: Cluster, index: int) -> None:
    """The Job controller keeps the object until it has made the pod again."""
    name = gpt(cluster).pod_of(index)
    cluster.kubectl("delete", "pod", "-n", "research", name, "--wait=false")


@LONG_FAULTS
def test_a_node_that_is_off_costs_no_step(cluster: Cluster, last_step: int) -> None:
    """Pod 0 is on the other node: test_succession.py has its own."""
    node = next(n for n in map(gpt(cluster).node_of, (3, 2, 1)) if n != gpt(cluster).node_of(0))
    cluster.fail(node)
    # the fault is its length
    time.sleep(NODE_IS_OFF_S)
    check_trains_on(cluster)
    cluster.join(node)
    cluster.until(gpt(cluster).trains_on(4, last_step + 20), "it to train on 4 again", 180)


@LONG
def test_a_pod_that_is_lost_again_and_again_is_made_again_within_seconds(
    cluster: Cluster, last_step: int
) -> None:
    lose_pod_0_four_times(cluster, lambda: delete_pod(cluster, 0))


def lose_pod_0_four_times(cluster: Cluster, lose: Callable[[], None]) -> None:
    """By Kubernetes' own count of failures it would be made again after 10, 20, 40 and 80 s."""
    step = merged(gpt(cluster).steps())[-1].step
    for _ in range(4):
        lost = gpt(cluster).pod_of(0)
        began = time.monotonic()
        lose()
        cluster.until(lambda lost=lost: gpt(cluster).pod_of(0) != lost, "pod 0 to run again", 120)
        assert time.monotonic() - began < SOON_S
        cluster.until(gpt(cluster).trains_on(4), "it to train on 4 again", 120)
    assert step < merged(gpt(cluster).steps())[-1].step


@LONG
def test_a_pod_that_is_refused_is_made_again_later(cluster: Cluster, last_step: int) -> None:
    """The other pods train on meanwhile."""
    limit = ("quota", "three", "-n", "research")
    cluster.kubectl("create", *limit, "--hard=pods=3")
    try:
        delete_pod(cluster, 2)
        cluster.until(gpt(cluster).trains_on(3, last_step + 20), "it to train on 3", 120)
        # the fault is its length
        time.sleep(PODS_ARE_REFUSED_S)
        check_trains_on(cluster)
    finally:
        cluster.kubectl("delete", *limit)
    cluster.until(gpt(cluster).trains_on(4), "it to train on 4 again", 120)


@LONG_FAULTS
def test_a_job_shrinks_to_the_pods_below_one_whose_image_cannot_be_pulled(
    cluster: Cluster, last_step: int
) -> None:
    """Without that size Kueue would evict it whole."""
    with without_image(cluster, index=2):
        delete_pod(cluster, 2)
        cluster.until(lambda: is_waiting_for_image(cluster), "a pod to wait for its image", 60)
    half = "half of Kueue's recoveryTimeout, 15 min, to pass"
    cluster.until(lambda: size(cluster) == 2, half, 500)
    cluster.until(gpt(cluster).trains_on(4, last_step + 20), "it to train on 4 again", 180)


def no_image(index: int) -> Json:
    """A policy that gives pods of this index an image that does not exist."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": "research"}}
    patch = f'op: "replace", path: "/spec/containers/0/image", value: "{NO_SUCH_IMAGE}"'
    has_index = f'object.metadata.?labels["{INDEX}"].orValue("") == "{index}"'
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": namespace,
            "resourceRules": [rule | {"operations": ["CREATE"]}],
        },
        "matchConditions": [{"name": "index", "expression": has_index}],
        "mutations": [
            {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[JSONPatch{{{patch}}}]"}}
        ],
    }
    group = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-image"}}
    policy = group | {"kind": "MutatingAdmissionPolicy", "spec": spec}
    binding = group | {
        "kind": "MutatingAdmissionPolicyBinding",
        "spec": {"policyName": "no-image"},
    }
    return {"apiVersion": "v1", "kind": "List", "items": [policy, binding]}


@contextmanager
def without_image(cluster: Cluster, index: int) -> Iterator[None]:
    """Inside, pods of this index are created with an image that does not exist."""
    documents = json.dumps(no_image(index))
    spec = {"containers": [{"name": "any", "image": "any"}]}
    metadata = {"name": "any", "labels": {INDEX: str(index)}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def is_in_force() -> bool:
        tried = cluster.kubectl(
            *("create", "-n", "research", "--dry-run=server", "-o", "json", "-f", "-"),
            stdin=json.dumps(pod),
        )
        return bool(json.loads(tried)["spec"]["containers"][0]["image"] == NO_SUCH_IMAGE)

    cluster.kubectl("apply", "-f", "-", stdin=documents)
    try:
        cluster.until(is_in_force, "the policy to be in force", 30)
        yield
    finally:
        cluster.kubectl("delete", "-f", "-", stdin=documents)


def is_waiting_for_image(cluster: Cluster) -> bool:
    pods = cluster.kubectl_json("get", "pods", "-n", "research")["items"]
    states = [s["state"] for pod in pods for s in pod["status"].get("containerStatuses", [])]
    return any("Pull" in state.get("waiting", {}).get("reason", "") for state in states)


def check_trains_on(cluster: Cluster) -> None:
    """On whatever number of pods."""
    before = merged(gpt(cluster).steps())[-1].step

    def more() -> bool:
        return merged(gpt(cluster).steps())[-1].step > before + 5

    cluster.until(more, f"the job to do more than {before} steps", 30)


@LONG_FAULTS
def test_a_job_shrinks_to_the_pods_that_nodes_have_room_for(
    cluster: Cluster, last_step: int
) -> None:
    """A pod is lost, and its node takes no new one. The job gives up its last pod, in whose place
    the lost one is made again. It grows once there is room."""
    nodes = {gpt(cluster).node_of(index): index for index in (0, 1, 2)}
    place = gpt(cluster).node_of(3)
    lost_on = next(node for node in nodes if node != place)
    cluster.kubectl("cordon", lost_on)
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(other_pod(place)))
    try:
        running = ("wait", "pod/other", "--for=condition=Ready", "--timeout=60s")
        cluster.kubectl(*running)
        delete_pod(cluster, nodes[lost_on])
        cluster.until(lambda: size(cluster) == 3, "Cede to shrink it to 3", 90)
        moved = gpt(cluster)
        cluster.until(lambda: moved.node_of(nodes[lost_on]) == place, "the pod in its place", 60)
        cluster.until(gpt(cluster).trains_on(3, last_step), "it to train on 3", 120)
    finally:
        cluster.kubectl("delete", "pod", "other", "--grace-period=0", "--force")
        cluster.kubectl("uncordon", lost_on)
    cluster.until(gpt(cluster).trains_on(4), "it to train on 4 again", 120)


def other_pod(node: str) -> Json:
    """It takes what the job leaves free on the node."""
    container = {
        "name": "other",
        "image": "docker.io/library/cede-training:dev",
        "command": ["sleep", "3600"],
        "resources": {"limits": {"nvidia.com/gpu": 2}},
    }
    spec = {"nodeName": node, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": spec}


def size(cluster: Cluster) -> int:
    job = cluster.kubectl_json("get", "job", "-n", "research", "gpt")
    return int(job["spec"]["parallelism"])


@LONG
def test_pod_0_whose_agent_fails_again_and_again_is_made_again_within_seconds(
    cluster: Cluster, research: None
) -> None:
    """Last, because its Job counts these failures."""
    cluster.until(gpt(cluster).trains_on(4), "the job to train on 4", 300)

    def kill_agent() -> None:
        os.kill(agent_pid(gpt(cluster).uid(), 0), signal.SIGKILL)

    lose_pod_0_four_times(cluster, kill_agent)
    gpt(cluster).check_nothing_lost()
    job = cluster.kubectl_json("get", "job", "-n", "research", "gpt")
    assert job["status"]["failed"] == 4, "backoffLimit counts every one"
