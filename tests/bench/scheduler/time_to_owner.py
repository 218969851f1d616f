"""Seconds until the owner of quota has it back, on the local cluster, with Cede and stock Kueue.

`vision` owns all eight accelerators. `research` owns none and runs on all of them. A job of vision
with 1, 4 or 8 pods comes. Its wait counts from the answer to its creation to its last running pod.
With Cede, research runs elastic training jobs; with stock Kueue (mode Observe) it runs pods that
only sleep, the quickest that there is to kill.
"""

import asyncio
import copy
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    POLICIES,
    Json,
)
from cede.kube.client import Client
from cede.kube.connection import connect
from cede.kube.errors import NotFound
from deploy.demo.cluster_watch import ClusterWatch, watch_cluster
from tests.e2e.training import Training
from tests.harness.local_cluster import Cluster, deploy_local
from tests.paths import TREE

EXAMPLES = TREE / "examples"
TOTAL = 8
TIMEOUT_S = 240.0
POLL_S = 0.05
OWNER = ("vision", "inference")


@dataclass(frozen=True)
class Case:
    """A job of `claim` pods takes from jobs of `victims` pods each."""

    claim: int
    victims: tuple[int, ...]

    @property
    def name(self) -> str:
        jobs = f"{len(self.victims)} jobs" if len(self.victims) > 1 else "1 job"
        return f"{self.claim} from {jobs}"


CASES = tuple(Case(claim, victims) for victims in ((8,), (4, 4)) for claim in (4, 1, 8))


@dataclass(frozen=True)
class Sample:
    """Seconds."""

    wait: float
    # by name; empty without a Cession
    stages: dict[str, float] = field(default_factory=dict)


