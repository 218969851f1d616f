"""A take-back ends in the same state whatever dies half-way: the owner runs, the borrower trains on
at half size, nothing is lost."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from deploy.demo.figures import merged
from elastic_runtime import contract
from tests.e2e.training import Training
from tests.paths import TREE

EXAMPLES = TREE / "examples"

pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any


def gpt(cluster: Cluster) -> Training:
    return Training(cluster, "research", "gpt")


@pytest.fixture(scope="module")
def research(cluster: Cluster) -> Iterator[None]:
    """The job of examples/gpt, grown to all eight accelerators, half of them borrowed from
    vision."""
    cluster.kubectl(
        "apply", "-f", str(EXAMPLES / "policy.yaml"), "-f", str(EXAMPLES / "allocations.yaml")
    )
    cluster.kubectl(
        "patch", "clusterpolicy", "default", "--type=merge", "-p", '{"spec": {"mode": "Enforce"}}'
    )
    cluster.kubectl(
        "wait",
        "computeallocation/vision",
        "computeallocation/research",
        "--for=condition=Ready",
        "--timeout=60s",
    )
    cluster.kubectl("delete", "job", "-n", "research", "--all", "--wait=true")
    cluster.kubectl("delete", "job", "-n", "vision", "--all", "--wait=true")
    job = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    # see `held_open`
    job["spec"]["template"]["spec"]["containers"][0]["env"].append(
        {"name": contract.LIVENESS_TIMEOUT_ENV, "value": "600"}
    )
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    yield
    cluster.without_teams()


@pytest.fixture
def borrowed(cluster: Cluster, research: None) -> Iterator[int]:
    """The last step when the job trains on all eight; vision's job is removed afterwards."""
    cluster.until(gpt(cluster).trains_on(8), "research to train on 8", 180)
    yield merged(gpt(cluster).steps())[-1].step
    cluster.kubectl(
        "delete", "job", "-n", "vision", "inference", "--ignore-not-found", "--wait=true"
    )


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


@contextmanager
def held_open(cluster: Cluster) -> Iterator[None]:
    """A take-back that has begun and cannot end while the block runs: the rank of pod 2 stands
    still. What the block does falls inside."""
    known = len(cessions(cluster))
    gpt(cluster).signal_rank(2, "STOP")
    try:
        claim(cluster)
        cluster.until(
            lambda: len(found := cessions(cluster)) > known and phase(found[-1]) == "Asked",
            "Cede to ask",
            30,
        )
        yield
        assert phase(cessions(cluster)[-1]) == "Asked", "nothing can have been ceded yet"
    finally:
        gpt(cluster).signal_rank(2, "CONT")


def check_the_end(cluster: Cluster, step: int, known: int) -> None:
    """The one state every take-back ends in."""
    cluster.until(
        lambda: len(Training(cluster, "vision", "inference").pods()) == 4,
        "vision's four pods to run",
        60,
    )
    cluster.until(gpt(cluster).trains_on(4, step), "research to train on at 4", 60)
    cluster.until(
        lambda: len(found := cessions(cluster)) > known and phase(found[-1]) == "Completed",
        "the Cession to be Completed",
        30,
    )
    job = cluster.kubectl_json("get", "job", "-n", "research", "gpt")
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (4, 4)
    cluster.until(
        lambda: strategy(cluster) == "BestEffortFIFO", "the queue's own strategy to be back", 30
    )
    assert gpt(cluster).check_nothing_lost() >= step


def strategy(cluster: Cluster) -> str:
    return str(cluster.kubectl_json("get", "clusterqueue", "vision")["spec"]["queueingStrategy"])


def test_the_owner_runs_and_the_borrower_trains_on(cluster: Cluster, borrowed: int) -> None:
    known = len(cessions(cluster))
    claim(cluster)
    check_the_end(cluster, borrowed, known)
    assert "gpt" in cessions(cluster)[-1]["spec"]["why"]


def test_a_killed_scheduler_pod_does_not_stop_the_take_back(
    cluster: Cluster, borrowed: int
) -> None:
    known = len(cessions(cluster))
    with held_open(cluster):
        cluster.kubectl(
            "delete",
            "pod",
            "-n",
            "cede-system",
            "-l",
            "app.kubernetes.io/name=cede-scheduler",
            "--grace-period=0",
            "--force",
        )
    check_the_end(cluster, borrowed, known)


def test_a_killed_webhook_pod_does_not_stop_the_take_back(cluster: Cluster, borrowed: int) -> None:
    known = len(cessions(cluster))
    with held_open(cluster):
        cluster.kubectl(
            "delete",
            "pod",
            "-n",
            "cede-system",
            "-l",
            "app.kubernetes.io/name=cede-webhook",
            "--grace-period=0",
            "--force",
        )
    check_the_end(cluster, borrowed, known)
    cluster.kubectl(
        "rollout", "status", "-n", "cede-system", "deployment/cede-webhook", "--timeout=60s"
    )


def test_a_killed_rank_costs_the_step_in_flight_only(cluster: Cluster, borrowed: int) -> None:
    known = len(cessions(cluster))
    with held_open(cluster):
        gpt(cluster).signal_rank(1, "KILL")
    check_the_end(cluster, borrowed, known)


def test_a_lost_pod_0_is_replaced_and_the_take_back_goes_on(
    cluster: Cluster, borrowed: int
) -> None:
    known = len(cessions(cluster))
    name = gpt(cluster).pod_of(0)
    with held_open(cluster):
        cluster.kubectl("delete", "pod", "-n", "research", name, "--grace-period=0", "--force")
    check_the_end(cluster, borrowed, known)
