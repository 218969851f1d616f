"""PURE. Which Jobs have pods that first run when the job has finished.

A growth or a lost pod shortly before the last step leads to such a pod. It is no member of the job
and finds nobody to follow, so it would keep its accelerators, and the Job would not complete. Only
Kubernetes shows that another pod has succeeded. What that means for a pod is decided by its agent,
which knows whether it ever trained (elastic_runtime/agent/agent.py, end_if_late).
"""

from collections.abc import Iterator

from scheduler.finish_actions import ReportFinish
from scheduler.snapshot.snapshot import Snapshot


def finish_late(snapshot: Snapshot) -> Iterator[ReportFinish]:
    """The pods of a Job of which one has succeeded are told, as long as none of those that were
    asked last knows a coordinator."""
    for job in snapshot.elastic:
        if job.completed and job.addresses and job.observed.is_leaderless:
            yield ReportFinish(job.job, job.job_uid, job.addresses, job.base)
