"""Teams trade accelerators while components, nodes and the API server fail at random.

The long form: CEDE_TRADING_SECONDS=3600 pytest tests/e2e/test_trading.py -s
"""

import copy
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml

from cede.api import names
from cede.api.objects import Json, unix
from cede.api.reasons import SchedulerEvent
from tests.e2e.training import Training
from tests.harness.local_cluster import api_server_pid
from tests.paths import TREE

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
# the fixture of tests/conftest.py
Cluster = Any
SECONDS = float(os.environ.get("CEDE_TRADING_SECONDS", "60"))
SEED = int(os.environ.get("CEDE_TRADING_SEED", "1"))
EXAMPLES = TREE / "examples"
TEAMS = ("vision", "research")
CLASSES = ("inference", "training", "sweep")
NODE = "n2"
COMPONENTS = {
    names.SCHEDULER: names.SYSTEM_NAMESPACE,
    names.WEBHOOK: names.SYSTEM_NAMESPACE,
    names.QUOTA_CONTROLLER: names.SYSTEM_NAMESPACE,
    "kueue": "kueue-system",
}
ACCELERATORS = 8
SET_ASIDE_S = 10
"""A job that waits is set inactive for another. Kueue may be about to admit it, and evicts it when
it sees the change, so long afterwards at most."""
OVER_QUOTA_S = 90
"""How long Kueue may count more in use than there is. Two admissions of one cycle can exceed the
quota, until the scheduler shrinks one of them. A Kueue that was killed leads again after 30 s, and
its last counts stay until then."""
QUIET_S = 240
"""Until everything is as it should be, after the last fault."""


class Trade:
    """What happens to the cluster, chosen by a seed. Nothing fails for longer than its own call."""

    def __init__(self, cluster: Cluster, gpt: Training) -> None:
        self.cluster = cluster
        self.gpt = gpt
        self.chance = random.Random(SEED)  # noqa: S311
        self.done = Counter[str]()
        self._submitted = 0

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            faults = [self.kill, self.kill, self.cut_node, self.pause_api] * 2 + [self.fail_node]
            happening = self.chance.choice([self.submit] * 13 + [self.delete] * 4 + faults)
            # a command may meet the fault before it
            with suppress(AssertionError):
                happening()
                self.done[happening.__name__] += 1
            within = f"at most {ACCELERATORS} accelerators to be in use"
            self.cluster.until(lambda: reserved(self.cluster) <= ACCELERATORS, within, OVER_QUOTA_S)
            time.sleep(self.chance.uniform(1, 6))

    def submit(self) -> None:
        """A job of any class, for some seconds."""
        self._submitted += 1
        job: Json = copy.deepcopy(yaml.safe_load((EXAMPLES / "claim.yaml").read_text()))
        pods = self.chance.randint(1, 4)
        labels = {names.PRIORITY_CLASS: self.chance.choice(CLASSES)}
        team = self.chance.choice(TEAMS)
        job["metadata"] = {
            "name": f"small-{self._submitted}",
            "namespace": team,
            "labels": labels,
        }
        job["spec"] |= {"parallelism": pods, "completions": pods, "backoffLimit": 100}
        [container] = job["spec"]["template"]["spec"]["containers"]
        seconds = self.chance.randint(3, 25)
        container["command"] = ["python", "-c", f"import time; time.sleep({seconds})"]
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(job))

    def delete(self) -> None:
        """One of the jobs, wherever it is."""
        listing = self.cluster.kubectl("get", "jobs", "-n", "vision", "-o", "name").split()
        if listing:
            job = self.chance.choice(listing)
            self.cluster.kubectl("delete", "-n", "vision", job, "--wait=false")

    def kill(self) -> None:
        component, namespace = self.chance.choice(list(COMPONENTS.items()))
        selector = f"app.kubernetes.io/name={component}"
        force = ("--grace-period=0", "--force")
        self.cluster.kubectl("delete", "pod", "-n", namespace, "-l", selector, *force)

    def cut_node(self) -> None:
        """Its network, for some seconds: fewer than Kubernetes needs to give it up."""
        self.cluster.cut(NODE)
        try:
            time.sleep(self.chance.uniform(1, 10))
        finally:
            self.cluster.heal(NODE)

    def fail_node(self) -> None:
        """Without power, for longer than Kubernetes needs to give it up. Not if all pods of the
        elastic job are there: then its newest checkpoint is all that is left of it."""
        if not {pod["spec"]["nodeName"] for pod in self.gpt.pods()} - {NODE}:
            return
        self.cluster.fail(NODE)
        try:
            time.sleep(self.chance.uniform(15, 40))
        finally:
            self.cluster.join(NODE)

    def pause_api(self) -> None:
        pid = api_server_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(self.chance.uniform(1, 8))
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def gpt(cluster: Cluster) -> Iterator[Training]:
    """An elastic job of research that trains on all eight accelerators."""
    files = (EXAMPLES / "policy.yaml", EXAMPLES / "allocations.yaml", EXAMPLES / "gpt" / "job.yaml")
    for file in files[:2]:
        cluster.kubectl("apply", "-f", str(file))
    teams = [f"computeallocation/{team}" for team in TEAMS]
    cluster.kubectl("wait", *teams, "--for=condition=Ready", "--timeout=60s")
    cluster.kubectl("apply", "-f", str(files[2]))
    training = Training(cluster, "research", "gpt")
    cluster.until(training.trains_on(8), "research to train on 8", 300)
    yield training
    cluster.without_teams()


