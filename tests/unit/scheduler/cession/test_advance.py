"""One pass for an open Cession: everything that can happen, in every phase in which it can."""

from dataclasses import replace

import pytest

from cede.api.cession import OPEN, Cession
from cede.api.cession_status import CessionStatus
from cede.api.objects import rfc3339
from cede.api.reasons import CessionPhase, SchedulerEvent
from elastic_runtime.contract import State, Status
from scheduler.actions import (
    Action,
    RecordEvent,
    RecordWorkloadEvent,
    RequestSize,
    ResizeJob,
    SetQueueingStrategy,
    SetWorkloadActive,
    UpdateCession,
)
from scheduler.cession import advance as advance_module
from scheduler.cession.cession_lifecycle import FOLLOWED
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.snapshot import Snapshot
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

ASKED = runtime_status(8, wanted=4, cession="c-1", state=State.RESIZING)
CEDED = runtime_status(4, wanted=4, cession="c-1", step=17)


def advance(record: Cession, current: Snapshot, now: float = NOW) -> list[Action]:
    return list(advance_module.advance(record, current, now).actions)


def kinds(actions: list[Action]) -> list[str]:
    return [type(action).__name__ for action in actions]


def recorded(actions: list[Action]) -> CessionStatus:
    return next(action.status for action in actions if isinstance(action, UpdateCession))


def phases(actions: list[Action]) -> set[CessionPhase]:
    """Of the updates."""
    return {action.status.phase for action in actions if isinstance(action, UpdateCession)}


def full(runtime: Status | None = None, *, is_reserved: bool = True) -> Snapshot:
    """The target still has all eight, and the preemptor is pending."""
    return snapshot(
        admitted=[admitted(runtime=runtime)], pending=[pending()], is_reserved=is_reserved
    )


def resizes(record: Cession, current: Snapshot) -> list[ResizeJob]:
    return [action for action in advance(record, current, NOW) if isinstance(action, ResizeJob)]


# --- ask, then resize -----------------------------------------------------------------------------
def test_first_the_queue_is_reserved_and_the_runtime_asked() -> None:
    actions = advance(cession(), full(is_reserved=False), NOW)
    assert kinds(actions)[:2] == ["SetQueueingStrategy", "RequestSize"]
    assert actions[0] == SetQueueingStrategy("vision", "StrictFIFO", "7")
    assert isinstance(actions[1], RequestSize)
    assert (actions[1].size, actions[1].cession) == (4, "c-1")


def test_a_job_is_not_resized_before_it_has_ceded() -> None:
    assert not resizes(cession("Asked"), full(ASKED))


def test_a_job_that_has_ceded_is_resized_at_the_version_observed() -> None:
    """The step after which it ceded is recorded."""
    actions = advance(cession("Asked"), full(CEDED), NOW)
    (resize,) = [action for action in actions if isinstance(action, ResizeJob)]
    assert (resize.size, resize.version, resize.shrinks) == (4, "7", True)
    assert recorded(actions).targets[0].step == 17


def test_an_answer_to_another_cession_does_not_count() -> None:
    older = runtime_status(4, wanted=4, cession="older")
    assert not resizes(cession("Asked"), full(older))


REQUESTED = {"uid": "job-uid-gpt", "requestedTime": rfc3339(NOW - 31)}


@pytest.mark.parametrize(
    "runtime", [pytest.param(None, id="no answer"), pytest.param(ASKED, id="still saving")]
)
def test_after_its_grace_period_a_job_is_resized_by_force(runtime: Status | None) -> None:
    job = replace(admitted(runtime=runtime), observed=Observed(asked_for="c-1"))
    asked = replace(full(), admitted=(job,))
    actions = advance(cession("Asked", targets=[REQUESTED]), asked)
    assert [action for action in actions if isinstance(action, ResizeJob)]
    assert recorded(actions).targets[0].forcedTime == rfc3339(NOW, micro=True)


def test_a_new_leader_gives_the_full_grace_period_again() -> None:
    """Nobody led when it passed: the job may not have been asked."""
    current = replace(full(None), led_since=NOW - 1)
    actions = advance(cession("Asked", targets=[REQUESTED]), current, NOW)
    (request,) = [action for action in actions if isinstance(action, RequestSize)]
    assert request.deadline_s == pytest.approx(29)
    assert "ResizeJob" not in kinds(actions)


def test_a_long_grace_period_of_one_target_is_not_anothers() -> None:
    record = cession("Asked")
    slow = {"job": "bert", "uid": "job-uid-bert", "graceSeconds": 600}
    record.spec.targets.append(record.spec.targets[0].model_copy(update=slow))
    quota = cohort_quota(queue("vision", 8), queue("research", 12, used=20))
    current = snapshot(quota, admitted=[admitted(), admitted("bert")], pending=[pending(pods=8)])
    requests = [action for action in advance(record, current) if isinstance(action, RequestSize)]
    assert {request.job[1]: request.deadline_s for request in requests} == {"gpt": 30, "bert": 600}


