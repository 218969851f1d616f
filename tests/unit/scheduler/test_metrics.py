"""What is counted when Cessions go on, and what is not counted twice."""

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest
from prometheus_client import REGISTRY

from cede.api.alternative import How
from cede.api.cession import ENDED, Cession
from cede.api.objects import rfc3339
from cede.api.reasons import CessionReason
from elastic_runtime.contract import Status
from elastic_runtime.json_codec import MAX_NUMBER
from scheduler.metrics import MAX_STEPS, CessionMetrics
from scheduler.snapshot.observations import Observed
from tests.builders.guards import ADMITTED, KEEPS
from tests.builders.scheduler import (
    FLAVOR,
    GPU,
    NOW,
    admitted,
    cession,
    pending,
    runtime_status,
    snapshot,
)

SAVED_AT = NOW - 100
OBSERVED = Observed(since=SAVED_AT, durable_step=40)
TRAINING = runtime_status(step=50, durable_step=40)
LOSS = {
    "step": 50,
    "durableStep": 40,
    "unsaved": [{"flavor": FLAVOR, "resource": GPU, "seconds": "800.0"}],
}
Value = Callable[[], float]


def value(name: str, **labels: str) -> Value:
    """How much the sample has grown since this call, to a microsecond: other tests add to it."""
    before = REGISTRY.get_sample_value(name, labels) or 0.0
    return lambda: round((REGISTRY.get_sample_value(name, labels) or 0.0) - before, 6)


def target(loss: dict[str, object] | None = None, **times: float | bool) -> dict[str, object]:
    """The status of `gpt` with these times, in seconds from NOW."""
    texts = {
        name: time if isinstance(time, bool) else rfc3339(NOW + time)
        for name, time in times.items()
    }
    return {"uid": "job-uid-gpt", **texts, **(loss or {})}


def note(*cessions: Cession, runtime: Status | None = TRAINING) -> None:
    """The Cession in one pass after the other; `gpt` trains all the time, at step 50."""
    metrics = CessionMetrics()
    for index, record in enumerate(cessions):
        job = replace(admitted(runtime=runtime), observed=OBSERVED)
        metrics.note(snapshot(admitted=[job], cessions=[record]), NOW + index)


ASKED = cession("Asked", targets=[target(askedTime=1)])
CEDED = cession("Asked", targets=[target(askedTime=1, cededTime=3)])
RELEASED = cession("Released", targets=[target(askedTime=1, cededTime=3, releasedTime=4)])
STOPPED = cession("Released", how="Stop", targets=[target(LOSS, releasedTime=4, stopped=True)])
UNKNOWN = cession("Released", how="Stop", targets=[target(releasedTime=4, stopped=True)])
COMPLETED = RELEASED.model_copy(
    update={
        "status": RELEASED.status.model_copy(
            update={
                "phase": "Completed",
                "admittedTime": rfc3339(NOW + 6),
                "readyTime": rfc3339(NOW + 9),
                "secondsToReady": "10.0",
            }
        )
    }
)


def test_a_cession_counts_once_when_it_ends() -> None:
    ended = value("cede_cessions_total", outcome="Completed", reason="ReclaimOwnQuota")
    waited = value("cede_seconds_to_owner_sum")
    note(cession(), RELEASED, COMPLETED, COMPLETED)
    assert (ended(), waited()) == (1, 10)


def test_every_way_to_end_has_its_series_from_the_start() -> None:
    """Prometheus sees no increase in a series that begins at 1."""
    for outcome in ENDED:
        for reason in CessionReason:
            labels = {"outcome": str(outcome), "reason": str(reason)}
            assert REGISTRY.get_sample_value("cede_cessions_total", labels) is not None, labels


def test_what_ended_before_the_first_pass_counts_not() -> None:
    ended = value("cede_cessions_total", outcome="Completed", reason="ReclaimOwnQuota")
    note(COMPLETED, COMPLETED)
    assert ended() == 0


def test_what_ended_while_another_replica_led_counts_not() -> None:
    ended = value("cede_cessions_total", outcome="Completed", reason="ReclaimOwnQuota")
    metrics = CessionMetrics()
    metrics.note(snapshot(cessions=[cession()]), NOW)
    metrics.stand_by()
    metrics.note(snapshot(cessions=[COMPLETED]), NOW + 60)
    assert ended() == 0


@pytest.mark.parametrize(
    ("stage", "seconds"),
    [("asked", 1), ("ceded", 2), ("released", 1), ("admitted", 2), ("ready", 3)],
)
def test_every_stage_has_its_seconds(stage: str, seconds: float) -> None:
    spent = value("cede_cession_stage_seconds_sum", stage=stage)
    note(cession(), ASKED, CEDED, RELEASED, COMPLETED)
    assert spent() == seconds


