"""What is seen of the cluster while the story runs: pods and workloads, each with the time it was
first seen."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from cede.api.kueue import Pod, Workload
from cede.api.names import EVICTED, GPU
from cede.api.objects import PODS, WORKLOADS, is_true
from cede.api.resources import amount
from cede.kube.cache import Cache
from cede.kube.client import Client
from deploy.demo.figures import Holding

TEAMS = ("research", "vision")


def accelerators(pod: Pod) -> int:
    return sum(amount(GPU, c.resources.get("limits", {}).get(GPU, 0)) for c in pod.spec.containers)


class Watching:
    """Live copies of the teams' pods and workloads, and when each thing was first seen (Unix
    seconds of this machine)."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.pods = Cache(client, PODS, Pod, changed=self._look)
        self.workloads = Cache(client, WORKLOADS, Workload, changed=self._look)
        self.holdings: list[Holding] = []
        # uid → time
        self.workload_seen: dict[str, float] = {}
        # workload uid → time
        self.evicted_seen: dict[str, float] = {}
        # pod uid → time
        self.running_seen: dict[str, float] = {}

    def _look(self) -> None:
        now = time.time()
        held = Counter[str]()
        for pod in self.pods.all():
            if pod.metadata.namespace in TEAMS and pod.status.phase == "Running":
                held[pod.metadata.namespace] += accelerators(pod)
                self.running_seen.setdefault(pod.metadata.uid, now)
        for workload in self.workloads.all():
            self.workload_seen.setdefault(workload.metadata.uid, now)
            if is_true(workload.status.conditions, EVICTED):
                self.evicted_seen.setdefault(workload.metadata.uid, now)
        if not self.holdings or dict(held) != dict(self.holdings[-1].by_team):
            self.holdings.append(Holding(now, dict(held)))
        self._changed()

    def held(self) -> dict[str, int]:
        return dict(self.holdings[-1].by_team) if self.holdings else {}

    def running(self, namespace: str, job: str) -> list[Pod]:
        return [
            pod
            for pod in self.pods.all()
            if pod.metadata.namespace == namespace
            and pod.metadata.labels.get("batch.kubernetes.io/job-name") == job
            and pod.status.phase == "Running"
            and not pod.metadata.deletionTimestamp
        ]

    def workload_of(self, namespace: str, job: str) -> Workload | None:
        """The newest Workload of a Job."""
        of = [
            w
            for w in self.workloads.all()
            if w.metadata.namespace == namespace
            and any(o.kind == "Job" and o.name == job for o in w.metadata.ownerReferences)
        ]
        return max(of, key=lambda w: w.metadata.created, default=None)


@asynccontextmanager
async def watch(client: Client, changed: Callable[[], None]) -> AsyncIterator[Watching]:
    """The caches run for as long as the context lasts; it opens once both have synced."""
    watching = Watching(client, changed)
    tasks = [asyncio.create_task(cache.run()) for cache in (watching.pods, watching.workloads)]
    try:
        try:
            await asyncio.wait_for(
                asyncio.gather(watching.pods.synced.wait(), watching.workloads.synced.wait()), 30
            )
        except TimeoutError as error:
            raise TimeoutError(
                "waited 30 s for a list of pods and workloads: does the API server answer, "
                "and is "
                "Kueue there?"
            ) from error
        yield watching
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
