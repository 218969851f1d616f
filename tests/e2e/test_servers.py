"""A server that borrows gives replicas back as its pods drain, and gets them again."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import LEADER_WORKER_SETS, Json, condition
from tests.e2e.conftest import IMAGE
from tests.e2e.external_metric import autoscaler, external_metric
from tests.harness.local_cluster import deploy_local
from tests.marks import LONG
from tests.paths import TREE

EXAMPLES = TREE / "examples"
pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any
IN_RESEARCH = ("-n", "research")
SERVER = """
import signal, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        ending_before = ending.is_set()
        time.sleep(15)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"drained" if ending.is_set() and not ending_before else b"served")

ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ending.set())
server = ThreadingHTTPServer(("", 8000), Answers)
# it ends after the requests in flight
server.daemon_threads = False
threading.Thread(target=server.serve_forever).start()
print("serves", flush=True)
ending.wait()
server.shutdown()
server.server_close()
"""
CLIENT = """
import sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
def ask(address):
    return urllib.request.urlopen(f"http://{address}:8000", timeout=60).read().decode()
print("asks", flush=True)
print(*sorted(ThreadPoolExecutor().map(ask, sys.argv[1:])), flush=True)
"""


@pytest.fixture
def with_filler(cluster: Cluster) -> Iterator[Cluster]:
    """Four accelerators each. A job of research uses two of its own."""
    manifests = (EXAMPLES / "policy.yaml", EXAMPLES / "allocations.yaml")
    cluster.kubectl("apply", *(word for file in manifests for word in ("-f", str(file))))
    # otherwise the server, which has just started, is spared, and the other job is stopped
    young = json.dumps({"spec": {"preemption": {"minRuntimeSeconds": 0}}})
    cluster.kubectl("patch", "clusterpolicy", "default", "--type=merge", "-p", young)
    allocations = ("computeallocation/vision", "computeallocation/research")
    cluster.kubectl("wait", *allocations, "--for=condition=Ready", "--timeout=60s")
    create(cluster, job("research", "filler", pods=1, accelerators=2))
    cluster.until(lambda: ready(cluster, "filler") == 1, "research's other job to run", 90)
    yield cluster
    cluster.without_teams()


@pytest.fixture
def teams(with_filler: Cluster) -> Cluster:
    """The server of research uses four: it borrows two."""
    create(with_filler, chat())
    with_filler.until(lambda: serving(with_filler) == 4, "the server to run", 90)
    return with_filler


@pytest.fixture
def in_groups(with_filler: Cluster) -> Iterator[Cluster]:
    """The same with a server of two groups, of two pods each."""
    deploy_local("up", "--with", "lws")
    component = ("-k", str(TREE / "deploy/components/leader-worker-set"))
    with_filler.kubectl("apply", "--server-side", *component)
    file = json.dumps(chat_in_groups())
    create_file = ("create", "-f", "-")
    # its webhooks may not answer yet
    with_filler.until(lambda: with_filler.kubectl(*create_file, stdin=file), "the server", 60)
    with_filler.until(lambda: serving(with_filler) == 4, "the server to run", 120)
    yield with_filler
    with_filler.kubectl("delete", "leaderworkerset", *IN_RESEARCH, "--all", "--wait=true")
    with_filler.kubectl("delete", *component)
    deploy_local("remove", "lws")


def pod(accelerators: int, program: str) -> Json:
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["python", "-c", program],
        "resources": {"limits": {names.GPU: str(accelerators)}},
    }
    return {"containers": [container]}


def job(namespace: str, name: str, pods: int, accelerators: int = 1) -> Json:
    template = pod(accelerators, "import time; time.sleep(3600)")
    template |= {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": template}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def chat() -> Json:
    labels = {"app": "chat"}
    notes = {names.SIZES: "2-4", names.GRACE: "30s"}
    template = {"metadata": {"labels": labels}, "spec": pod(1, SERVER)}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "chat", "namespace": "research", "annotations": notes}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def chat_in_groups() -> Json:
    notes = {names.SIZES: "1-2", names.GRACE: "30s"}
    worker = {"metadata": {"labels": {"app": "chat"}}, "spec": pod(1, SERVER)}
    template = {"size": 2, "workerTemplate": worker}
    metadata = {"name": "chat", "namespace": "research", "annotations": notes}
    return {
        "apiVersion": LEADER_WORKER_SETS.api_version,
        "kind": LEADER_WORKER_SETS.kind,
        "metadata": metadata,
        "spec": {"replicas": 2, "leaderWorkerTemplate": template},
    }


def create(cluster: Cluster, obj: Json) -> None:
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(obj))


def ready(cluster: Cluster, name: str, namespace: str = "research") -> int:
    status = cluster.kubectl_json("get", "job", "-n", namespace, name)["status"]
    return int(status.get("ready", 0))


def serving(cluster: Cluster) -> int:
    """How many pods of the server listen, and are not being deleted."""
    return sum("serves" in log(cluster, pod) for pod in pods(cluster))


def pods(cluster: Cluster) -> list[Json]:
    """Those of the server that are not being deleted."""
    items = cluster.kubectl_json("get", "pods", *IN_RESEARCH, "-l", "app=chat")["items"]
    return [item for item in items if "deletionTimestamp" not in item["metadata"]]


def log(cluster: Cluster, item: Json) -> str:
    return str(cluster.kubectl("logs", *IN_RESEARCH, item["metadata"]["name"]))


def deployment(cluster: Cluster, kind: str = "deployment") -> tuple[int, str, Json]:
    """Its replicas, its label and its annotations."""
    stored = cluster.kubectl_json("get", kind, *IN_RESEARCH, "chat")
    metadata = stored["metadata"]
    return stored["spec"]["replicas"], metadata["labels"][names.SERVER], metadata["annotations"]


def asking(cluster: Cluster) -> subprocess.Popen[str]:
    """A client that has one request in flight at each pod of the server."""
    addresses = [item["status"]["podIP"] for item in pods(cluster)]
    options = ("--kubeconfig", str(cluster.kubeconfig), "exec", *IN_RESEARCH, "job/filler", "--")
    command = [str(cluster.binary), *options, "python", "-c", CLIENT, *addresses]
    client = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert client.stdout
    assert client.stdout.readline() == "asks\n"
    return client


def test_a_server_drains_to_its_smallest_size_and_gets_its_replicas_back(teams: Cluster) -> None:
    with asking(teams) as client:
        create(teams, job("vision", "claim", pods=4))
        teams.until(lambda: deployment(teams)[0] == 2, "the server to have fewer replicas", 30)
        replicas, label, notes = deployment(teams)
        assert (replicas, label, notes[names.DESIRED_SIZE]) == (2, names.CEDED, "4")
        answers, _ = client.communicate(timeout=90)
    assert answers.split() == ["drained", "drained", "served", "served"]
    teams.until(lambda: ready(teams, "claim", "vision") == 4, "vision's pods to run", 60)
    assert len(pods(teams)) == 2, "and none waits in their place"
    [cession] = teams.kubectl_json("get", "cessions")["items"]
    assert [target["how"] for target in cession["spec"]["targets"]] == ["Drain", "Drain"]
    assert not any(target.get("stopped") for target in cession["status"]["targets"])

    scale = ("scale", "deployment", *IN_RESEARCH, "chat")
    with pytest.raises(AssertionError, match="has ceded replicas"):
        teams.kubectl(*scale, "--replicas=4")
    assert deployment(teams)[0] == 2

    teams.kubectl("delete", "job", "-n", "vision", "claim", "--wait=true")
    teams.until(lambda: serving(teams) == 4, "the server to have its replicas again", 90)
    replicas, label, notes = deployment(teams)
    assert (replicas, label) == (4, names.WHOLE)
    assert names.DESIRED_SIZE not in notes
    # whoever scales is held no more
    teams.kubectl(*scale, "--replicas=3")


def test_the_new_replicas_of_a_server_claim_what_its_team_owns(teams: Cluster) -> None:
    """As any pods of research do: vision borrows what research does not use."""
    scale = ("scale", "deployment", *IN_RESEARCH, "chat")
    teams.kubectl(*scale, "--replicas=2")
    teams.until(lambda: serving(teams) == 2, "the server to be small", 60)
    teams.kubectl("delete", "job", *IN_RESEARCH, "filler", "--wait=true")
    create(teams, job("vision", "own", pods=4))
    create(teams, job("vision", "borrows", pods=2))
    for name, count in (("own", 4), ("borrows", 2)):
        running = (teams, name, "vision")
        teams.until(lambda r=running, n=count: ready(*r) == n, "vision's jobs to run", 90)
    teams.kubectl(*scale, "--replicas=4")
    teams.until(lambda: serving(teams) == 4, "the claims of the server's pods", 90)


@LONG
def test_the_last_group_of_a_leader_worker_set_drains_and_comes_back(in_groups: Cluster) -> None:
    cluster = in_groups

    def groups() -> set[str]:
        """Of the pods that stay."""
        label = "leaderworkerset.sigs.k8s.io/group-index"
        return {item["metadata"]["labels"][label] for item in pods(cluster)}

    create(cluster, job("vision", "claim", pods=4))
    small = "the server to have one group"
    cluster.until(lambda: deployment(cluster, "leaderworkerset")[0] == 1, small, 30)
    replicas, label, notes = deployment(cluster, "leaderworkerset")
    assert (replicas, label, notes[names.DESIRED_SIZE]) == (1, names.CEDED, "2")
    cluster.until(lambda: ready(cluster, "claim", "vision") == 4, "vision's pods to run", 90)
    assert groups() == {"0"}
    [cession] = cluster.kubectl_json("get", "cessions")["items"]
    assert [target["how"] for target in cession["spec"]["targets"]] == ["Drain"]
    assert not any(target.get("stopped") for target in cession["status"]["targets"])

    with pytest.raises(AssertionError, match="has ceded replicas"):
        cluster.kubectl("scale", "leaderworkerset", *IN_RESEARCH, "chat", "--replicas=2")
    cluster.kubectl("delete", "job", "-n", "vision", "claim", "--wait=true")
    cluster.until(lambda: serving(cluster) == 4, "the server to have both groups again", 120)
    assert groups() == {"0", "1"}
    assert deployment(cluster, "leaderworkerset")[:2] == (2, names.WHOLE)


@LONG
def test_an_autoscaler_is_refused_while_the_server_has_ceded(teams: Cluster) -> None:
    """The real one, which wants four pods all the time. Afterwards it is not held any more."""
    with external_metric(teams, 4), autoscaled(teams):
        teams.until(lambda: "ValidMetricFound" in scaling(teams, "ScalingActive"), "a metric", 60)
        create(teams, job("vision", "claim", pods=4))
        teams.until(lambda: deployment(teams)[0] == 2, "the server to have fewer replicas", 30)
        refused = "the autoscaler to be refused"
        why = "has ceded replicas"
        teams.until(lambda: why in scaling(teams, "AbleToScale"), refused, 60)
        assert scaling(teams, "AbleToScale").startswith("FailedUpdateScale: ")
        assert deployment(teams)[0] == len(pods(teams)) == 2

        teams.kubectl("delete", "job", "-n", "vision", "claim", "--wait=true")
        teams.until(lambda: serving(teams) == 4, "the server to have its replicas again", 90)
        free = "the autoscaler to go on"
        teams.until(lambda: "ReadyForNewScale" in scaling(teams, "AbleToScale"), free, 60)
        assert deployment(teams)[:2] == (4, names.WHOLE)


@contextmanager
def autoscaled(cluster: Cluster) -> Iterator[None]:
    create(cluster, autoscaler("chat", "research", 2, 4))
    try:
        yield
    finally:
        cluster.kubectl("delete", "hpa", *IN_RESEARCH, "chat")


def scaling(cluster: Cluster, kind: str) -> str:
    """The reason and the message of this condition of the server's autoscaler."""
    stored = cluster.kubectl_json("get", "hpa", *IN_RESEARCH, "chat")
    state = condition(stored.get("status", {}).get("conditions", []), kind)
    return f"{state['reason']}: {state['message']}" if state else ""
