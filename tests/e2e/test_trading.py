"""Teams trade accelerators while everything of the cluster fails at random.

`make chaos MINUTES=60 SEED=1` is the long form.
"""

import copy
import json
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
import yaml

from cede.api import names
from cede.api.objects import Json
from tests.e2e.cluster_faults import ClusterFaults, Skipped
from tests.e2e.conftest import EXAMPLES
from tests.e2e.trading_jobs import (
    ELASTIC_JOBS,
    create_elastic_job,
    has_quota,
    small_jobs,
    trains_on_all,
)
from tests.e2e.trading_picture import (
    Picture,
    admitted_when_set_aside,
    events,
    evictions,
    inactive,
    job_of,
    look,
    message_of,
    name_of,
    open_cessions,
    phase_of,
    reserved,
    running,
    stopped_in_vain,
    stopped_jobs,
    strict_queues,
)
from tests.e2e.trading_promises import ACCELERATORS, Watch
from tests.e2e.training import Training

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
# the fixture of tests/conftest.py
Cluster = Any
SECONDS = float(os.environ.get("CEDE_CHAOS_SECONDS", "30"))
SEED = int(os.environ.get("CEDE_CHAOS_SEED", "1"))
REPORT = os.environ.get("CEDE_CHAOS_REPORT", "")
"""The file that gets a line for each thing that happened, as it happens."""
TEAMS = ("vision", "research")
CLASSES = ("inference", "training", "sweep")
USERS_SHARE = 0.55
"""Of what happens in a storm; the rest are faults."""
NEW_SHARE = 0.3
"""Of the faults: one that has not happened yet, if there is one."""
STORM_S = 300
CALM_S = 180
"""After each storm nothing fails for so long: a recovery, and longer than a Cession may then be
open."""
LONG_S = 3000
"""In so long every fault happens, and Cessions are completed."""
API_SERVER_S = 120
"""After a fault, until it answers."""
PROGRESS_S = 30
"""After the last fault, until a job that has its quota makes a step."""
QUIET_S = 240
"""Until everything is as it should be, after the last fault."""
STANDSTILL_S = 60
"""Between two steps: longer than a stop for a claim of the owner takes."""


class Trade:
    """What happens to the cluster, chosen by a seed. Nothing fails for longer than its own call."""

    def __init__(self, cluster: Cluster, elastic_jobs: Sequence[Training]) -> None:
        self.cluster = cluster
        self.elastic_jobs = elastic_jobs
        self.chance = random.Random(SEED)  # noqa: S311
        self.watch = Watch()
        self.faults = ClusterFaults(cluster, elastic_jobs, self.chance).all()
        self.done = Counter[str]()
        self._submitted = 0
        self._noted_at = dict.fromkeys(elastic_jobs, 0.0)

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._trade(min(end, time.monotonic() + STORM_S), USERS_SHARE)
            check_progress(self.cluster, self.elastic_jobs)
            before = running(self._look())
            self._trade(min(end, time.monotonic() + CALM_S), 1.0)
            if time.monotonic() < end:
                self._check_all_ran(before)

    def _trade(self, end: float, users_share: float) -> None:
        while time.monotonic() < end:
            happens = self.act_as_user if self.chance.random() < users_share else self.fail
            try:
                happens()
            except AssertionError as error:
                # a command may meet the fault before it
                self.note("refused", reason=str(error)[-200:])
            self.watch.check(self._look())
            with suppress(AssertionError):
                for job in self.elastic_jobs:
                    self.note_standstill(job)
            time.sleep(self.chance.uniform(1, 6))

    def _look(self) -> Picture:
        picture: Picture = self.cluster.until(
            lambda: look(self.cluster), "the API server to answer", API_SERVER_S
        )
        return picture

    def _check_all_ran(self, before: dict[str, str]) -> None:
        """Every small job that ran when the calm began has ended, or was stopped since."""
        still = before.items() & running(self._look()).items()
        stuck = [name for name, _ in still if job_of(name) not in ELASTIC_JOBS]
        assert not stuck, f"run for {CALM_S} s, and take 25 s: {stuck}"

    def note_standstill(self, job: Training) -> None:
        """For whoever reads the report: why this elastic job has made no step for long."""
        stands_s = time.time() - max(job.last_step().time, self._noted_at[job])
        if stands_s > STANDSTILL_S:
            self._noted_at[job] = time.time()
            self.note("stands", job=job.job, **job.why_it_stands())

    def act_as_user(self) -> None:
        action = self.chance.choice([self.submit] * 3 + [self.delete])
        self.note(action.__name__, job=action())

    def fail(self) -> None:
        new = [name for name in self.faults if name not in self.done]
        if new and self.chance.random() < NEW_SHARE:
            name = self.chance.choice(new)
        else:
            weights = [weight for _, weight in self.faults.values()]
            [name] = self.chance.choices(list(self.faults), weights)
        began = time.time()
        happened = name
        try:
            what = self.faults[name][0]()
        except Skipped:
            self.done[f"skipped: {name}"] += 1
            return
        except AssertionError as error:
            # it may have failed half-way
            happened, what = f"refused: {name}", str(error)[-200:]
        self.watch.disturbances.add(name, began, time.time())
        self.note(happened, what=what, seconds=round(time.time() - began, 1))

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
        """One of the small jobs of a team."""
        team = self.chance.choice(TEAMS)
        if not (listing := small_jobs(self.cluster, team)):
            return "none"
        job = self.chance.choice(listing)
        self.cluster.kubectl("delete", "-n", team, job, "--wait=false")
        return f"{team}/{job}"


