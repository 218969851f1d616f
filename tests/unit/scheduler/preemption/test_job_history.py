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
from tests.builders.plans import preemption_plans, sizes
from tests.builders.scheduler import (
    NOW,
    admitted,
    cession,
    cohort_quota,
    pending,
    queue,
    snapshot,
)

GPT = "job-uid-gpt"
STOPPED = TargetStatus(uid=GPT, stopped=True, releasedTime=rfc3339(NOW))


def test_a_job_is_over_its_budget_for_an_hour() -> None:
    records = [cession("Completed", 0, "Stop", targets=[STOPPED]) for _ in range(STOPS_PER_HOUR)]
    assert read_history(records, NOW + 3500).is_sheltered(GPT)
    assert not read_history(records, NOW + 3700).is_sheltered(GPT)
    assert not read_history(records[1:], NOW + 3500).is_sheltered(GPT)


def test_the_hour_begins_when_the_job_was_stopped() -> None:
    """Which is up to its grace period after the Cession was created."""
    late = STOPPED.model_copy(update={"releasedTime": rfc3339(NOW + 1800)})
    records = [cession("Completed", 0, "Stop", targets=[late]) for _ in range(STOPS_PER_HOUR)]
    assert read_history(records, NOW + 1800 + 3500).is_sheltered(GPT)


def test_a_job_that_was_stopped_is_sheltered_for_ten_minutes() -> None:
    """Also if its stop is in the future: an earlier leader's clock was ahead."""
    records = [cession("Completed", 0, "Stop", targets=[STOPPED])]
    assert read_history(records, NOW + 599).is_sheltered(GPT)
    assert not read_history(records, NOW + 600).is_sheltered(GPT)
    assert read_history(records, NOW - 3600).is_sheltered(GPT)


def test_a_shrink_is_no_stop() -> None:
    shrunk = TargetStatus(uid=GPT, releasedTime=rfc3339(NOW))
    assert not read_history([cession("Completed", targets=[shrunk])] * 9, NOW).is_sheltered(GPT)


def test_a_stop_that_never_happened_is_none() -> None:
    """It was recorded before it was tried; the server refused it, or the preemptor went away."""
    planned = TargetStatus(uid=GPT, stopped=True, stopRequestedTime=rfc3339(NOW))
    records = [cession("Failed", 0, "Stop", targets=[planned])] * STOPS_PER_HOUR
    history = read_history(records, NOW)
    assert not history.is_sheltered(GPT)
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


# --- what follows for its stops -------------------------------------------------------------------
def test_a_plan_without_targets_names_how_many_are_left_to_run() -> None:
    low = admitted("low", "vision", size=4, allowed_sizes=(), priority=10)
    full = admitted(size=4, allowed_sizes=())
    current = snapshot(admitted=[low, full], pending=[pending()])
    history = JobHistory(stopped_lately={low.identity})
    (plan,) = preemption_plans(current, PolicySpec(), history)
    assert plan.why == (
        "claim (vision) stays pending: it lacks 4 nvidia.com/gpu, and the jobs that it may preempt "
        "cannot release that; 1 of them, stopped before, are left to run"
    )


def test_a_job_that_was_stopped_is_stopped_last_of_all_teams() -> None:
    """Whichever team is furthest over its share."""
    quota = cohort_quota(queue("vision", 8), queue("research", 0, 6), queue("speech", 0, 2))
    jobs = [
        admitted("a", size=6, allowed_sizes=()),
        admitted("b", "speech", size=2, allowed_sizes=()),
    ]
    current = snapshot(quota, admitted=jobs, pending=[pending(pods=2, queued_at=NOW - 60)])

    def stopped(history: JobHistory) -> set[str]:
        return set(sizes(preemption_plans(current, PolicySpec(), history)))

    assert stopped(JobHistory()) == {"a"}
    assert stopped(JobHistory(stopped_lately={jobs[0].identity})) == {"b"}
    assert stopped(JobHistory(stopped_lately={job.identity for job in jobs})) == {"a"}
