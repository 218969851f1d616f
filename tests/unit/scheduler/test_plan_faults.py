"""What remains of a plan when an error ends a part of it, or jobs refuse requests."""

from dataclasses import replace
from typing import Literal

import pytest

from cede.api.reasons import SchedulerEvent
from scheduler import plan as plan_module
from scheduler.actions import RecordEvent, RecordWorkloadEvent
from scheduler.cession import opening
from scheduler.plan import REFUSED_S, plan
from scheduler.preemption.preemption_plan import PreemptionPlan
from scheduler.preemption.preemptors import Preemptor
from scheduler.preemption.targets import TargetChooser
from scheduler.snapshot.observations import note_refusal
from tests.builders.plans import POLICY, opened, resizes
from tests.builders.scheduler import (
    NOW,
    admitted,
    cession,
    cohort_quota,
    pending,
    queue,
    runtime_status,
    snapshot,
)


def test_a_claim_that_cannot_be_planned_for_gets_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("per_pod is empty")

    monkeypatch.setattr(TargetChooser, "choose", fail)
    decision = plan(snapshot(admitted=[admitted()], pending=[pending()]), POLICY, NOW)
    (notice,) = decision.notices
    assert isinstance(notice, RecordWorkloadEvent)
    assert (notice.workload, notice.reason) == (("vision", "job-claim"), SchedulerEvent.NOT_PLANNED)
    assert opened(list(decision.actions)) == []


def test_a_claim_that_cannot_be_planned_for_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choose = TargetChooser.choose

    def fail_for_the_first(chooser: TargetChooser, preemptor: Preemptor) -> PreemptionPlan:
        if preemptor.workload.name == "poisoned":
            raise ZeroDivisionError("per_pod is empty")
        return choose(chooser, preemptor)

    monkeypatch.setattr(TargetChooser, "choose", fail_for_the_first)
    claims = [pending("poisoned", "vision"), pending("claim", "audit")]
    quota = cohort_quota(queue("vision", 4), queue("audit", 4), queue("research", 0, used=8))
    decision = plan(snapshot(quota, admitted=[admitted()], pending=claims), POLICY, NOW)
    assert [c.spec.preemptor.name for c in opened(list(decision.actions))] == ["claim"]
    assert [getattr(n, "workload", None) for n in decision.notices] == [("vision", "job-poisoned")]


def test_an_error_about_all_claims_leaves_open_cessions_working(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(opening, "after_cessions", fail)
    ceded = admitted(runtime=runtime_status(4, wanted=4, cession="c-1"))
    current = snapshot(admitted=[ceded], pending=[pending()], cessions=[cession("Asked")])
    decision = plan(current, POLICY, NOW)
    assert [action.size for action in resizes(list(decision.actions))] == [4]
    assert "the preemptors" in [fault.subject for fault in decision.faults]


@pytest.mark.parametrize(
    ("broken", "subject"), [("grow", "growth"), ("grow_servers", "growth of servers")]
)
def test_a_fault_says_whether_jobs_or_servers_do_not_grow(
    monkeypatch: pytest.MonkeyPatch, broken: str, subject: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(plan_module, broken, fail)
    faults = plan(snapshot(admitted=[admitted()]), POLICY, NOW).faults
    assert [fault.subject for fault in faults] == [subject]


@pytest.mark.parametrize(
    ("mode", "broken", "subject"),
    [
        ("Enforce", "without_bases", "bases of surpluses"),
        ("Observe", "without_bases", "bases of surpluses"),
        ("Enforce", "without_held", "growth of surpluses"),
    ],
)
def test_an_error_about_surpluses_ends_no_pass(
    monkeypatch: pytest.MonkeyPatch,
    mode: Literal["Enforce", "Observe"],
    broken: str,
    subject: str,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(plan_module, broken, fail)
    current = snapshot(admitted=[admitted()], pending=[pending()])
    made = plan(current, POLICY.model_copy(update={"mode": mode}), NOW)
    assert [fault.subject for fault in made.faults] == [subject]
    assert made.why, "the preemptor is examined all the same"


@pytest.mark.parametrize("mode", ["Enforce", "Observe"])
def test_a_job_whose_pods_refuse_requests_shows_why(mode: Literal["Enforce", "Observe"]) -> None:
    """Otherwise a clock that is wrong by two minutes shows as silence only."""
    refusing = note_refusal(None, "+120 s off this pod's clock", NOW - REFUSED_S)
    current = snapshot(admitted=[replace(admitted(), observed=refusing)])
    policy = POLICY.model_copy(update={"mode": mode})
    [notice] = plan(current, policy, NOW).notices
    assert isinstance(notice, RecordEvent)
    assert notice.reason == SchedulerEvent.REQUESTS_REFUSED
    assert "+120 s off" in notice.note
    assert plan(current, policy, NOW - 1).notices == (), "a pod that has just started"