def report(happened: str, **facts: object) -> None:
    if REPORT:
        with open(REPORT, "a") as file:
            line = {"time": time.strftime("%H:%M:%S"), "happened": happened, **facts}
            file.write(json.dumps(line) + "\n")


@pytest.fixture
def elastic_jobs(teams: Cluster) -> tuple[Training, ...]:
    """An elastic job of each team. Together they train on all accelerators."""
    jobs = tuple(create_elastic_job(teams, name) for name in ELASTIC_JOBS)
    for job in jobs:
        teams.until(trains_on_all(job), f"{job.job} to train", 300)
    return jobs


def test_trading_leaves_nothing_behind_and_loses_nothing(
    cluster: Cluster, elastic_jobs: tuple[Training, ...]
) -> None:
    # Of whoever used this cluster before.
    earlier = evictions(events(cluster))
    trade = Trade(cluster, elastic_jobs)
    report("begins", seed=SEED, seconds=SECONDS)
    trade.run(SECONDS)
    for team in TEAMS:
        if others := small_jobs(cluster, team):
            cluster.kubectl("delete", "-n", team, *others, "--wait=true", "--timeout=120s")
    for job in elastic_jobs:
        cluster.until(trains_on_all(job), f"{job.job} to train on all its pods", QUIET_S)
    cluster.until(lambda: not open_cessions(look(cluster)), "every Cession to end", 60)
    cluster.until(lambda: not strict_queues(look(cluster)), "all queues to be BestEffortFIFO", 60)
    picture = look(cluster)
    phases = Counter(map(phase_of, picture.cessions))
    recorded = events(cluster)
    evicted = evictions(recorded)
    summary = f"{dict(trade.done)}, Cessions: {dict(phases)}, {dict(evicted)}"
    print(summary)
    failed = {name_of(c): message_of(c) for c in picture.cessions if phase_of(c) == "Failed"}
    report("summary", done=trade.done, cessions=phases, failed=failed)
    in_vain = {name_of(c): message_of(c) for c in stopped_in_vain(picture)}
    report("stopped in vain", cessions=in_vain)
    assert reserved(picture) <= ACCELERATORS, summary
    assert not inactive(picture), summary
    assert not trade.watch.unexplained_stops(picture)
    stops = Counter(job for cession in picture.cessions for job in stopped_jobs(cession))
    stops += admitted_when_set_aside(recorded)
    unknown = {
        (job, reason): count
        for (job, reason), count in (evicted - earlier).items()
        if reason != "EvictedDueToDeactivated" or count > stops[job]
    }
    assert not unknown, f"evicted without a Cession: {unknown}; {summary}"
    steps = {job.job: job.check_nothing_lost() for job in elastic_jobs}
    report("nothing lost", steps=steps)
    assert all(steps.values())
    if SECONDS >= LONG_S:
        assert trade.faults.keys() <= trade.done.keys(), summary
        assert phases["Completed"] > 0, summary


def check_progress(cluster: Cluster, elastic_jobs: Sequence[Training]) -> None:
    """After the last fault each elastic job makes a step soon, if it has its quota."""
    began = time.monotonic()
    before = {job: job.last_step().step for job in elastic_jobs}
    for job, step in before.items():
        left_s = PROGRESS_S - (time.monotonic() - began)
        cluster.until(
            lambda job=job, step=step: job.last_step().step > step or not has_quota(job),
            f"{job.job} to go beyond step {step}",
            left_s,
        )
        seconds = round(time.monotonic() - began, 1)
        report("progress", job=job.job, seconds=seconds, has_quota=has_quota(job))
