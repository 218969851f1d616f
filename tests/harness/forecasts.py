"""What `cede explain` says of when the jobs of a simulated cluster start, against when they do.

`python -m tests.harness.forecasts 0 200` tries the random worlds of these seeds, prints how often
each estimate held, and exits with 1 if one held too rarely.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from zlib import crc32

from cede.api import names
from cede.api.kueue import (
    Admission,
    ClusterQueue,
    LocalQueue,
    PodSet,
    PodSetAssignment,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from cede.api.objects import Condition, Meta, OwnerReference, rfc3339, unix
from cede.api.pod_templates import Container, ContainerResources, PodTemplate, TemplateSpec
from cede.api.wait_reasons import WaitReason
from cede.causes.index import Index
from cede.causes.job_causes import job_causes
from cede.causes.snapshot import Snapshot
from scheduler.simulate import objects as simulated
from scheduler.simulate.quota import Quota
from scheduler.simulate.simulated_scheduler import SimulatedScheduler
from tests.builders.causes import FLAVOR, exceeds, lacks, local_queue, queue
from tests.builders.reports import allocation, policy
from tests.harness.random_world import World

LOOK_S = 5.0
HOLDS_IN = 0.8
"""The part of the estimates that must hold."""
ADMISSION_S = 10.0
"""From the end of the cause to the admission: a take-back asks, releases, and waits for Kueue."""
TIME_LIMIT = 1.5
"""Every second job may run for so many times as long as it takes with all its accelerators."""
ROUNDING_S = 1.0
"""Times of the API are whole seconds."""
ONE_GPU = PodTemplate(
    spec=TemplateSpec(containers=(Container(resources=ContainerResources({}, {names.GPU: 1})),))
)


@dataclass(frozen=True, slots=True)
class Forecast:
    """One estimate, as it was first given. Times are Unix seconds; 0.0: not known."""

    reason: WaitReason
    earliest: float
    latest: float

    def holds(self, started: float) -> bool:
        is_late = bool(self.latest) and started > self.latest + ADMISSION_S
        return not is_late and started >= self.earliest - ROUNDING_S


class Forecasts:
    """Explains every waiting job of the cluster every LOOK_S."""

    def __init__(self, scheduler: SimulatedScheduler) -> None:
        self._scheduler = scheduler
        self._cluster = scheduler.cluster
        # by Workload, and since when it waits: what was said of it
        self._open = defaultdict[str, set[Forecast]](set)
        # (the estimate, whether it held) of each that could be judged
        self.judged: list[tuple[Forecast, bool]] = []
        # by Workload: for how many seconds it has had quota
        self._ran_s = defaultdict[str, float](float)
        self._cluster.clock.after(LOOK_S, self._look)

    def _look(self) -> None:
        self._end_overdue()
        jobs = list(self._cluster.jobs.values())
        waiting = {job.workload.name: job for job in jobs if job.workload.reserved_since is None}
        self._judge({job.workload.name: job.workload.reserved_since for job in jobs})
        index = Index(self._snapshot(jobs), self._cluster.now)
        for workload in index.snapshot.workloads:
            if workload.metadata.name in waiting:
                self._open[workload.metadata.name].update(_forecasts(workload, index))
        self._cluster.clock.after(LOOK_S, self._look)

    def _end_overdue(self) -> None:
        """As Kueue does; a scale-up is a new Workload, whose time begins again."""
        for job in list(self._cluster.jobs.values()):
            if job.workload.reserved_since is not None:
                self._ran_s[job.workload.uid] += LOOK_S
                if self._ran_s[job.workload.uid] >= (_limit_s(job) or math.inf):
                    self._cluster.end(job)

    def _judge(self, starts: dict[str, float | None]) -> None:
        for name in list(self._open):
            if name not in starts:
                # its user has deleted it
                del self._open[name]
            elif started := starts[name]:
                entries = self._open.pop(name)
                self.judged += [(entry, entry.holds(started)) for entry in entries]

    def finish(self) -> None:
        """What should have started by now did not hold."""
        for entries in self._open.values():
            late = [e for e in entries if e.latest and e.latest + ADMISSION_S < self._cluster.now]
            self.judged += [(entry, False) for entry in late]

    # --- the cluster as the command reads it ------------------------------------------------------
    def _snapshot(self, jobs: Iterable[simulated.Job]) -> Snapshot:
        quota = self._cluster.kueue.quota()
        queues = self._cluster.kueue.queues.values()
        leader = "s-1" if self._scheduler.leads else ""
        return Snapshot(
            policy=policy(leader=leader).model_copy(update={"spec": self._scheduler.policy}),
            allocations=[allocation(entry.name) for entry in queues],
            cessions=list(self._scheduler.cessions.values()),
            queues=[_cluster_queue(entry) for entry in queues],
            local_queues=[_local_queue(entry) for entry in queues],
            workloads=[self._workload(job.workload, quota) for job in jobs],
        )

    def _workload(self, item: simulated.Workload, quota: Quota) -> Workload:
        team = item.job.spec.team
        labels = {names.STOPPED_FOR: item.stopped_for} if item.stopped_for else {}
        owner = OwnerReference("Job", item.job.spec.name, item.job.uid, controller=True)
        read = Workload(
            Meta(
                name=item.name,
                namespace=team,
                uid=item.uid,
                creationTimestamp=rfc3339(item.created, micro=True),
                labels=labels,
                ownerReferences=(owner,),
            ),
            WorkloadSpec(
                queueName="default",
                active=item.active,
                priority=item.job.spec.priority,
                podSets=(_pods(item.count),),
                maximumExecutionTimeSeconds=_limit_s(item.job),
            ),
        )
        if item.reserved_since is None:
            return replace(read, status=WorkloadStatus(_pending(item, quota)))
        since = rfc3339(item.reserved_since)
        ran_s = self._ran_s[item.uid] - (self._cluster.now - item.reserved_since)
        conditions = tuple(
            Condition(type_, "True", type_, "", since)
            for type_ in (names.QUOTA_RESERVED, names.ADMITTED, names.PODS_READY)
        )
        usage = PodSetAssignment("main", item.count, {names.GPU: FLAVOR}, {names.GPU: item.count})
        status = WorkloadStatus(
            conditions,
            Admission(team, (usage,)),
            accumulatedPastExecutionTimeSeconds=max(0, round(ran_s)),
        )
        return replace(read, status=status)


def _forecasts(workload: Workload, index: Index) -> Iterator[Forecast]:
    """That of the first cause that has one, as the command says it."""
    for cause in job_causes(workload, None, index):
        if cause.estimate:
            earliest, latest = unix(cause.estimate.earliest), unix(cause.estimate.latest)
            yield Forecast(cause.reason, earliest, latest)
            return


def _cluster_queue(entry: simulated.Queue) -> ClusterQueue:
    quota = entry.quota
    return queue(
        entry.name,
        quota.nominal,
        entry.usage,
        borrowing=quota.borrowing_limit,
        lending=quota.lending_limit,
        queueingStrategy=entry.strategy,
        stopPolicy="Hold" if entry.on_hold else "None",
    )


def _local_queue(entry: simulated.Queue) -> LocalQueue:
    return local_queue(entry.name)


def _limit_s(job: simulated.Job) -> int:
    """0: its time is not limited."""
    is_limited = crc32(job.spec.name.encode()) % 2
    return round(TIME_LIMIT * job.spec.duration) if is_limited else 0


def _pods(count: int) -> PodSet:
    return PodSet(count=count, template=ONE_GPU)


def _pending(item: simulated.Workload, quota: Quota) -> tuple[Condition, ...]:
    """As Kueue reports that it does not fit; nothing before it was tried."""
    team = item.job.spec.team
    missing = item.count - quota.available(team)
    if missing <= 0:
        return ()
    most = quota.potential(team)
    body = exceeds(item.count, most) if item.count > most else lacks(missing)
    return (Condition(body["type"], body["status"], body["reason"], body["message"]),)


def judged_in(seeds: Iterable[int]) -> list[tuple[Forecast, bool]]:
    """All estimates of these random worlds."""
    result = []
    for seed in seeds:
        world = World(seed)
        forecasts = Forecasts(world.scheduler)
        world.run()
        forecasts.finish()
        result += forecasts.judged
    return result


def main() -> None:
    first, last = int(sys.argv[1]), int(sys.argv[2])
    by_reason = defaultdict[str, list[bool]](list)
    for forecast, holds in judged_in(range(first, last)):
        by_reason[forecast.reason].append(holds)
        by_reason["all"].append(holds)
    for reason, results in sorted(by_reason.items()):
        share = sum(results) / len(results)
        print(f"{reason:20} {sum(results):6} of {len(results):6} held: {100 * share:5.1f} %")
    if sum(by_reason["all"]) < HOLDS_IN * len(by_reason["all"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
