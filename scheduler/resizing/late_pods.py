"""PURE. Which Jobs have pods that first run when the job has finished.

A growth or a lost pod shortly before the last step leads to such a pod. It is no member of the job
and finds nobody to follow, so it would keep its accelerators, and the Job would not complete. Only
Kubernetes shows that pod 0 has succeeded. What that means for a pod is decided by its agent,
which knows what the pod did before (elastic_runtime/agent/agent.py, end_if_late).
"""

from collections.abc import Iterator

from scheduler.finish_actions import ReportFinish
from scheduler.snapshot.snapshot import Snapshot

REPEAT_S = 30.0
"""Between two reports to the same job. A pod ends only when it has looked for others for 20 s."""


def finish_late(snapshot: Snapshot, now: float) -> Iterator[ReportFinish]:
    """The pods of a Job whose pod 0 has succeeded get the report, as long as those that were asked
    last know no coordinator. Without pod 0 no job begins, so nobody will come whom they could join.
    """
    for job in snapshot.elastic:
        is_due = abs(now - job.observed.finish_reported) >= REPEAT_S
        if 0 in job.completed and job.addresses and is_due and job.observed.is_leaderless:
            yield ReportFinish(job.job, job.job_uid, job.addresses, job.base)