class Bench:
    """Two teams on the local cluster."""

    def __init__(self, client: Client, watch: ClusterWatch, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = client
        self.watch = watch

    async def set_up(self) -> None:
        policy: Json = yaml.safe_load((EXAMPLES / "policy.yaml").read_text())
        policy["spec"]["preemption"] = {
            "graceSeconds": 30,
            "minRuntimeSeconds": 0,
            "growCooldownSeconds": 0,
        }
        await self.client.apply(POLICIES, ("", names.POLICY_NAME), policy)
        sharing = {"strategy": "LendAndBorrow"}
        for team, nodes in (("vision", 2), ("research", 0)):
            # a type without an entry could not be borrowed
            quotas = [{"instanceType": "local-4gpu", "count": nodes}]
            spec = {"quotas": quotas, "sharing": sharing}
            await self.client.apply(
                ALLOCATIONS, ("", team), {"metadata": {"name": team}, "spec": spec}
            )

        for team in ("vision", "research"):
            await self.until(partial(self._has_queue, team), f"the queue of {team}")

    async def _has_queue(self, team: str) -> bool:
        return bool(await self._get_or_empty(LOCAL_QUEUES, (team, names.LOCAL_QUEUE)))

    async def set_mode(self, mode: str) -> None:
        """Waits until the queues have the mode's preemption."""
        await self.client.patch(POLICIES, ("", names.POLICY_NAME), {"spec": {"mode": mode}})
        expected = "Never" if mode == "Enforce" else "Any"

        async def is_set() -> bool:
            queue = await self._get_or_empty(CLUSTER_QUEUES, ("", "vision"))
            preemption = queue.get("spec", {}).get("preemption", {})
            return bool(preemption.get("reclaimWithinCohort") == expected)

        await self.until(is_set, f"mode {mode}")

    async def _get_or_empty(self, kind: Any, key: tuple[str, str]) -> Json:
        try:
            body: Json = await self.client.get(kind, dict, key)
        except NotFound:
            return {}
        return body

    async def until(self, probe: Callable[[], Awaitable[bool]], what: str) -> None:
        end = time.monotonic() + TIMEOUT_S
        while not await probe():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {TIMEOUT_S:.0f} s for {what}")
            await asyncio.sleep(POLL_S)

    async def until_running(self, namespace: str, job: str, pods: int) -> None:
        async def run() -> bool:
            return len(self.watch.running(namespace, job)) >= pods

        await self.until(run, f"{pods} pods of {job} to run")

    # --- jobs -------------------------------------------------------------------------------------
    @asynccontextmanager
    async def victims(self, case: Case, *, elastic: bool) -> AsyncIterator[None]:
        """Research's jobs, which run on all accelerators when the context begins."""
        jobs = [f"victim-{index}" for index in range(len(case.victims))]
        for job, pods in zip(jobs, case.victims, strict=True):
            body = training_job(job, pods) if elastic else sleeping_job("research", job, pods)
            await self.client.create(JOBS, body, namespace="research")
        await self.all_victims_run(case, elastic=elastic)
        try:
            yield
        finally:
            for job in jobs:
                await self.delete("research", job)

    async def all_victims_run(self, case: Case, *, elastic: bool) -> None:
        """On as many pods as they want; those that train, on as many do."""
        for index, pods in enumerate(case.victims):
            job = f"victim-{index}"
            await self.until_running("research", job, pods)
            if elastic:
                trains = Training(self.cluster, "research", job).trains_on(pods)
                await self.until(partial(asyncio.to_thread, trains), f"{job} to train on {pods}")
        await asyncio.sleep(SETTLE_S)

    async def delete(self, namespace: str, job: str) -> None:
        try:
            await self.client.delete(JOBS, (namespace, job))
        except NotFound:
            return

        async def is_gone() -> bool:
            return not self.watch.pods_of(namespace, job)

        await self.until(is_gone, f"the pods of {job} to be gone")

    # --- one sample -------------------------------------------------------------------------------
    async def sample(self, case: Case) -> Sample:
        """The owner's job comes, runs and is deleted."""
        known = {cession["metadata"]["uid"] for cession in await self._cessions()}
        namespace, job = OWNER
        await self.client.create(JOBS, sleeping_job(*OWNER, case.claim), namespace=namespace)
        created = time.time()
        await self.until_running(*OWNER, case.claim)
        pods = self.watch.running(namespace, job)
        running = max(self.watch.running_at[pod.metadata.uid] for pod in pods)
        cessions = [c for c in await self._cessions() if c["metadata"]["uid"] not in known]
        stages = stage_seconds(cessions[0]["status"], created, running) if cessions else {}
        await self.delete(namespace, job)
        return Sample(running - created, stages)

    async def _cessions(self) -> list[Json]:
        cessions, _ = await self.client.list(CESSIONS, dict)
        return cessions


SETTLE_S = 3.0
"""Before a sample: what has just started has the processors no longer."""


def training_job(name: str, pods: int) -> Json:
    """The job of examples/gpt, from one pod to `pods`."""
    job: Json = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    job["metadata"] |= {"name": name, "annotations": {names.SIZES: f"1-{pods}"}}
    job["spec"] |= {"parallelism": pods, "completions": pods}
    return job


def sleeping_job(namespace: str, name: str, pods: int) -> Json:
    job: Json = copy.deepcopy(yaml.safe_load((EXAMPLES / "claim.yaml").read_text()))
    job["metadata"] = {"name": name, "namespace": namespace}
    job["spec"] |= {"parallelism": pods, "completions": pods, "backoffLimit": 100}
    [container] = job["spec"]["template"]["spec"]["containers"]
    # a shell that is the first process would ignore SIGTERM
    program = "import signal, time; signal.signal(15, lambda *_: exit()); time.sleep(3600)"
    container["command"] = ["python", "-c", program]
    return job


def stage_seconds(status: Json, created: float, running: float) -> dict[str, float]:
    """Seconds of each stage of a Cession, in order. A time that was not recorded ends its stage at
    once."""
    targets = status.get("targets", [])
    ends = {
        "ask": [target.get("askedTime") for target in targets],
        "cede": [target.get("cededTime") for target in targets],
        "release": [target.get("releasedTime") for target in targets],
        "admit": [status.get("admittedTime")],
    }
    stages = dict[str, float]()
    last = created
    for stage, times in ends.items():
        seconds = [datetime.fromisoformat(text).timestamp() for text in times if text]
        end = max([last, *seconds])
        stages[stage] = end - last
        last = end
    return stages | {"start pods": max(0.0, running - last)}


async def measure(cases: tuple[Case, ...], times: int) -> dict[str, dict[str, list[Sample]]]:
    """By case and `cede` or `kueue`. Leaves the cluster without teams' jobs."""
    status = json.loads(deploy_local("status", "-o", "json"))
    cluster = Cluster(Path(status["kubeconfig"]), Path(status["kubectl"]))
    kubeconfig = str(cluster.kubeconfig)
    samples: dict[str, dict[str, list[Sample]]] = {}
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(manager="bench", kubeconfig=kubeconfig))
        watch = await stack.enter_async_context(watch_cluster(client, lambda: None))
        bench = Bench(client, watch, cluster)
        await bench.set_up()
        for case in cases:
            samples[case.name] = {}
            for side, mode in (("cede", "Enforce"), ("kueue", "Observe")):
                await bench.set_mode(mode)
                elastic = side == "cede"
                async with bench.victims(case, elastic=elastic):
                    samples[case.name][side] = []
                    for _ in range(times):
                        sample = await bench.sample(case)
                        samples[case.name][side].append(sample)
                        print(f"{case.name}, {side}: {sample.wait:.2f} s", flush=True)
                        await bench.all_victims_run(case, elastic=elastic)
        await bench.set_mode("Enforce")
    return samples
