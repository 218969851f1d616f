"""What remains of a plan when an error ends a part of it."""

import pytest

from cede.api.reasons import SchedulerEvent
from scheduler.cession import opening
from scheduler.plan import plan
from scheduler.preemption.targets import TargetChooser
from tests.builders.plans import POLICY, opened, resizes
from tests.builders.scheduler import NOW, admitted, cession, pending, runtime_status, snapshot


def test_a_claim_that_cannot_be_planned_for_gets_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("per_pod is empty")

    monkeypatch.setattr(TargetChooser, "choose", fail)
    decision = plan(snapshot(admitted=[admitted()], pending=[pending()]), POLICY, NOW)
    (notice,) = decision.notices
    assert (notice.workload, notice.reason) == (("vision", "job-claim"), SchedulerEvent.NOT_PLANNED)
    assert opened(list(decision.actions)) == []


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
