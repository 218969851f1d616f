"""The plan as a whole: several Cessions at once, no thrashing, and both modes."""

from dataclasses import replace

import pytest

from cede.api.cession import Cession
from cede.api.cession_status import TargetStatus
from cede.api.objects import Meta, rfc3339
from cede.api.reasons import SchedulerEvent
from elastic_runtime.contract import Status
from scheduler import plan as plan_module
from scheduler.actions import (
    AmendCession,
    DeleteCession,
    RecordEvent,
    RecordWorkloadEvent,
    RequestSize,
    ResizeJob,
    SetQueueingStrategy,
    SetWorkloadActive,
    UpdateCession,
)
from scheduler.cession.advance import Step, advance
from scheduler.plan import plan
from tests.builders.plans import POLICY, opened, planned, robbed_after
from tests.builders.scheduler import (
    GPU,
    KEY,
    NOW,
    admitted,
    cession,
    cohort_quota,
    pending,
    queue,
    runtime_status,
    snapshot,
)


# --- a new Cession --------------------------------------------------------------------------------
def test_nobody_stops_for_what_an_eviction_frees() -> None:
    evicted = admitted("old", size=4, allowed_sizes=(), is_evicting=True)
    other = admitted("other", size=4, allowed_sizes=())
    assert not opened(planned(snapshot(admitted=[evicted, other], pending=[pending()])))


def test_nobody_is_asked_while_kueue_counts_less_than_its_workloads_have() -> None:
    """What the claim lacks may be free already."""
    claim = snapshot(admitted=[admitted()], pending=[pending()], disagreement=frozenset({KEY}))
    assert not opened(planned(claim))
    assert "differs from Kueue's own count" in plan(claim, POLICY, NOW).why[0]


def test_a_disagreement_about_another_flavor_delays_nobody() -> None:
    other = frozenset({("h100", GPU)})
    claim = snapshot(admitted=[admitted()], pending=[pending()], disagreement=other)
    assert opened(planned(claim))


def test_a_job_that_is_evicted_is_asked_for_nothing() -> None:
    evicted = admitted("old", size=2, allowed_sizes=(), is_evicting=True)
    other = admitted("other", size=6, allowed_sizes=())
    (made,) = opened(planned(snapshot(admitted=[evicted, other], pending=[pending()])))
    assert [target.job for target in made.spec.targets] == ["other"]


def test_a_preemptor_opens_a_cession() -> None:
    """It is named after the preemptor and the attempt."""
    (made,) = opened(planned(snapshot(admitted=[admitted()], pending=[pending()])))
    assert made.metadata.name == "claim-uid-clai-1"
    assert [(t.job, t.fromSize, t.toSize, t.how) for t in made.spec.targets] == [
        ("gpt", 8, 4, "Shrink")
    ]


def test_another_attempt_opens_a_cession_of_another_name() -> None:
    failed = cession("Failed")
    current = snapshot(admitted=[admitted()], pending=[pending()], cessions=[failed])
    (made,) = opened(planned(current))
    assert made.metadata.name == "claim-uid-clai-2"


def test_mode_observe_explains_what_it_would_do_and_does_nothing() -> None:
    observe = POLICY.model_copy(update={"mode": "Observe"})
    decision = plan(snapshot(admitted=[admitted()], pending=[pending()]), observe, NOW)
    assert not decision.actions
    assert "nothing is done" in decision.why[0]