def test_work_of_a_target_that_ceded_is_kept() -> None:
    """Eight accelerators have worked 100 s since the last save, for ten steps."""
    kept = value("cede_kept_accelerator_seconds_total", resource=GPU)
    steps = value("cede_kept_steps_total")
    lost = value("cede_lost_steps_total")
    note(ASKED, CEDED, RELEASED, COMPLETED)
    assert (kept(), steps(), lost()) == (800, 10, 0)


@pytest.mark.parametrize("ceded", [{}, {"cededTime": 3}])
def test_work_of_a_job_that_is_stopped_is_lost_as_its_cession_records(
    ceded: dict[str, float],
) -> None:
    """Also if it had ceded, and could not save: then nothing is kept."""
    lost = value("cede_lost_accelerator_seconds_total", resource=GPU)
    steps = value("cede_lost_steps_total")
    kept = value("cede_kept_accelerator_seconds_total", resource=GPU)
    times = target(LOSS, releasedTime=4, stopped=True, **ceded)
    note(cession(how="Stop"), cession("Released", how="Stop", targets=[times]), STOPPED)
    assert (lost(), steps(), kept()) == (800, 10, 0)


def test_of_a_job_whose_loss_nobody_knows_only_the_stop_counts() -> None:
    lost = value("cede_lost_accelerator_seconds_total", resource=GPU)
    stops = value("cede_targets_total", queue="research", how="Stop", ceded="false")
    note(cession(how="Stop"), UNKNOWN, runtime=None)
    assert (lost(), stops()) == (0, 1)


def test_a_job_that_reports_any_step_leaves_the_counters_of_steps_exact() -> None:
    lost, kept = value("cede_lost_steps_total"), value("cede_kept_steps_total")
    far = runtime_status(step=MAX_NUMBER)
    note(ASKED, CEDED, RELEASED, COMPLETED, runtime=far)
    loss = {**LOSS, "step": MAX_NUMBER}
    stopped = cession("Released", how="Stop", targets=[target(loss, releasedTime=4, stopped=True)])
    note(cession(how="Stop"), stopped, runtime=far)
    assert (lost(), kept()) == (MAX_STEPS, MAX_STEPS)


def test_targets_are_counted_by_the_team_that_gave() -> None:
    shrunk = value("cede_targets_total", queue="research", how="Shrink", ceded="true")
    stopped = value("cede_targets_total", queue="research", how="Stop", ceded="false")
    others = value("cede_targets_total", queue="vision", how="Shrink", ceded="true")
    note(ASKED, CEDED, RELEASED, COMPLETED)
    note(cession(how="Stop"), STOPPED)
    assert (shrunk(), stopped(), others()) == (1, 1, 0)


def test_every_queue_has_the_series_of_its_targets_before_the_first_one() -> None:
    """Prometheus sees no increase in a series that begins at 1."""
    quota = snapshot().quota
    new = replace(quota, queues={**quota.queues, "speech": quota.queues["vision"]})
    CessionMetrics().note(replace(snapshot(), quota=new), NOW)
    for how in get_args(How):
        for ceded in ("true", "false"):
            labels = {"queue": "speech", "how": how, "ceded": ceded}
            assert REGISTRY.get_sample_value("cede_targets_total", labels) == 0, labels


def test_guards_are_counted_while_they_are_admitted_and_timed_at_their_end() -> None:
    seconds = value("cede_guard_seconds_sum")
    ended = value("cede_guard_seconds_count")
    metrics = CessionMetrics()
    for moment, guards in ((0, ()), (1, (ADMITTED,)), (3, (KEEPS,)), (4, ())):
        metrics.note(replace(snapshot(), guards=guards), NOW + moment)
        assert REGISTRY.get_sample_value("cede_guards") == len(guards)
    assert (seconds(), ended()) == (3, 1)


def test_a_guard_is_timed_only_while_this_replica_leads() -> None:
    seconds = value("cede_guard_seconds_sum")
    metrics = CessionMetrics()
    metrics.note(replace(snapshot(), guards=(KEEPS,)), NOW)
    metrics.note(snapshot(led_since=NOW + 98), NOW + 100)
    assert seconds() == 2


def test_the_depth_of_each_queue_is_known() -> None:
    CessionMetrics().note(snapshot(pending=[pending(), pending("other")]), NOW)
    assert REGISTRY.get_sample_value("cede_pending_workloads", {"queue": "vision"}) == 2
    assert REGISTRY.get_sample_value("cede_pending_workloads", {"queue": "research"}) == 0
