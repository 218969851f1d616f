"""Names of attempts, and the pause after a Cession that failed."""

from dataclasses import replace

import pytest

from cede.api.cession import Cession
from cede.api.objects import Meta, rfc3339
from scheduler.actions import UpdateCession
from scheduler.cession.attempts import next_attempt, pause_left_s, paused_growth
from tests.builders.plans import opened, planned
from tests.builders.scheduler import NOW, admitted, cession, pending, snapshot


def record(name: str, phase: str = "Failed", ended: float = NOW, ineligible: str = "") -> Cession:
    made = cession(phase, completionTime=rfc3339(ended), ineligibleTime=ineligible)
    return made.model_copy(update={"metadata": Meta(name=name)})


@pytest.mark.parametrize(
    ("records", "number"),
    [
        pytest.param([], 1, id="the first"),
        pytest.param(["claim-1", "claim-2"], 3, id="the next"),
        pytest.param(["claim-3", "claim-12"], 13, id="older records were deleted"),
        pytest.param(["odd-name"], 1, id="a name without a number"),
    ],
)
def test_an_attempt_has_a_number_that_no_record_has(records: list[str], number: int) -> None:
    current = snapshot(cessions=[record(name) for name in records])
    assert next_attempt(current, "uid-claim") == number
    assert next_attempt(current, "uid-another") == 1


@pytest.mark.parametrize(
    ("failures", "pause_s"), [(1, 30), (2, 60), (3, 120), (5, 480), (6, 600), (50, 600)]
)
def test_the_pause_doubles_with_each_failure(failures: int, pause_s: float) -> None:
    current = snapshot(cessions=[record(f"c-{i}") for i in range(failures)])
    assert pause_left_s(current, "uid-claim", NOW) == pause_s
    assert pause_left_s(current, "uid-claim", NOW + pause_s - 1) == 1
    assert pause_left_s(current, "uid-claim", NOW + pause_s) == 0


def test_only_failures_since_the_last_success_count() -> None:
    records = [record("c-1"), record("c-2", "Completed"), record("c-3", "Cancelled")]
    assert pause_left_s(snapshot(cessions=records), "uid-claim", NOW) == 0


def test_a_preemptor_that_was_not_eligible_pauses_too() -> None:
    cancelled = record("c-1", "Cancelled", ineligible=rfc3339(NOW))
    assert pause_left_s(snapshot(cessions=[cancelled]), "uid-claim", NOW) == 30


def test_each_growth_of_a_job_pauses_after_the_one_that_failed() -> None:
    """Each has a Workload of its own. That of the last one may become the job's, and wait itself
    once the job is stopped: it has done nothing wrong, and needs another name for its Cession."""
    growth = record("gpt-2")
    preemptor = growth.spec.preemptor.model_copy(update={"growingJob": "job-uid-gpt"})
    spec = growth.spec.model_copy(update={"preemptor": preemptor})
    current = snapshot(cessions=[record("c-1"), growth.model_copy(update={"spec": spec})])
    assert pause_left_s(current, "job-uid-gpt", NOW) == 30
    assert pause_left_s(current, "uid-claim", NOW) == 30
    assert paused_growth(current, NOW + 29) == {"job-uid-gpt"}
    assert paused_growth(current, NOW + 30) == set()
    assert next_attempt(current, "uid-claim") == 3


def test_a_clock_that_was_set_back_does_not_prolong_the_pause() -> None:
    ahead = record("c-1", ended=NOW + 3600)
    current = snapshot(cessions=[ahead], led_since=NOW - 10)
    assert pause_left_s(current, "uid-claim", NOW) == 20


def test_a_preemptor_that_was_evicted_pauses_from_this_pass_on() -> None:
    """Its Cession fails in this pass, so the record of the pause is written after the plan."""
    record = cession("Admitted", admittedTime=rfc3339(NOW - 5))
    current = snapshot(admitted=[admitted(size=8)], pending=[pending()], cessions=[record])
    actions = planned(current)
    [update] = [action for action in actions if isinstance(action, UpdateCession)]
    assert update.status.phase == "Failed"
    assert opened(actions) == []
    without = planned(replace(current, cessions=()))
    assert opened(without), "without the record it would open one"
