"""PURE. What Kueue should have done a moment ago, and has not done.

By our sums a pending Workload fits, but Kueue may know better: its topology may be fragmented. What
we wait for then may never come, and nothing else may wait for it.
"""

from collections.abc import Mapping

from scheduler.quota.assignments import assign
from scheduler.snapshot.snapshot import Snapshot

OVERDUE_S = 60.0
"""Kueue tries all Workloads of a Cohort within a second after capacity came free, and makes a slice
in the second after a Job grew. This leaves time for a restart of Kueue. Observed anew by each
leader, so that a change of leaders only prolongs it."""


def find_expected(snapshot: Snapshot) -> frozenset[str]:
    """What Kueue should do in a moment: the uids of Workloads that fit, and of Jobs that grow and
    whose slice is not there."""
    kinds = {
        pending.kind
        for pending in snapshot.pending.first_of_each_kind
        if not pending.ineligible
        and assign(pending.pod_sets, pending.queue, snapshot.quota) is not None
    }
    fitting = {pending.uid for pending in snapshot.pending if kinds and pending.kind in kinds}
    growing = {job.job_uid for job in snapshot.elastic if job.is_growing}
    return frozenset(fitting | (growing - snapshot.scale_ups.keys()))


def overdue(since: Mapping[str, float], now: float) -> frozenset[str]:
    """What is not waited for any longer."""
    return frozenset(uid for uid, start in since.items() if now - start > OVERDUE_S)
