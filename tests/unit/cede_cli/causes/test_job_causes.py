"""All causes of a job's state: the first has to pass first."""

from cede.api import names
from cede.api.wait_reasons import WaitReason
from tests.builders.causes import cession, condition, lacks, policy, reasons, running, workload


def test_the_jobs_that_could_give_are_named_behind_what_keeps_them() -> None:
    assert reasons(workload(lacks(4)), policy=policy("Observe")) == [
        WaitReason.POLICY_OBSERVES,
        WaitReason.LENT_QUOTA_IN_USE,
    ]


def test_a_finished_job_has_no_cause() -> None:
    assert reasons(workload(condition(names.FINISHED, True))) == []


def test_a_job_that_runs_as_wanted_has_no_cause() -> None:
    assert reasons(running("claim", "vision", 4)) == []


def test_a_job_that_is_being_stopped_says_by_whom() -> None:
    """pkg/scheduler/preemption/preemption.go, preemptionMessage."""
    message = "Preempted to accommodate a workload (UID: u, JobUID: j) due to prioritization"
    evicted = condition(names.EVICTED, True, message, "Preempted")
    admitted = condition(names.ADMITTED, True)
    assert reasons(workload(admitted, evicted, used=4)) == [WaitReason.BEING_EVICTED]
    inactive = workload(
        admitted,
        used=4,
        spec={"active": False},
        metadata={"labels": {names.STOPPED_FOR: "c-1"}},
    )
    stopping = cession(preemptor="first", target="claim")
    assert reasons(inactive, cessions=(stopping,)) == [WaitReason.STOPPED_FOR_CESSION]
