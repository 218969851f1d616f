"""PURE. After how long Kueue evicts a job whose pods are not all ready."""

from collections.abc import Iterable
from dataclasses import dataclass

from cede.api.policy import ClusterPolicy
from scheduler.snapshot.workloads import AdmittedWorkload


@dataclass(frozen=True, slots=True)
class KueueTimeouts:
    """In seconds; 0 for never."""

    # while the pods of a job that was admitted, or has grown, start for the first time
    start_s: float = 0.0
    # for a pod that is not ready any more
    recovery_s: float = 0.0

    def timeout_s(self, job: AdmittedWorkload) -> float:
        """The one that counts for this job, from `unready_since` on."""
        return self.recovery_s if job.is_recovering else self.start_s


def read_timeouts(policies: Iterable[ClusterPolicy]) -> KueueTimeouts:
    """As the quota_controller read them in Kueue's configuration; "never" without a policy."""
    for policy in policies:
        status = policy.status
        start_s = float(status.podsReadyTimeoutSeconds)
        return KueueTimeouts(start_s, float(status.podsRecoveryTimeoutSeconds))
    return KueueTimeouts()
