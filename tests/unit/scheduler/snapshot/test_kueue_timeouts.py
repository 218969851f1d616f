"""Kueue has one timeout for pods that start, and one for pods that were ready."""

from cede.api.policy import ClusterPolicy, PolicyStatus
from scheduler.snapshot.kueue_timeouts import KueueTimeouts, read_timeouts
from tests.builders.scheduler import admitted


def test_the_timeout_that_counts_for_a_job() -> None:
    status = PolicyStatus(podsReadyTimeoutSeconds=300, podsRecoveryTimeoutSeconds=60)
    timeouts = read_timeouts([ClusterPolicy(status=status)])
    assert timeouts.timeout_s(admitted(is_recovering=True)) == 60
    assert timeouts.timeout_s(admitted(is_recovering=False)) == 300


def test_without_settings_of_kueue_no_eviction_is_expected() -> None:
    assert read_timeouts([ClusterPolicy()]) == read_timeouts([]) == KueueTimeouts(0, 0)