def test_all_targets_are_resized_together() -> None:
    """What the first released would lie idle until the last is ready."""
    record = cession("Asked")
    other = record.spec.targets[0].model_copy(update={"job": "bert", "uid": "job-uid-bert"})
    record.spec.targets.append(other)
    bert = admitted("bert", runtime=ASKED)
    quota = cohort_quota(queue("vision", strategy="StrictFIFO"), queue("research", 8, used=16))
    waiting = snapshot(quota, admitted=[admitted(runtime=CEDED), bert], pending=[pending()])
    assert not resizes(record, waiting)
    both = snapshot(
        quota,
        admitted=[admitted(runtime=CEDED), admitted("bert", runtime=CEDED)],
        pending=[pending()],
    )
    assert [resize.job[1] for resize in resizes(record, both)] == ["gpt", "bert"]


def test_a_burst_waits_until_its_stops_are_recorded() -> None:
    """Then resizes and stops happen in one pass."""
    record = cession("Asked")
    stop = {"job": "rigid", "uid": "job-uid-rigid", "toSize": 0, "how": "Stop"}
    record.spec.targets.append(record.spec.targets[0].model_copy(update=stop))
    rigid = admitted("rigid", allowed_sizes=(), addresses=())
    strict = queue("vision", nominal=12, strategy="StrictFIFO")
    quota = cohort_quota(strict, queue("research", used=16))
    current = snapshot(quota, admitted=[admitted(runtime=CEDED), rigid], pending=[pending(pods=12)])
    first = advance(record, current)
    assert not {"ResizeJob", "SetWorkloadActive"} & set(kinds(first))
    record.status = recorded(first)
    assert {"ResizeJob", "SetWorkloadActive"} <= set(kinds(advance(record, current)))


def test_a_job_that_is_not_elastic_is_stopped_after_that_is_recorded() -> None:
    rigid = snapshot(
        admitted=[admitted(allowed_sizes=(), addresses=())], pending=[pending()], is_reserved=True
    )
    first = advance(cession(to_size=0, how="Stop"), rigid, NOW)
    assert recorded(first).targets[0].stopped
    assert not [action for action in first if isinstance(action, SetWorkloadActive)]
    noted = cession(to_size=0, how="Stop", targets=[{"uid": "job-uid-gpt", "stopped": True}])
    (stop,) = [a for a in advance(noted, rigid, NOW) if isinstance(a, SetWorkloadActive)]
    assert not stop.active


@pytest.mark.parametrize("phase", ["Pending", "Asked"])
@pytest.mark.parametrize("is_observed", [False, True])
def test_a_cession_whose_capacity_cannot_be_reserved_fails_in_time(
    phase: str, is_observed: bool
) -> None:
    """Its ClusterQueue never becomes StrictFIFO, or Kueue never reads it."""
    strategy = "BestEffortFIFO" if is_observed else "StrictFIFO"
    vision = replace(queue("vision", strategy=strategy), is_observed=is_observed)
    quota = cohort_quota(vision, queue("research", used=8))
    current = replace(full(CEDED), quota=quota)

    def after(seconds: float, led_since: float = 0.0) -> set[CessionPhase]:
        target = REQUESTED | {"cededTime": rfc3339(NOW - seconds)}
        record = cession(phase, targets=[target], reservedTime="")
        actions = advance(record, replace(current, led_since=led_since))
        assert "ResizeJob" not in kinds(actions)
        return phases(actions)

    assert after(29) <= {CessionPhase.PENDING, CessionPhase.ASKED}
    assert after(600, led_since=NOW - 1) <= {CessionPhase.PENDING, CessionPhase.ASKED}
    assert after(31) == {CessionPhase.FAILED}


def test_a_reservation_is_not_missed_before_the_last_target_is_ready() -> None:
    """The grace of a target may be longer than the time in which the queue must be reserved."""
    record = cession("Asked", grace_s=600, targets=[REQUESTED], reservedTime="")
    assert phases(advance(record, full(ASKED, is_reserved=False))) <= {CessionPhase.ASKED}


# --- released -------------------------------------------------------------------------------------
def shrunk(*, claim_fits: bool = True) -> Snapshot:
    """The target has the new size. If the claim does not fit, something else took the capacity."""
    thief = [] if claim_fits else [admitted("thief", "vision", size=4, reserved_since=NOW - 30)]
    return snapshot(admitted=[admitted(size=4), *thief], pending=[pending()])


