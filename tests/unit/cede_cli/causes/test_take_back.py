"""Why nothing is taken back for a job."""

from typing import Any

import pytest

from cede.api import names
from cede.api.kueue import Workload
from cede.api.wait_reasons import WaitReason
from cede.causes.admission_time import NOT_FIRST
from cede.causes.facts import Estimate
from cede.causes.take_back import MIN_RUNTIME
from tests.builders.causes import (
    causes,
    cession,
    lacks,
    policy,
    queue,
    reasons,
    running,
    time,
    workload,
)


@pytest.mark.parametrize(
    ("item", "changed", "reason"),
    [
        pytest.param(
            workload(lacks(4)),
            {"cessions": (cession(phase="Failed", completionTime=time(5), message="too late."),)},
            WaitReason.CESSION_PAUSE,
            id="the pause after a Cession that failed",
        ),
        pytest.param(
            workload(lacks(4)),
            {"policy": policy("Observe", preemption="Kueue")},
            WaitReason.POLICY_OBSERVES,
            id="mode Observe",
        ),
        pytest.param(
            workload(lacks(4)),
            {"leases": {names.SCHEDULER_LEASE: None}},
            WaitReason.NO_SCHEDULER,
            id="no scheduler",
        ),
        pytest.param(
            workload(lacks(4)),
            {"leases": {}, "policy": policy(reason="NoLeader", leader="", preemption="Kueue")},
            WaitReason.NO_SCHEDULER,
            id="no scheduler, for a user who may not read its lease",
        ),
        pytest.param(
            workload(lacks(4)),
            {"cessions": (cession(),), "leases": {names.SCHEDULER_LEASE: None}},
            WaitReason.NO_SCHEDULER,
            id="a Cession that nobody continues",
        ),
        pytest.param(
            workload(lacks(4)),
            {"policy": policy(reason="Returning", preemption="Kueue")},
            WaitReason.KUEUE_PREEMPTS,
            id="a scheduler that has returned",
        ),
        pytest.param(
            workload(lacks(4), age_s=20),
            {"workloads": (running("gpt", "research", 8, ago_s=30),)},
            WaitReason.MIN_RUNTIME,
            id="jobs that have just started",
        ),
    ],
)
def test_why_nothing_is_taken_back(
    item: Workload, changed: dict[str, Any], reason: WaitReason
) -> None:
    assert reasons(item, **changed)[0] is reason


# --- when it passes -------------------------------------------------------------------------------
def test_minimum_runtime_has_a_range_to_the_grace_after_the_owners_wait() -> None:
    item = workload(lacks(4), age_s=20)
    jobs = (item, running("old", "research", 4, ago_s=40), running("new", "research", 4, ago_s=10))
    cause, _ = causes(item, workloads=jobs)
    assert cause.estimate == Estimate(time(-20), time(-100), MIN_RUNTIME)


def test_minimum_runtime_has_a_range_only_for_the_first_of_its_queue() -> None:
    item = workload(lacks(4), age_s=20)
    first = workload(lacks(4), job="first", age_s=30)
    jobs = (first, item, running("new", "research", 8, ago_s=10))
    cause, _ = causes(item, workloads=jobs)
    assert (cause.reason, cause.estimate) == (WaitReason.MIN_RUNTIME, None)
    assert cause.no_estimate == NOT_FIRST


def test_an_owners_wait_does_not_shorten_the_runtime_of_jobs_of_its_own_team() -> None:
    item = workload(lacks(4), priority=80, age_s=40)
    jobs = (item, running("low", "vision", 4, priority=10, ago_s=10))
    queues = (queue("vision", 4, 4), queue("research", 4, 4))
    cause, *_ = causes(item, workloads=jobs, queues=queues)
    assert cause.reason is WaitReason.MIN_RUNTIME
    assert cause.estimate == Estimate(time(-50), time(-110), MIN_RUNTIME)
    assert "waited" not in cause.sentence


def test_own_jobs_that_use_too_little_could_not_give() -> None:
    item = workload(lacks(4), priority=80, age_s=40)
    low = running("low", "vision", 1, priority=10, ago_s=10)
    queues = (queue("vision", 4, 4), queue("research", 4, 4))
    own, *_ = causes(item, workloads=(item, low), queues=queues)
    assert own.reason is WaitReason.OWN_TEAM_USES_QUOTA
    assert own.sentence.endswith("those of lower priority among them use too little to make room.")


def test_a_job_that_is_old_enough_could_give() -> None:
    jobs = (running("old", "research", 4, ago_s=70), running("new", "research", 4, ago_s=10))
    assert reasons(workload(lacks(4), age_s=20), workloads=jobs) == [WaitReason.LENT_QUOTA_IN_USE]


def test_the_pause_doubles_with_each_failure() -> None:
    failures = [cession(phase="Failed", completionTime=time(ago_s)) for ago_s in (200, 5)]
    cause, _ = causes(workload(lacks(4)), cessions=failures)
    assert cause.estimate == Estimate(time(-55), "", "the pause after a Cession that failed")


def test_a_pause_that_has_passed_is_no_cause() -> None:
    failure = cession(phase="Failed", completionTime=time(31))
    assert reasons(workload(lacks(4)), cessions=[failure]) == [WaitReason.LENT_QUOTA_IN_USE]


def test_nothing_is_said_of_a_scheduler_that_may_not_be_read() -> None:
    unread: dict[str, Any] = {
        "policy": None,
        "leases": {},
        "incomplete": frozenset({"clusterpolicies"}),
    }
    assert reasons(workload(lacks(4)), **unread) == [WaitReason.LENT_QUOTA_IN_USE]
