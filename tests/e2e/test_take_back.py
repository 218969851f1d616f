"""A take-back ends in the same state whatever dies half-way: the owner runs, the borrower trains on at half size, nothing is lost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.figures import Step, account, merged
from deploy.demo.kubectl import parsed, reading

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS, SAMPLES = "steps-*.jsonl", "samples-*.jsonl"

pytestmark = pytest.mark.cluster
Cluster = Any  # the fixture of tests/conftest.py


def pods(cluster: Cluster, namespace: str, job: str, phase: str = "Running") -> list[Any]:
    items = cluster.kubectl_json("get", "pods", "-n", namespace, "-l", f"batch.kubernetes.io/job-name={job}")["items"]
    return [pod for pod in items if pod["status"].get("phase") == phase and "deletionTimestamp" not in pod["metadata"]]


def pod_of(cluster: Cluster, index: int) -> str:
    for pod in pods(cluster, "research", "gpt"):
        if pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == str(index):
            return str(pod["metadata"]["name"])
    raise AssertionError(f"gpt has no running pod of index {index}")


def logged(cluster: Cluster, files: str) -> list[Any]:
    """The job's own journal; any running pod of it can read it."""
    running = pods(cluster, "research", "gpt")
    if not running:
        return []
    pod = running[0]["metadata"]
    folder = f"/shared/{pod['labels']['batch.kubernetes.io/controller-uid']}"
    return parsed(cluster.kubectl("exec", "-n", "research", pod["name"], "--", *reading(f"{folder}/{files}")))


def steps(cluster: Cluster) -> list[Step]:
    return [Step.read(line) for line in logged(cluster, STEPS)]


def trains_on(cluster: Cluster, size: int, beyond: int = 0) -> Callable[[], bool]:
    def probe() -> bool:
        log = merged(steps(cluster))
        return bool(log) and log[-1].size == size and log[-1].step > beyond

    return probe


@pytest.fixture(scope="module")
def research(cluster: Cluster) -> Iterator[None]:
    """The job of examples/gpt, grown to all eight accelerators, half of them borrowed from vision."""
    cluster.kubectl("apply", "-f", str(EXAMPLES / "policy.yaml"), "-f", str(EXAMPLES / "allocations.yaml"))
    cluster.kubectl("patch", "clusterpolicy", "default", "--type=merge", "-p", '{"spec": {"mode": "Enforce"}}')
    cluster.kubectl("wait", "computeallocation/vision", "computeallocation/research", "--for=condition=Ready", "--timeout=60s")
    cluster.kubectl("delete", "job", "-n", "research", "--all", "--wait=true")
    cluster.kubectl("delete", "job", "-n", "vision", "--all", "--wait=true")
    cluster.kubectl("apply", "-f", str(EXAMPLES / "gpt" / "job.yaml"))
    yield
    cluster.without_teams()


@pytest.fixture
def borrowed(cluster: Cluster, research: None) -> Iterator[int]:
    """The last step when the job trains on all eight; vision's job is removed afterwards."""
    cluster.until(trains_on(cluster, 8), "research to train on 8", 180)
    yield merged(steps(cluster))[-1].step
    cluster.kubectl("delete", "job", "-n", "vision", "inference", "--ignore-not-found", "--wait=true")


def claim(cluster: Cluster) -> None:
    """Vision's job, holding what it gets until it is deleted."""
    text = (EXAMPLES / "claim.yaml").read_text()
    assert "time.sleep(15)" in text
    cluster.kubectl("apply", "-f", "-", stdin=text.replace("time.sleep(15)", "time.sleep(3600)"))


def cessions(cluster: Cluster) -> list[Any]:
    items = cluster.kubectl_json("get", "cessions")["items"]
    return sorted(items, key=lambda c: str(c["metadata"]["creationTimestamp"]))


def phase(cession: Any) -> str:
    return str(cession.get("status", {}).get("phase", ""))


