"""What recorded Cessions say about a job: stops, missed deadlines, and for whom."""

from cede.api.cession_status import TargetStatus
from cede.api.objects import rfc3339
from cede.api.policy import PolicySpec, Preemption
from scheduler.preemption.job_history import (
    LATE_ANSWERS_PER_DAY,
    STOPS_PER_HOUR,
    JobHistory,
    read_history,
)
from tests.builders.plans import preemption_plans
from tests.builders.scheduler import NOW, admitted, cession, pending, snapshot

GPT = "job-uid-gpt"
STOPPED = TargetStatus(uid=GPT, stopped=True, releasedTime=rfc3339(NOW))


def test_a_job_is_over_its_budget_for_an_hour() -> None:
    records = [cession("Completed", 0, "Stop", targets=[STOPPED]) for _ in range(STOPS_PER_HOUR)]
    assert read_history(records, NOW + 3500).is_over_budget(GPT)
    assert not read_history(records, NOW + 3700).is_over_budget(GPT)
    assert not read_history(records[1:], NOW + 1).is_over_budget(GPT)


def test_a_shrink_is_no_stop() -> None:
    shrunk = TargetStatus(uid=GPT, releasedTime=rfc3339(NOW))
    assert not read_history([cession("Completed", targets=[shrunk])] * 9, NOW).is_over_budget(GPT)


def test_a_stop_that_never_happened_is_none() -> None:
    """It was recorded before it was tried; the server refused it, or the preemptor went away."""
    planned = TargetStatus(uid=GPT, stopped=True, stopRequestedTime=rfc3339(NOW))
    records = [cession("Failed", 0, "Stop", targets=[planned])] * STOPS_PER_HOUR
    history = read_history(records, NOW)
    assert not history.is_over_budget(GPT)
    assert history.stopped_for == {}


def test_deadlines_that_a_job_let_pass_count_for_a_day() -> None:
    late = TargetStatus(uid=GPT, forcedTime=rfc3339(NOW))
    records = [cession("Completed", targets=[late])] * LATE_ANSWERS_PER_DAY
    assert read_history(records, NOW + 86000).ignores_deadlines(GPT)
    assert not read_history(records, NOW + 87000).ignores_deadlines(GPT)
    assert not read_history(records[1:], NOW).ignores_deadlines(GPT)


def test_a_preemptor_is_known_by_its_workload_and_by_its_job() -> None:
    """The Workload of an elastic job is another one after each growth."""
    history = read_history([cession("Completed", 0, "Stop", targets=[STOPPED])], NOW)
    assert history.stopped_for[GPT] == {"uid-claim", ("vision", "claim")}


# --- what follows for its grace -------------------------------------------------------------------
def grace_of(history: JobHistory, grace_s: float = 0.0) -> list[float]:
    current = snapshot(admitted=[admitted(grace_s=grace_s)], pending=[pending()])
    policy = PolicySpec(preemption=Preemption(graceSeconds=60, maxGraceSeconds=90))
    plans = preemption_plans(current, policy, history)
    return [target.grace_s for plan in plans for target in plan.targets]


def test_every_target_has_a_grace_of_its_own() -> None:
    assert grace_of(JobHistory()) == [60]
    assert grace_of(JobHistory(), 30) == [30]
    assert grace_of(JobHistory(), 3600) == [90]


def test_a_job_that_let_deadlines_pass_is_not_asked() -> None:
    late = JobHistory(late_answers={"job-uid-gpt": LATE_ANSWERS_PER_DAY})
    assert grace_of(late, 90) == [0]