def test_trading_leaves_nothing_behind_and_loses_nothing(cluster: Cluster, gpt: Training) -> None:
    # Of whoever used this cluster before.
    earlier = evictions(cluster)
    trade = Trade(cluster, gpt)
    trade.run(SECONDS)
    for team in TEAMS:
        small = cluster.kubectl("get", "jobs", "-n", team, "-o", "name").split()
        others = [job for job in small if not job.endswith("/gpt")]
        if others:
            cluster.kubectl("delete", "-n", team, *others, "--wait=true", "--timeout=120s")
    cluster.until(gpt.trains_on(8), "research to train on 8 again", QUIET_S)
    cluster.until(lambda: not open_cessions(cluster), "every Cession to end", 60)
    cluster.until(lambda: not strict_queues(cluster), "every queue to be BestEffortFIFO", 60)
    summary = f"{dict(trade.done)}, {len(cessions(cluster))} Cessions, {dict(evictions(cluster))}"
    print(summary)
    assert reserved(cluster) <= ACCELERATORS, summary
    assert not inactive(cluster), summary
    stops = Counter(job for cession in cessions(cluster) for job in stopped_jobs(cession))
    stops += admitted_when_set_aside(cluster)
    unknown = {
        (job, reason): count
        for (job, reason), count in (evictions(cluster) - earlier).items()
        if reason != "EvictedDueToDeactivated" or count > stops[job]
    }
    assert not unknown, f"evicted without a Cession: {unknown}; {summary}"
    assert gpt.check_nothing_lost() > 0


def cessions(cluster: Cluster) -> list[Json]:
    return list(cluster.kubectl_json("get", "cessions")["items"])


def open_cessions(cluster: Cluster) -> list[str]:
    return [
        str(cession["metadata"]["name"])
        for cession in cessions(cluster)
        if not cession.get("status", {}).get("completionTime")
    ]


def stopped_jobs(cession: Json) -> list[str]:
    """The jobs that it stopped, those that it shrank left out."""
    names_by_uid = {target["uid"]: str(target["job"]) for target in cession["spec"]["targets"]}
    progress = cession.get("status", {}).get("targets", [])
    return [names_by_uid[target["uid"]] for target in progress if target.get("stopped")]


def admitted_when_set_aside(cluster: Cluster) -> Counter[str]:
    """By job: how often it was evicted just after it was set aside, and told so."""
    events = cluster.kubectl_json("get", "events", "-A")["items"]
    set_aside = [
        (str(event["involvedObject"]["name"]), event_time(event))
        for event in events
        if event.get("reason") == SchedulerEvent.SET_ASIDE
    ]
    counts = Counter[str]()
    for event in events:
        if event.get("reason") == "EvictedDueToDeactivated":
            job = job_of(str(event["involvedObject"]["name"]))
            since = [event_time(event) - moment for name, moment in set_aside if name == job]
            counts[job] += any(0.0 <= seconds <= SET_ASIDE_S for seconds in since)
    return counts


def event_time(event: Json) -> float:
    """Unix seconds."""
    return unix(event.get("eventTime") or event["lastTimestamp"])


def strict_queues(cluster: Cluster) -> list[str]:
    return [
        str(queue["metadata"]["name"])
        for queue in cluster.kubectl_json("get", "clusterqueues")["items"]
        if queue["spec"]["queueingStrategy"] == "StrictFIFO"
    ]


def reserved(cluster: Cluster) -> int:
    """Accelerators that Kueue counts as in use."""
    return sum(
        int(resource["total"])
        for queue in cluster.kubectl_json("get", "clusterqueues")["items"]
        for flavor in queue.get("status", {}).get("flavorsReservation", [])
        for resource in flavor["resources"]
        if resource["name"] == names.GPU
    )


def inactive(cluster: Cluster) -> list[str]:
    return [
        str(workload["metadata"]["name"])
        for workload in cluster.kubectl_json("get", "workloads", "-A")["items"]
        if not workload["spec"].get("active", True)
    ]


def evictions(cluster: Cluster) -> Counter[tuple[str, str]]:
    """(job, reason) of every eviction by Kueue, as its events count them."""
    counts = Counter[tuple[str, str]]()
    for event in cluster.kubectl_json("get", "events", "-A")["items"]:
        regarding = event.get("involvedObject", {})
        reason = str(event.get("reason", ""))
        if regarding.get("kind") == "Workload" and reason.startswith("EvictedDueTo"):
            counts[job_of(str(regarding["name"])), reason] += int(event.get("count") or 1)
    return counts


def job_of(workload: str) -> str:
    """The Workload of a Job is job-NAME-SUFFIX."""
    return workload.removeprefix("job-").rpartition("-")[0]