def signal_rank(cluster: Cluster, index: int, signal: str) -> None:
    """To the one rank of that pod; its parent is process 1."""
    cluster.kubectl("exec", "-n", "research", pod_of(cluster, index), "--", "sh", "-c", f"kill -{signal} $(cat /proc/1/task/1/children)")


@contextmanager
def held_open(cluster: Cluster) -> Iterator[None]:
    """A take-back that has begun and cannot end while the block runs: the rank of pod 2 stands still. What the block does falls inside."""
    known = len(cessions(cluster))
    signal_rank(cluster, 2, "STOP")
    try:
        claim(cluster)
        cluster.until(lambda: len(found := cessions(cluster)) > known and phase(found[-1]) == "Asked", "Cede to ask", 30)
        yield
        assert phase(cessions(cluster)[-1]) == "Asked", "nothing can have been ceded yet"
    finally:
        signal_rank(cluster, 2, "CONT")


def check_the_end(cluster: Cluster, step: int, known: int) -> None:
    """The one state every take-back ends in."""
    cluster.until(lambda: len(pods(cluster, "vision", "inference")) == 4, "vision's four pods to run", 60)
    cluster.until(trains_on(cluster, 4, step), "research to train on at 4", 60)
    cluster.until(lambda: len(found := cessions(cluster)) > known and phase(found[-1]) == "Running", "the Cession to say Running", 30)
    job = cluster.kubectl_json("get", "job", "-n", "research", "gpt")
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (4, 4)
    cluster.until(lambda: strategy(cluster) == "BestEffortFIFO", "the queue's own strategy to be back", 30)
    log, run = steps(cluster), logged(cluster, "run.json")[0]
    counted = account(log, logged(cluster, SAMPLES), run["micro_batches"], run["micro_batch_size"], run["samples"])
    assert (counted.steps_lost, counted.samples_lost, counted.samples_seen_twice) == (0, 0, 0)
    assert counted.steps >= step


def strategy(cluster: Cluster) -> str:
    return str(cluster.kubectl_json("get", "clusterqueue", "vision")["spec"]["queueingStrategy"])


def test_the_owner_runs_and_the_borrower_trains_on(cluster: Cluster, borrowed: int) -> None:
    known = len(cessions(cluster))
    claim(cluster)
    check_the_end(cluster, borrowed, known)
    assert "gpt" in cessions(cluster)[-1]["spec"]["why"]


def test_a_killed_scheduler_pod_does_not_stop_the_take_back(cluster: Cluster, borrowed: int) -> None:
    known = len(cessions(cluster))
    with held_open(cluster):
        cluster.kubectl("delete", "pod", "-n", "cede-system", "-l", "app.kubernetes.io/name=cede-scheduler", "--grace-period=0", "--force")
    check_the_end(cluster, borrowed, known)


def test_a_killed_webhook_pod_does_not_stop_the_take_back(cluster: Cluster, borrowed: int) -> None:
    known = len(cessions(cluster))
    with held_open(cluster):
        cluster.kubectl("delete", "pod", "-n", "cede-system", "-l", "app.kubernetes.io/name=cede-webhook", "--grace-period=0", "--force")
    check_the_end(cluster, borrowed, known)
    cluster.kubectl("rollout", "status", "-n", "cede-system", "deployment/cede-webhook", "--timeout=60s")


def test_a_killed_rank_costs_the_step_in_flight_only(cluster: Cluster, borrowed: int) -> None:
    known = len(cessions(cluster))
    with held_open(cluster):
        signal_rank(cluster, 1, "KILL")
    check_the_end(cluster, borrowed, known)


def test_a_lost_pod_0_is_replaced_and_the_take_back_goes_on(cluster: Cluster, borrowed: int) -> None:
    known = len(cessions(cluster))
    name = pod_of(cluster, 0)
    with held_open(cluster):
        cluster.kubectl("delete", "pod", "-n", "research", name, "--grace-period=0", "--force")
    check_the_end(cluster, borrowed, known)