def released(seconds_ago: float) -> Cession:
    time = rfc3339(NOW - seconds_ago)
    target = {"uid": "job-uid-gpt", "releasedTime": time}
    return cession("Released", targets=[target], releasedTime=time)


def test_when_all_targets_are_resized_the_cession_is_released() -> None:
    actions = advance(cession("Asked"), shrunk(), NOW)
    assert (recorded(actions).phase, "RequestSize" in kinds(actions)) == ("Released", False)


def test_a_released_target_gets_an_event_that_explains_it() -> None:
    actions = advance(cession("Asked"), shrunk(), NOW)
    (event,) = [action for action in actions if isinstance(action, RecordEvent)]
    assert event.reason is SchedulerEvent.CEDED
    assert (event.job, event.note) == (
        ("research", "gpt"),
        "shrank to 4 for claim of vision: because",
    )


def test_a_released_cession_fails_if_the_preemptor_does_not_fit_in_time() -> None:
    """Then the scheduler plans again."""
    actions = advance(released(seconds_ago=60), shrunk(claim_fits=False), NOW)
    assert recorded(actions).phase == "Failed"


def test_a_released_cession_waits_a_bounded_time_for_kueue_if_the_preemptor_fits() -> None:
    assert phases(advance(released(50), shrunk())) <= {CessionPhase.RELEASED}
    over = advance(released(61), shrunk())
    assert recorded(over).phase == "Failed"
    assert "Kueue has not admitted it" in recorded(over).message


def test_time_without_a_leader_does_not_fail_a_released_cession() -> None:
    current = replace(shrunk(claim_fits=False), led_since=NOW - 1)
    assert phases(advance(released(600), current)) <= {CessionPhase.RELEASED}


def test_a_failed_cession_names_the_jobs_that_took_the_capacity() -> None:
    actions = advance(released(60), shrunk(claim_fits=False))
    (event,) = [action for action in actions if isinstance(action, RecordWorkloadEvent)]
    assert event.workload == ("vision", "job-claim")
    assert event.reason is SchedulerEvent.CESSION_FAILED
    assert "thief (vision)" in event.note


def test_a_stopped_job_is_given_time_to_end_before_its_capacity_is_missed() -> None:
    """Its pods may save until the end of their grace period."""
    time = rfc3339(NOW - 20)
    target = {"uid": "job-uid-gpt", "stopped": True, "stopRequestedTime": time}
    target |= {"releasedTime": time, "endingPods": 8}
    record = cession("Released", 0, "Stop", targets=[target], releasedTime=time)
    current = snapshot(admitted=[admitted(active=False)], pending=[pending()], is_reserved=True)
    assert not [a for a in advance(record, current) if isinstance(a, UpdateCession)]
    assert recorded(advance(record, current, NOW + 41)).phase == "Failed"


# --- the preemptor --------------------------------------------------------------------------------
def test_a_cession_completes_once_the_preemptors_pods_are_ready() -> None:
    starting = snapshot(admitted=[admitted(size=4), admitted("claim", "vision", 4, ready_pods=1)])
    assert recorded(advance(cession("Released"), starting, NOW)).phase == "Admitted"
    ready = snapshot(admitted=[admitted(size=4), admitted("claim", "vision", 4, ready_pods=4)])
    done = recorded(advance(cession("Released"), ready, NOW + 1))
    assert (done.phase, done.secondsToReady) == ("Completed", "2.0")


@pytest.mark.parametrize("phase", FOLLOWED)
def test_a_deleted_preemptor_cancels_the_cession_in_every_phase(phase: str) -> None:
    actions = advance(cession(phase), snapshot(admitted=[admitted()]), NOW)
    assert recorded(actions).phase == "Cancelled"
    assert not [action for action in actions if isinstance(action, ResizeJob | RequestSize)]


@pytest.mark.parametrize("phase", OPEN)
def test_a_deactivated_preemptor_cancels_an_open_cession(phase: str) -> None:
    current = snapshot(admitted=[admitted()], pending=[pending(active=False)])
    assert recorded(advance(cession(phase), current, NOW)).phase == "Cancelled"


def test_an_admitted_preemptor_that_is_pending_again_fails_the_cession() -> None:
    assert recorded(advance(cession("Admitted"), shrunk(), NOW)).phase == "Failed"


# --- again ----------------------------------------------------------------------------------------
def test_a_second_pass_over_the_same_cluster_does_nothing() -> None:
    quota = cohort_quota(queue("vision", strategy="StrictFIFO"), queue("research", used=8))
    current = snapshot(quota, admitted=[admitted(runtime=ASKED)], pending=[pending()])
    again = cession()
    again.status = recorded(advance(cession(), current, NOW))
    assert kinds(advance(again, current, NOW)) == []
