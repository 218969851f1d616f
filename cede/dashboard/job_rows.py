"""PURE. The rows of all jobs, of which only those of a namespace that changed are made again."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cede.api import names
from cede.api.cession import Cession
from cede.api.job_progress import NOTHING, Progress
from cede.api.kueue import Job, Workload
from cede.causes.snapshot import Snapshot
from cede.dashboard.view import View
from cede.report.jobs import JobRow, rows

REFRESH_S = 60.0
"""After this time rows are made again although nothing in their namespace changed: their reasons
say how long ago, and what the queues of others hold."""


@dataclass(frozen=True)
class Group:
    """One namespace: what its rows follow from, and the rows."""

    jobs: list[Job] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    cessions: list[Cession] = field(default_factory=list)
    progress: Progress = NOTHING
    rows: tuple[JobRow, ...] = ()
    made: float = 0.0


def groups(view: View, previous: Mapping[str, Group], now: float) -> dict[str, Group]:
    """By namespace. A group of which nothing changed is the previous one."""
    by_namespace = defaultdict[str, Group](Group)
    for job in view.jobs:
        by_namespace[job.metadata.namespace].jobs.append(job)
    for workload in view.workloads:
        by_namespace[workload.metadata.namespace].workloads.append(workload)
    _add_cessions(view, by_namespace)
    around = view.around()
    return {
        namespace: _with_rows(
            replace(group, progress=view.progress.get(namespace, NOTHING)),
            previous.get(namespace),
            around,
            now,
        )
        for namespace, group in by_namespace.items()
    }


def _add_cessions(view: View, by_namespace: Mapping[str, Group]) -> None:
    """To each namespace those that concern its jobs."""
    places = defaultdict[str, set[str]](set)
    for namespace, group in by_namespace.items():
        for workload in group.workloads:
            # also one of another namespace, which shares the queue
            if stopped_for := workload.metadata.labels.get(names.STOPPED_FOR):
                places[stopped_for].add(namespace)
    for cession in view.cessions:
        own = {target.namespace for target in cession.spec.targets}
        for namespace in own | {cession.spec.preemptor.namespace} | places[cession.metadata.name]:
            if namespace in by_namespace:
                by_namespace[namespace].cessions.append(cession)


def _with_rows(group: Group, previous: Group | None, around: Snapshot, now: float) -> Group:
    # objects that did not change are the same ones, so these comparisons look at few
    if (
        previous
        and now - previous.made < REFRESH_S
        and group.jobs == previous.jobs
        and group.workloads == previous.workloads
        and group.cessions == previous.cessions
        and group.progress == previous.progress
    ):
        return previous
    made = rows(group.jobs, group.workloads, group.cessions, now, around)
    return replace(group, rows=tuple(made), made=now)
