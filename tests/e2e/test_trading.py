"""Teams trade accelerators while everything of the cluster fails at random.

`make chaos MINUTES=60 SEED=1` is the long form.
"""

import copy
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml

from cede.api import names
from cede.api.objects import Json, condition
from tests.e2e.cluster_faults import ClusterFaults, Skipped
from tests.e2e.trading_promises import (
    ACCELERATORS,
    Watch,
    admitted_when_set_aside,
    cessions,
    evictions,
    inactive,
    open_cessions,
    reserved,
    stopped_in_vain,
    stopped_jobs,
    strict_queues,
)
from tests.e2e.training import Training
from tests.paths import TREE

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
# the fixture of tests/conftest.py
Cluster = Any
SECONDS = float(os.environ.get("CEDE_CHAOS_SECONDS", "30"))
SEED = int(os.environ.get("CEDE_CHAOS_SEED", "1"))
REPORT = os.environ.get("CEDE_CHAOS_REPORT", "")
"""The file that gets a line for each thing that happened, as it happens."""
EXAMPLES = TREE / "examples"
TEAMS = ("vision", "research")
CLASSES = ("inference", "training", "sweep")
USERS_SHARE = 0.55
"""Of what happens; the rest are faults."""
API_SERVER_S = 120
"""After a fault, until it answers."""
PROGRESS_S = 30
"""After the last fault, until a job that has its quota makes a step."""
QUIET_S = 240
"""Until everything is as it should be, after the last fault."""
STANDSTILL_S = 60
"""Between two steps: longer than a stop for a claim of the owner takes."""
NO_LIMIT = 1_000_000


class Trade:
    """What happens to the cluster, chosen by a seed. Nothing fails for longer than its own call."""

    def __init__(self, cluster: Cluster, gpt: Training) -> None:
        self.cluster = cluster
        self.gpt = gpt
        self.chance = random.Random(SEED)  # noqa: S311
        self.watch = Watch(cluster)
        self.faults = ClusterFaults(cluster, gpt, self.chance).all()
        self.done = Counter[str]()
        self._submitted = 0
        self._noted_at = 0.0

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            happens = self.act_as_user if self.chance.random() < USERS_SHARE else self.fail
            try:
                happens()
            except AssertionError as error:
                # a command may meet the fault before it
                self.note("refused", reason=str(error)[-200:])
            self.cluster.until(self.watch.check, "the API server to answer", API_SERVER_S)
            with suppress(AssertionError):
                self.note_standstill()
            time.sleep(self.chance.uniform(1, 6))

    def note_standstill(self) -> None:
        """For whoever reads the report: why the elastic job has made no step for long."""
        stands_s = time.time() - max(self.gpt.last_step().time, self._noted_at)
        if stands_s > STANDSTILL_S:
            self._noted_at = time.time()
            self.note("stands", **self.gpt.why_it_stands())

    def act_as_user(self) -> None:
        action = self.chance.choice([self.submit] * 3 + [self.delete])
        self.note(action.__name__, job=action())

    def fail(self) -> None:
        names_of_faults = list(self.faults)
        weights = [weight for _, weight in self.faults.values()]
        [name] = self.chance.choices(names_of_faults, weights)
        try:
            with self.watch.fault():
                began = time.time()
                what = self.faults[name][0]()
        except Skipped:
            self.done[f"skipped: {name}"] += 1
        else:
            self.note(name, what=what, seconds=round(time.time() - began, 1))

    def note(self, happened: str, **facts: object) -> None:
        self.done[happened] += 1
        report(happened, **facts)

    def submit(self) -> str:
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
        return f"{team}/{job['metadata']['name']}, {pods} pods, {labels[names.PRIORITY_CLASS]}"

    def delete(self) -> str:
        """One of the jobs, wherever it is."""
        listing = self.cluster.kubectl("get", "jobs", "-n", "vision", "-o", "name").split()
        if not listing:
            return "none"
        job = self.chance.choice(listing)
        self.cluster.kubectl("delete", "-n", "vision", job, "--wait=false")
        return str(job)


def report(happened: str, **facts: object) -> None:
    if REPORT:
        with open(REPORT, "a") as file:
            line = {"time": time.strftime("%H:%M:%S"), "happened": happened, **facts}
            file.write(json.dumps(line) + "\n")


@pytest.fixture
def gpt(cluster: Cluster) -> Iterator[Training]:
    """An elastic job of research that trains on all eight accelerators."""
    cluster.wait_for_controllers()
    for name in ("policy.yaml", "allocations.yaml"):
        cluster.kubectl("apply", "-f", str(EXAMPLES / name))
    teams = [f"computeallocation/{team}" for team in TEAMS]
    cluster.kubectl("wait", *teams, "--for=condition=Ready", "--timeout=60s")
    job = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    # for Kubernetes a killed agent is a failure of its script
    job["spec"]["backoffLimit"] = NO_LIMIT
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    training = Training(cluster, "research", "gpt")
    cluster.until(training.trains_on(8), "research to train on 8", 300)
    yield training
    cluster.without_teams()


def test_trading_leaves_nothing_behind_and_loses_nothing(cluster: Cluster, gpt: Training) -> None:
    # Of whoever used this cluster before.
    earlier = evictions(cluster)
    trade = Trade(cluster, gpt)
    report("begins", seed=SEED, seconds=SECONDS)
    trade.run(SECONDS)
    check_progress(cluster, gpt)
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
    report("summary", done=trade.done, cessions=phases(cluster))
    assert reserved(cluster) <= ACCELERATORS, summary
    assert not inactive(cluster), summary
    unexplained = [record for record in stopped_in_vain(cluster) if not record["why"]]
    report("stopped in vain", cessions=stopped_in_vain(cluster))
    assert not unexplained, unexplained
    stops = Counter(job for cession in cessions(cluster) for job in stopped_jobs(cession))
    stops += admitted_when_set_aside(cluster)
    unknown = {
        (job, reason): count
        for (job, reason), count in (evictions(cluster) - earlier).items()
        if reason != "EvictedDueToDeactivated" or count > stops[job]
    }
    assert not unknown, f"evicted without a Cession: {unknown}; {summary}"
    steps = gpt.check_nothing_lost()
    report("nothing lost", steps=steps)
    assert steps > 0


def check_progress(cluster: Cluster, gpt: Training) -> None:
    """After the last fault the elastic job makes a step soon, if it has its quota."""
    began = time.monotonic()
    before = gpt.last_step().step
    cluster.until(
        lambda: gpt.last_step().step > before or not has_quota(cluster),
        f"the elastic job to go beyond step {before}",
        PROGRESS_S,
    )
    report("progress", seconds=round(time.monotonic() - began, 1), has_quota=has_quota(cluster))


def has_quota(cluster: Cluster) -> bool:
    """Whether a Workload of the elastic job is admitted."""
    workloads = cluster.kubectl_json("get", "workloads", "-n", "research")["items"]
    return any(
        (condition(workload.get("status", {}).get("conditions", []), "Admitted") or {}).get(
            "status"
        )
        == "True"
        for workload in workloads
        if workload["metadata"]["name"].startswith("job-gpt-")
    )


def phases(cluster: Cluster) -> Counter[str]:
    return Counter(str(cession["status"]["phase"]) for cession in cessions(cluster))
