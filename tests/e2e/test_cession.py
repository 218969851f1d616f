"""A Cession ends in the same state whatever dies meanwhile: the preemptor runs, the target trains
on at half its size, and nothing is lost."""

import base64
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from cede.api import names
from deploy.demo.figures import merged
from elastic_runtime import contract
from tests.e2e.training import Training
from tests.marks import LONG
from tests.paths import TREE

EXAMPLES = TREE / "examples"

pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any
# longer than any test: a frozen worker is not taken for dead
LIVENESS_TIMEOUT_S = 600


def gpt(cluster: Cluster) -> Training:
    return Training(cluster, "research", "gpt")


def delete_jobs(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("delete", "job", "-n", namespace, "--all", "--wait=true")


@pytest.fixture(scope="module")
def research(cluster: Cluster) -> Iterator[None]:
    """The job of examples/gpt on all eight accelerators, half of them borrowed from vision."""
    manifests = (EXAMPLES / "policy.yaml", EXAMPLES / "allocations.yaml")
    cluster.kubectl("apply", *(argument for file in manifests for argument in ("-f", str(file))))
    enforce = '{"spec": {"mode": "Enforce"}}'
    cluster.kubectl("patch", "clusterpolicy", "default", "--type=merge", "-p", enforce)
    cluster.kubectl(
        "wait",
        "computeallocation/vision",
        "computeallocation/research",
        "--for=condition=Ready",
        "--timeout=60s",
    )
    delete_jobs(cluster, "research")
    delete_jobs(cluster, "vision")
    job = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    # see `frozen_cession`
    job["spec"]["template"]["spec"]["containers"][0]["env"].append(
        {"name": contract.LIVENESS_TIMEOUT_ENV, "value": str(LIVENESS_TIMEOUT_S)}
    )
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    yield
    cluster.without_teams()


@pytest.fixture
def last_step(cluster: Cluster, research: None) -> Iterator[int]:
    """The last step when the job trains on all eight. Vision's job is deleted afterwards."""
    cluster.until(gpt(cluster).trains_on(8), "research to train on 8", 300)
    yield merged(gpt(cluster).steps())[-1].step
    delete = ("delete", "job", "-n", "vision", "inference", "--ignore-not-found", "--wait=true")
    cluster.kubectl(*delete)


def create_preemptor(cluster: Cluster) -> None:
    """Vision's job, which runs until it is deleted."""
    text = (EXAMPLES / "claim.yaml").read_text()
    assert "time.sleep(15)" in text
    cluster.kubectl("apply", "-f", "-", stdin=text.replace("time.sleep(15)", "time.sleep(3600)"))


def cessions(cluster: Cluster) -> list[Any]:
    """Oldest first."""
    items = cluster.kubectl_json("get", "cessions")["items"]
    return sorted(items, key=lambda cession: str(cession["metadata"]["creationTimestamp"]))


def phase(cession: Any) -> str:
    return str(cession.get("status", {}).get("phase", ""))


def newest_is(cluster: Cluster, expected: str, known: int) -> bool:
    """Whether there are more Cessions than `known`, and the newest has this phase."""
    records = cessions(cluster)
    return len(records) > known and phase(records[-1]) == expected


@contextmanager
def frozen_cession(cluster: Cluster) -> Iterator[None]:
    """A Cession that is Asked and cannot go on during the block: the worker of pod 2 is frozen."""
    known = len(cessions(cluster))
    gpt(cluster).signal_worker(2, "STOP")
    try:
        create_preemptor(cluster)
        cluster.until(lambda: newest_is(cluster, "Asked", known), "Cede to ask", 30)
        yield
        assert phase(cessions(cluster)[-1]) == "Asked", "nothing can have been ceded yet"
    finally:
        gpt(cluster).signal_worker(2, "CONT")


def check_end(cluster: Cluster, step: int, known: int) -> None:
    """The one state in which every Cession ends."""
    preemptor = Training(cluster, "vision", "inference")
    cluster.until(lambda: len(preemptor.pods()) == 4, "vision's four pods to run", 60)
    cluster.until(gpt(cluster).trains_on(4, step), "research to train on at 4", 60)
    cluster.until(lambda: newest_is(cluster, "Completed", known), "the Cession to be Completed", 30)
    job = cluster.kubectl_json("get", "job", "-n", "research", "gpt")
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (4, 4)
    cluster.until(
        lambda: strategy(cluster) == "BestEffortFIFO", "the queue's own strategy to be back", 30
    )
    assert gpt(cluster).check_nothing_lost() >= step


def strategy(cluster: Cluster) -> str:
    return str(cluster.kubectl_json("get", "clusterqueue", "vision")["spec"]["queueingStrategy"])


def kill(cluster: Cluster, component: str) -> None:
    selector = f"app.kubernetes.io/name={component}"
    force = ("--grace-period=0", "--force")
    cluster.kubectl("delete", "pod", "-n", "cede-system", "-l", selector, *force)


@LONG
def test_the_preemptor_runs_and_the_target_trains_on(cluster: Cluster, last_step: int) -> None:
    known = len(cessions(cluster))
    create_preemptor(cluster)
    check_end(cluster, last_step, known)
    spec = cessions(cluster)[-1]["spec"]
    assert "gpt" in spec["why"]
    assert spec["reason"] == "ReclaimOwnQuota"


@LONG
def test_a_killed_scheduler_pod_does_not_stop_the_cession(cluster: Cluster, last_step: int) -> None:
    known = len(cessions(cluster))
    with frozen_cession(cluster):
        kill(cluster, "cede-scheduler")
    check_end(cluster, last_step, known)


@LONG
def test_a_killed_webhook_pod_does_not_stop_the_cession(cluster: Cluster, last_step: int) -> None:
    known = len(cessions(cluster))
    with frozen_cession(cluster):
        kill(cluster, "cede-webhook")
    check_end(cluster, last_step, known)
    cluster.kubectl(
        "rollout", "status", "-n", "cede-system", "deployment/cede-webhook", "--timeout=60s"
    )


@LONG
def test_a_killed_worker_costs_only_the_step_in_flight(cluster: Cluster, last_step: int) -> None:
    known = len(cessions(cluster))
    with frozen_cession(cluster):
        gpt(cluster).signal_worker(1, "KILL")
    check_end(cluster, last_step, known)


@LONG
def test_a_lost_pod_0_is_replaced_and_the_cession_goes_on(cluster: Cluster, last_step: int) -> None:
    known = len(cessions(cluster))
    name = gpt(cluster).pod_of(0)
    with frozen_cession(cluster):
        cluster.kubectl("delete", "pod", "-n", "research", name, "--grace-period=0", "--force")
    check_end(cluster, last_step, known)


@LONG
def test_a_key_that_is_replaced_while_the_job_trains_does_not_stop_the_cession(
    cluster: Cluster, last_step: int
) -> None:
    """By the deployed controllers, the kubelets and real pods: up to 2 minutes."""
    known = len(cessions(cluster))
    before = key_of_team(cluster)
    new_root_key = base64.b64encode(secrets.token_hex(32).encode()).decode()
    patch = json.dumps({"data": {names.SECRET_KEY: new_root_key}})
    root = ("-n", names.SYSTEM_NAMESPACE, "secret", names.ROOT_SECRET)
    cluster.kubectl("patch", *root, "--type=merge", "-p", patch)
    cluster.until(lambda: key_of_team(cluster) != before, "the team to have a new key", 120)
    # the newest key, and the one before beside it
    assert before.split()[0] in key_of_team(cluster).split()
    cluster.until(
        lambda: set(gpt(cluster).read_all(contract.KEY_FILE)) == {key_of_team(cluster)},
        "all pods to have the new key",
        120,
    )
    create_preemptor(cluster)
    check_end(cluster, last_step, known)
    [target] = cessions(cluster)[-1]["status"]["targets"]
    assert target["cededTime"], "the runtime answered a request that the new key signed"


def key_of_team(cluster: Cluster) -> str:
    """The file of the keys that research's pods accept, the newest first."""
    secret = cluster.kubectl_json("get", "secret", "-n", "research", names.CONTROL_SECRET)
    return base64.b64decode(secret["data"][names.SECRET_KEY]).decode().strip()