def test_a_cession_that_cannot_be_advanced_is_closed_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its stopped job may run again. The reason is in its message and in the plan."""
    stopped = {"uid": "job-uid-gpt", "stopped": True, "releasedTime": rfc3339(NOW)}
    broken = cession("Released", 0, "Stop", targets=[stopped])
    good = cession("Asked").model_copy(update={"metadata": Meta(name="c-2")})

    def advance_or_raise(record: Cession, *arguments: object) -> Step:
        if record is broken:
            raise KeyError("no such flavor")
        return advance(record, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(plan_module, "advance", advance_or_raise)
    inactive = pending("gpt", "research", active=False, stopped_for="c-0")
    current = snapshot(pending=[pending(), inactive], cessions=[broken, good])
    decision = plan(current, POLICY, NOW)
    phases = {a.name: a.status for a in decision.actions if isinstance(a, UpdateCession)}
    assert phases["c-1"].phase == "Failed"
    assert "no such flavor" in phases["c-1"].message
    assert phases["c-2"].phase == "Released"
    assert [a.active for a in decision.actions if isinstance(a, SetWorkloadActive)] == [True]
    assert [fault.subject for fault in decision.faults] == ["Cession c-1"]


def test_an_error_in_growth_leaves_the_rest_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no nodes")

    monkeypatch.setattr(plan_module, "grow", refuse)
    decision = plan(snapshot(admitted=[admitted()], pending=[pending()]), POLICY, NOW)
    assert opened(list(decision.actions))
    assert [fault.subject for fault in decision.faults] == ["growth"]


# --- mode Observe ---------------------------------------------------------------------------------
OBSERVE = POLICY.model_copy(update={"mode": "Observe"})


@pytest.mark.parametrize("phase", ["Pending", "Asked", "Released", "Admitted"])
def test_in_mode_observe_every_cession_ends_and_gives_back(phase: str) -> None:
    """The runtime that it asked is asked for the size of its Job again."""
    job = admitted(runtime=runtime_status(4, wanted=4, cession="c-1"))
    quota = cohort_quota(queue("vision", strategy="StrictFIFO"), queue("research", used=8))
    current = snapshot(quota, admitted=[job], pending=[pending()], cessions=[cession(phase)])
    actions = plan(current, OBSERVE, NOW).actions
    (update,) = [action for action in actions if isinstance(action, UpdateCession)]
    assert update.status.phase == "Cancelled"
    assert SetQueueingStrategy("vision", "BestEffortFIFO", "7") in actions
    assert [action.size for action in actions if isinstance(action, RequestSize)] == [8]


def test_in_mode_observe_no_job_is_resized_or_asked() -> None:
    """Not when more is used than exists, not when it could grow."""
    over = cohort_quota(queue("vision", 0), queue("research", nominal=2, used=6))
    idle = admitted("idle", size=2, runtime=runtime_status(2, wanted=4))
    for quota in (over, None):
        current = snapshot(quota, admitted=[admitted(size=4), idle])
        assert plan(current, POLICY, NOW).actions
        assert plan(current, OBSERVE, NOW).actions == ()


def test_mode_observe_reports_what_it_would_do() -> None:
    decision = plan(snapshot(admitted=[admitted()], pending=[pending()]), OBSERVE, NOW)
    (notice,) = decision.notices
    assert isinstance(notice, RecordWorkloadEvent)
    assert (notice.workload, notice.reason) == (("vision", "job-claim"), SchedulerEvent.OBSERVED)
    assert notice.note == decision.why[0]


# --- several at once ------------------------------------------------------------------------------
def test_an_open_cession_does_not_delay_another_team() -> None:
    quota = cohort_quota(
        queue("vision"), queue("speech", used=0), queue("research", used=8), queue("other", used=8)
    )
    current = snapshot(
        quota,
        admitted=[admitted(), admitted("bert", "other", allowed_sizes=tuple(range(1, 9)))],
        pending=[pending(), pending("asr", "speech")],
        cessions=[cession("Asked")],
    )
    (second,) = opened(planned(current))
    assert second.spec.preemptor.queue == "speech"
    # gpt is the target of the first
    assert [target.job for target in second.spec.targets] == ["bert"]


def test_what_one_cession_releases_is_not_available_to_another() -> None:
    quota = cohort_quota(queue("vision"), queue("speech"), queue("research", used=12))
    current = snapshot(
        quota,
        admitted=[admitted(size=12, allowed_sizes=(2, 8, 12))],
        pending=[pending(), pending("asr", "speech")],
        cessions=[cession("Asked")],
    )
    assert opened(planned(current)) == []


def test_a_stopped_job_does_not_preempt_while_its_preemptor_exists() -> None:
    stopped = TargetStatus(uid="job-uid-gpt", stopped=True, releasedTime=rfc3339(NOW))
    record = cession("Completed", to_size=0, how="Stop", targets=[stopped])
    returning = pending("gpt", "research", job_uid="job-uid-gpt", pods=4, priority=90)
    owner = admitted("claim", "vision", size=4, allowed_sizes=())
    current = snapshot(
        admitted=[owner, admitted("low", "research", size=4, priority=10)],
        pending=[returning],
        cessions=[record],
    )
    assert opened(planned(current)) == []
    assert opened(planned(replace(current, cessions=()))), "without the record it would"


def test_while_the_pods_of_a_preemptor_start_its_team_may_claim_again() -> None:
    """They may never be ready, as when their image cannot be pulled."""
    owner = admitted("claim", "vision", size=2, allowed_sizes=(), ready_pods=0)
    borrower = admitted(size=6)
    urgent = pending("urgent", pods=2, priority=90)
    record = cession("Admitted")
    current = snapshot(admitted=[owner, borrower], pending=[urgent], cessions=[record])
    (made,) = opened(planned(current))
    assert [(target.job, target.toSize) for target in made.spec.targets] == [("gpt", 4)]


@pytest.mark.parametrize(
    "runtime", [None, runtime_status(12, wanted=12)], ids=["silent", "answers"]
)
def test_overuse_asks_nothing_of_a_job_that_gives_for_a_new_cession(
    runtime: Status | None,
) -> None:
    """One job is not asked for two sizes in one pass, nor resized beside its Cession."""
    job = admitted(size=12, allowed_sizes=tuple(range(2, 13)), runtime=runtime)
    quota = cohort_quota(queue("vision"), queue("research", used=12))
    actions = planned(snapshot(quota, admitted=[job], pending=[pending()]))
    assert opened(actions)
    assert not [action for action in actions if isinstance(action, RequestSize | ResizeJob)]
    assert planned(snapshot(quota, admitted=[job])), "without the claim it would be asked"


def test_a_hopeless_job_that_comes_before_a_released_preemptor_is_set_aside() -> None:
    """It would have to borrow, so Kueue keeps nothing for it, and it is the head."""
    late = pending("late", pods=6, priority=90)
    current = snapshot(
        admitted=[admitted(size=4)],
        pending=[late, pending()],
        cessions=[cession("Released", releasedTime=rfc3339(NOW))],
    )
    stops = [action for action in planned(current) if isinstance(action, SetWorkloadActive)]
    assert [(stop.uid, stop.active, stop.cession) for stop in stops] == [("uid-late", False, "c-1")]


def test_a_cession_ends_though_its_amendments_are_refused() -> None:
    """The server refuses each of them, and accepts the status."""
    robbed = robbed_after(0)
    (record,) = robbed.cessions
    tried_at = list[int]()
    for second in range(60):
        actions = planned(replace(robbed, cessions=(record,)), NOW + second)
        updates = [action.status for action in actions if isinstance(action, UpdateCession)]
        record = record.model_copy(update={"status": updates[-1]}) if updates else record
        if any(isinstance(action, AmendCession) for action in actions):
            tried_at.append(second)
        if record.ended:
            break
    assert record.status.phase == "Failed"
    assert tried_at == list(range(11, 32)), "from 10 s after the release, for 20 s"


def test_a_job_that_waits_before_the_preemptor_is_set_aside_and_told() -> None:
    first = pending("first", pods=6, priority=90, job_uid="u")
    current = snapshot(
        admitted=[admitted(runtime=runtime_status())],
        pending=[first, pending()],
        cessions=[cession("Asked")],
    )
    actions = planned(current)
    (aside,) = [action for action in actions if isinstance(action, SetWorkloadActive)]
    (event,) = [action for action in actions if isinstance(action, RecordEvent)]
    assert (aside.uid, aside.active) == (first.uid, False)
    assert (event.job, event.reason) == (("vision", "first"), SchedulerEvent.SET_ASIDE)
    assert actions.index(event) > actions.index(aside)


# --- what must hold whatever happened before ------------------------------------------------------
@pytest.mark.parametrize("phase", ["Completed", "Cancelled", "Failed"])
def test_a_strict_queue_without_an_open_cession_is_restored(phase: str) -> None:
    quota = cohort_quota(queue("vision", strategy="StrictFIFO"), queue("research"))
    assert planned(snapshot(quota, cessions=[cession(phase)])) == [
        SetQueueingStrategy("vision", "BestEffortFIFO", "7")
    ]


def test_a_runtime_is_asked_for_the_size_of_its_job() -> None:
    """But not while it is the target of an open Cession."""
    job = admitted(runtime=runtime_status(4, wanted=4, cession="c-1"))
    requests = [a for a in planned(snapshot(admitted=[job])) if isinstance(a, RequestSize)]
    assert [request.size for request in requests] == [8]
    target = snapshot(admitted=[job], pending=[pending()], cessions=[cession("Asked")])
    assert not [action for action in planned(target) if isinstance(action, RequestSize)]


def test_a_cession_is_deleted_thirty_days_after_its_creation() -> None:
    old = cession("Completed").model_copy(
        update={"metadata": Meta(name="c-0", uid="u", creationTimestamp="1970-01-01T00:00:00Z")}
    )
    actions = planned(snapshot(cessions=[old]), now=31 * 86400.0)
    assert actions == [DeleteCession("c-0", "u")]
