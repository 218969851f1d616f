"""Watches the teams' pods and workloads, and notes when each of them was first seen."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from cede.api.kueue import Pod, Workload
from cede.api.names import EVICTED, GPU, POD_JOB_NAME
from cede.api.objects import PODS, WORKLOADS, is_true
from cede.api.resources import amount
from cede.kube.cache import Cache
from cede.kube.client import Client
from deploy.demo.record import Holding

TEAMS = ("research", "vision")
PLAIN_JOB = "plain"
SYNC_TIMEOUT_S = 30


def accelerators(pod: Pod) -> int:
    limits = [container.resources.limits for container in pod.spec.containers]
    return sum(amount(GPU, limit.get(GPU, 0)) for limit in limits)


def holder(pod: Pod) -> str:
    """The pod's team; the plain job of research is shown apart."""
    is_plain = pod.metadata.labels.get(POD_JOB_NAME) == PLAIN_JOB
    return PLAIN_JOB if is_plain else pod.metadata.namespace


class ClusterWatch:
    """All times are Unix seconds of this machine."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.pods = Cache(client, PODS, Pod, changed=self._note_changes)
        self.workloads = Cache(client, WORKLOADS, Workload, changed=self._note_changes)
        self.holdings: list[Holding] = []
        # uid of the workload → time
        self.created_at: dict[str, float] = {}
        self.evicted_at: dict[str, float] = {}
        # uid of the pod → time
        self.running_at: dict[str, float] = {}

    def _note_changes(self) -> None:
        now = time.time()
        by_team = Counter[str]()
        for pod in self.pods.all():
            if pod.metadata.namespace in TEAMS and pod.status.phase == "Running":
                by_team[holder(pod)] += accelerators(pod)
                self.running_at.setdefault(pod.metadata.uid, now)
        for workload in self.workloads.all():
            self.created_at.setdefault(workload.metadata.uid, now)
            if is_true(workload.status.conditions, EVICTED):
                self.evicted_at.setdefault(workload.metadata.uid, now)
        if not self.holdings or dict(by_team) != dict(self.holdings[-1].by_team):
            self.holdings.append(Holding(now, dict(by_team)))
        self._changed()

    def present_holdings(self) -> dict[str, int]:
        """Accelerators by team, now."""
        return dict(self.holdings[-1].by_team) if self.holdings else {}

    def pods_of(self, namespace: str, job: str) -> list[Pod]:
        return [
            pod
            for pod in self.pods.all()
            if pod.metadata.namespace == namespace and pod.metadata.labels.get(POD_JOB_NAME) == job
        ]

    def running(self, namespace: str, job: str) -> list[Pod]:
        """The job's pods that run and are not being deleted."""
        return [
            pod
            for pod in self.pods_of(namespace, job)
            if pod.status.phase == "Running" and not pod.metadata.deletionTimestamp
        ]

    def workload_of(self, namespace: str, job: str) -> Workload | None:
        """The newest Workload of a Job."""
        workloads = [
            workload
            for workload in self.workloads.all()
            if workload.metadata.namespace == namespace and _is_owned_by(workload, job)
        ]
        return max(workloads, key=lambda workload: workload.metadata.created, default=None)


def _is_owned_by(workload: Workload, job: str) -> bool:
    owners = workload.metadata.ownerReferences
    return any(owner.kind == "Job" and owner.name == job for owner in owners)


@asynccontextmanager
async def watch_cluster(client: Client, changed: Callable[[], None]) -> AsyncIterator[ClusterWatch]:
    """Watches for as long as the context lasts; it begins when all objects have been read."""
    watch = ClusterWatch(client, changed)
    tasks = [asyncio.create_task(cache.run()) for cache in (watch.pods, watch.workloads)]
    synced = asyncio.gather(watch.pods.synced.wait(), watch.workloads.synced.wait())
    try:
        try:
            await asyncio.wait_for(synced, SYNC_TIMEOUT_S)
        except TimeoutError as error:
            raise TimeoutError(
                f"waited {SYNC_TIMEOUT_S} s for a list of pods and workloads: check that the API "
                f"server answers and that Kueue is installed"
            ) from error
        yield watch
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
