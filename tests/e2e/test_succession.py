"""An elastic job whose coordinator is lost trains on: the other pods choose another one.

With CEDE_LONG_FAULTS, as in `make test-long`, nodes are off for ten minutes.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import yaml

from deploy.demo.figures import merged
from deploy.demo.kubectl import parse_lines
from elastic_runtime.agent.succession import Reason
from tests.e2e.training import SAMPLES, Training, index_of
from tests.harness.local_cluster import agent_pid
from tests.marks import HAS_LONG_FAULTS, LONG_FAULTS
from tests.paths import TREE

EXAMPLES = TREE / "examples"
NODE_IS_OFF_S = 600 if HAS_LONG_FAULTS else 20
LINK_IS_CUT_S = 8
"""Long enough to elect a coordinator, and short enough that Kubernetes keeps the node."""
GOAL_S = 15
"""Between two steps, when a majority of the members is left. An idle machine needs 3 to 5 s."""
MINORITY_S = 120
"""The same when half of the members are lost with their coordinator: Kubernetes needs 17 s to give
up their node, and the others wait until they are replaced."""
SCHEDULER = ("--as=system:serviceaccount:cede-system:cede-scheduler", "--as-group=system:masters")
pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any


def gpt(cluster: Cluster) -> Training:
    return Training(cluster, "research", "gpt")


@pytest.fixture
def trained(cluster: Cluster, growing: Cluster) -> Iterator[None]:
    """The job of examples/gpt on four accelerators: pod 0, the coordinator, is alone on n1."""
    cluster.wait_for_controllers()
    job = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    job["metadata"]["annotations"]["cede.dev/sizes"] = "1-4"
    job["spec"] |= {"parallelism": 4, "completions": 4}
    with cordoned(cluster, "n2"):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(job))
        cluster.until(gpt(cluster).pods, "its first pod", 60)
    with cordoned(cluster, "n1"):
        cluster.until(gpt(cluster).trains_on(4), "the job to train on 4", 120)
    # The names of pods 1 to 3 did not exist when pod 0 began, and it knew that they did not.
    first = gpt(cluster).pod_of(0)
    log = cluster.kubectl("logs", "-n", "research", first)
    assert Reason.PODS_SILENT.sentence not in log
    assert nodes(cluster) == ["n1", "n2", "n2", "n2"]
    assert coordinator(cluster) == 0
    yield
    cluster.kubectl("delete", "job", "gpt", "-n", "research", "--cascade=foreground")


def nodes(cluster: Cluster) -> list[str]:
    """By index of their pods."""
    return [gpt(cluster).node_of(index) for index in range(4)]


@contextmanager
def cordoned(cluster: Cluster, node: str) -> Iterator[None]:
    """Inside, no new pod is placed there."""
    cluster.kubectl("cordon", node)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", node)


def coordinator(cluster: Cluster) -> int:
    """The pod that began the highest epoch, by what the running pods logged."""
    epochs = dict[int, int]()
    for pod in gpt(cluster).pods():
        output = cluster.kubectl("logs", "-n", "research", pod["metadata"]["name"])
        leads = [line["epoch"] for line in parse_lines(output) if line.get("message") == "leads"]
        epochs[index_of(pod)] = max(leads, default=0)
    return max(epochs, key=epochs.__getitem__)


@dataclass(frozen=True)
class Cost:
    # the longest time between the commits of two steps, in seconds
    pause_s: float
    # the most steps that one generation began and another one committed
    repeated: int

    @classmethod
    def since(cls, cluster: Cluster, began: float) -> "Cost":
        """What a fault at `began`, in Unix seconds, cost the job by its own journal."""
        steps = gpt(cluster).steps()
        committed = {(step.step, step.generation) for step in steps}
        ordered = merged(steps)
        times = [step.time for step in ordered]
        pauses = [after - before for before, after in pairwise(times) if after > began]
        first = next(step.step for step in ordered if step.time > began)
        last = ordered[-1].step
        begun = {(line["step"], line["generation"]) for line in gpt(cluster).journal(SAMPLES)}
        repeated = Counter(
            generation for step, generation in begun - committed if first <= step <= last
        )
        return cls(max(pauses), max(repeated.values(), default=0))


@contextmanager
def fault(cluster: Cluster, goal_s: float) -> Iterator[None]:
    """Inside, the coordinator is lost and the job trains on four pods again. By then it has stood
    still for less than `goal_s`, has repeated only steps in flight, and lost nothing."""
    before = gpt(cluster).last_step().step
    began = time.time()
    yield
    cluster.until(gpt(cluster).trains_on(4, before + 20), "it to train on 4 again", 180)
    cost = Cost.since(cluster, began)
    print(cost)
    assert cost.pause_s < goal_s
    assert cost.repeated <= 1
    gpt(cluster).check_undisturbed()


def turn_off(cluster: Cluster, node: str) -> None:
    """It has no power for a while. The fault is its length."""
    cluster.fail(node)
    try:
        time.sleep(NODE_IS_OFF_S)
    finally:
        cluster.join(node)


def move_to_n1(cluster: Cluster, *indices: int) -> None:
    """Deletes these pods. Afterwards others in their places run on n1."""
    pods = [gpt(cluster).pod_of(index) for index in indices]
    with cordoned(cluster, "n2"):
        cluster.kubectl("delete", "pods", "-n", "research", *pods, "--wait=false")
        cluster.until(lambda: nodes(cluster)[:2] == ["n1", "n1"], "others in their places", 60)


def spread_by_halves(cluster: Cluster) -> None:
    """Afterwards the coordinator and another pod are on n1, and the other two on n2."""
    before = gpt(cluster).last_step().step
    move_to_n1(cluster, 1)
    cluster.until(gpt(cluster).trains_on(4, before + 20), "it to train on 4 again", 60)
    assert nodes(cluster) == ["n1", "n1", "n2", "n2"]
    assert coordinator(cluster) == 0


def cut_off(cluster: Cluster, node: str) -> None:
    """Its pods run on and reach no other for a while. The fault is its length."""
    cluster.cut(node)
    try:
        time.sleep(LINK_IS_CUT_S)
    finally:
        cluster.heal(node)


def freeze(cluster: Cluster, index: int) -> None:
    """The agent of this pod, until the others train on without it."""
    pid = agent_pid(gpt(cluster).uid(), index)
    os.kill(pid, signal.SIGSTOP)
    try:
        cluster.until(gpt(cluster).trains_on(3), "the others to train on", 60)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_training_goes_on_when_the_node_of_pod_0_is_off(cluster: Cluster, trained: None) -> None:
    """Pod 0 comes back on the other node."""
    with cordoned(cluster, "n1"), fault(cluster, GOAL_S):
        turn_off(cluster, "n1")
    assert coordinator(cluster) != 0


@LONG_FAULTS
def test_the_others_elect_a_coordinator_while_a_cut_link_leaves_pod_0_one_too(
    cluster: Cluster, trained: None
) -> None:
    """Pod 0 has no majority and waits. When the link heals it follows them, in the same pod."""
    pod = gpt(cluster).pod_of(0)
    with fault(cluster, GOAL_S):
        cut_off(cluster, "n1")
    assert coordinator(cluster) != 0
    assert gpt(cluster).pod_of(0) == pod


@LONG_FAULTS
def test_training_goes_on_when_the_agent_of_the_coordinator_is_frozen(
    cluster: Cluster, trained: None
) -> None:
    with fault(cluster, GOAL_S):
        freeze(cluster, 0)
    assert coordinator(cluster) != 0


@LONG_FAULTS
def test_training_goes_on_when_the_coordinator_and_another_pod_are_deleted(
    cluster: Cluster, trained: None
) -> None:
    """They come back on the same node."""
    with fault(cluster, GOAL_S):
        move_to_n1(cluster, 0, 1)
    assert coordinator(cluster) not in (0, 1)


@LONG_FAULTS
def test_half_of_the_pods_wait_when_the_others_are_lost_with_the_coordinator(
    cluster: Cluster, trained: None
) -> None:
    """They cannot elect another one, and train on when pod 0 is replaced."""
    spread_by_halves(cluster)
    with fault(cluster, MINORITY_S):
        turn_off(cluster, "n1")
    assert coordinator(cluster) == 0


def count_pods(cluster: Cluster) -> int:
    """Also those that are being deleted."""
    selector = ("-n", "research", "-l", "batch.kubernetes.io/job-name=gpt")
    return len(cluster.kubectl_json("get", "pods", *selector)["items"])


@LONG_FAULTS
def test_pods_that_end_without_half_of_the_job_and_its_coordinator_save(
    cluster: Cluster, trained: None
) -> None:
    """Two of four are left, which can elect nobody, and are deleted. Nobody has the state then."""
    spread_by_halves(cluster)
    left = {gpt(cluster).pod_of(index) for index in (2, 3)}
    cluster.fail("n1")
    try:
        cluster.kubectl("delete", "pods", "-n", "research", *left, "--wait=true", "--timeout=60s")
    finally:
        cluster.join("n1")
    before = gpt(cluster).last_step().step
    cluster.until(gpt(cluster).trains_on(4, before + 5), "it to train on 4 again", 180)
    gpt(cluster).check_nothing_lost()


@LONG_FAULTS
def test_pods_that_were_deleted_without_a_coordinator_are_not_waited_for(
    cluster: Cluster, trained: None
) -> None:
    """The job shrinks by force while the agents of half of its pods are frozen. The others end, and
    those two are no majority of the members."""
    desired = {"parallelism": 2, "completions": 2}
    agents = [agent_pid(gpt(cluster).uid(), index) for index in (0, 1)]
    for pid in agents:
        os.kill(pid, signal.SIGSTOP)
    try:
        for user in ((), SCHEDULER):
            patch = ("patch", "job", "gpt", "-n", "research", "-p", json.dumps({"spec": desired}))
            cluster.kubectl(*patch, *user)
        cluster.until(lambda: count_pods(cluster) == 2, "two pods to end", 120)
    finally:
        for pid in agents:
            os.kill(pid, signal.SIGCONT)
    before = gpt(cluster).last_step().step
    cluster.until(gpt(cluster).trains_on(2, before), "the two to train on", MINORITY_S)
    # Those that were deleted could not know that the others go on: they did a step, and saved it.
    gpt(cluster).check_undisturbed(repeated=1)
