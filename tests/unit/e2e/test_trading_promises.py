"""What the chaos test takes for a broken promise, and what it does not."""

from dataclasses import replace
from typing import Any

import pytest

from cede.api.objects import Json, rfc3339
from cede.api.reasons import CessionPhase
from scheduler.cession.cession_lifecycle import Occurrence
from tests.e2e.trading_picture import (
    Picture,
    admitted_when_set_aside,
    evictions,
    inactive,
    open_cessions,
    running,
)
from tests.e2e.trading_promises import (
    ACCELERATORS,
    OPEN_S,
    OVER_QUOTA,
    OWED,
    RECOVERY_S,
    STRICT_FOR_NOBODY,
    BrokenPromiseError,
    Limit,
    Watch,
)

STARTING = (
    f"{Occurrence.PREEMPTOR_ADMITTED.sentence} 1 of its 2 pods is ready. Of the others: 1 in "
    "ImagePullBackOff."
)
START = 1_800_000_000.0
GRACE_S = 30.0
DEADLINE_S = GRACE_S + 60 + 30


def cession(phase: CessionPhase, message: str = "", *, ended: bool = False) -> Json:
    """Of a preemptor in vision, opened at START, which has stopped a job of research."""
    conditions = [{"type": "Ready", "status": "False", "message": message or phase.sentence}]
    status: Json = {"phase": str(phase), "conditions": conditions}
    status["targets"] = [{"uid": "t", "stopped": True}]
    if ended:
        status["completionTime"] = rfc3339(START + 20)
    return {
        "metadata": {"name": "claim-1", "creationTimestamp": rfc3339(START)},
        "spec": {
            "preemptor": {"uid": "claim", "queue": "vision"},
            "targets": [{"uid": "t", "job": "sweep", "graceSeconds": GRACE_S}],
        },
        "status": status,
    }


def queue(name: str, used: int = 0, strategy: str = "BestEffortFIFO") -> Json:
    gpu = "nvidia.com/gpu"
    resources = [{"name": gpu, "nominalQuota": "4"}]
    return {
        "metadata": {"name": name},
        "spec": {
            "queueingStrategy": strategy,
            "resourceGroups": [{"flavors": [{"resources": resources}]}],
        },
        "status": {"flavorsReservation": [{"resources": [{"name": gpu, "total": str(used)}]}]},
    }


def workload(name: str, accelerators: int, *true_conditions: str, **spec: Any) -> Json:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": rfc3339(START)}
        for kind in true_conditions
    ]
    resources = {"nvidia.com/gpu": str(accelerators)}
    return {
        "metadata": {
            "name": name,
            "namespace": "vision",
            "uid": name,
            "creationTimestamp": rfc3339(START),
        },
        "spec": spec,
        "status": {"conditions": conditions, "resourceRequests": [{"resources": resources}]},
    }


def watched(picture: Picture, seconds: float, watch: Watch | None = None) -> None:
    """Shown at START and so long afterwards."""
    watch = watch or Watch()
    watch.check(replace(picture, now=START))
    watch.check(replace(picture, now=START + seconds))


WAITS = Picture(0, queues=(queue("vision", 2),), workloads=(workload("claim", 2),))
STRICT = Picture(0, queues=(queue("vision", strategy="StrictFIFO"),))
OVER = Picture(0, queues=(queue("vision", ACCELERATORS), queue("research", 1)))
OPEN = Picture(0, cessions=(cession(CessionPhase.ASKED),))
BROKEN = [
    pytest.param(WAITS, OWED, id="a claim within its team's own quota waits"),
    pytest.param(STRICT, STRICT_FOR_NOBODY, id="a queue is strict for nobody"),
    pytest.param(OVER, OVER_QUOTA, id="more is in use than there is"),
    pytest.param(OPEN, Limit(DEADLINE_S, DEADLINE_S - 30 + OPEN_S), id="a Cession stays open"),
]


# --- all the while --------------------------------------------------------------------------------
@pytest.mark.parametrize(("picture", "limit"), BROKEN)
def test_what_lasts_too_long_undisturbed_is_broken(picture: Picture, limit: Limit) -> None:
    watched(picture, limit.undisturbed)
    with pytest.raises(BrokenPromiseError):
        watched(picture, limit.undisturbed + 1)


@pytest.mark.parametrize(("picture", "limit"), BROKEN)
def test_a_fault_and_its_recovery_give_more_time(picture: Picture, limit: Limit) -> None:
    watch = Watch()
    watch.disturbances.add("controller killed", START + 5, START + 15)
    most_s = min(limit.undisturbed + 10 + RECOVERY_S, limit.in_all)
    watched(picture, most_s, watch)
    with pytest.raises(BrokenPromiseError):
        watched(picture, most_s + 1, watch)


@pytest.mark.parametrize(("picture", "limit"), BROKEN)
def test_faults_without_an_end_give_no_time_without_an_end(picture: Picture, limit: Limit) -> None:
    watch = Watch()
    for second in range(0, int(limit.in_all) + 10, 10):
        watch.disturbances.add("node cut off", START + second, START + second + 9)
    watched(picture, limit.in_all, watch)
    with pytest.raises(BrokenPromiseError):
        watched(picture, limit.in_all + 1, watch)


def test_a_fault_of_a_target_gives_a_cession_no_more_time() -> None:
    watch = Watch()
    watch.disturbances.add("agent frozen", START, START + 100)
    with pytest.raises(BrokenPromiseError):
        watched(OPEN, DEADLINE_S + 1, watch)


def test_what_has_ended_meanwhile_is_counted_from_its_next_beginning() -> None:
    watch = Watch()
    for second, picture in ((0, STRICT), (20, Picture(0)), (40, STRICT), (60, STRICT)):
        watch.check(replace(picture, now=START + second))


def test_a_preemptor_that_is_admitted_needs_no_strict_queue() -> None:
    claims = cession(CessionPhase.ASKED), cession(CessionPhase.ADMITTED, STARTING)
    limit = STRICT_FOR_NOBODY.undisturbed
    watched(replace(STRICT, cessions=claims[:1]), limit + 1)
    with pytest.raises(BrokenPromiseError, match="StrictFIFO"):
        watched(replace(STRICT, cessions=claims[1:]), limit + 1)


def test_a_preemptor_whose_pods_cannot_start_must_have_a_reason() -> None:
    explained = Picture(0, cessions=(cession(CessionPhase.ADMITTED, STARTING),))
    watched(explained, 10_000)
    unexplained = STARTING.partition(" Of the others")[0]
    for message in (CessionPhase.ADMITTED.sentence, unexplained):
        with pytest.raises(BrokenPromiseError, match="open for"):
            watched(Picture(0, cessions=(cession(CessionPhase.ADMITTED, message),)), 10_000)


@pytest.mark.parametrize(
    "picture",
    [
        pytest.param(replace(WAITS, queues=(queue("vision", 3),)), id="too large for what is left"),
        pytest.param(replace(WAITS, cessions=(cession(CessionPhase.ASKED),)), id="is served now"),
        pytest.param(
            replace(WAITS, cessions=(cession(CessionPhase.FAILED, ended=True),) * 3),
            id="a pause of 120 s after its third Cession that failed",
        ),
        pytest.param(
            replace(WAITS, workloads=(workload("claim", 2, "QuotaReserved"),)), id="has its quota"
        ),
        pytest.param(replace(WAITS, workloads=(workload("claim", 2, "Finished"),)), id="has ended"),
        pytest.param(
            replace(WAITS, workloads=(workload("claim", 2, active=False),)), id="may not run"
        ),
        pytest.param(
            replace(
                WAITS,
                workloads=(workload("claim", 2), workload("first", 4, priority=100)),
            ),
            id="another one is the first",
        ),
    ],
)
def test_a_claim_that_is_not_owed_may_wait(picture: Picture) -> None:
    watched(picture, OWED.undisturbed + 1)


# --- afterwards -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("message", "is_explained"),
    [
        (Occurrence.PREEMPTOR_DELETED.sentence, True),
        (f"{Occurrence.CAPACITY_TAKEN.sentence} Admitted since the release: other (vision).", True),
        (f"{Occurrence.CAPACITY_TAKEN.sentence} Admitted since the plan: other (vision).", True),
        (f"{Occurrence.PREEMPTOR_INELIGIBLE.sentence} Why: its queue is on hold.", True),
        (Occurrence.CAPACITY_TAKEN.sentence, False),
        (Occurrence.NOT_ADMITTED.sentence, False),
        (CessionPhase.FAILED.sentence, False),
    ],
)
def test_a_stop_for_nothing_needs_who_took_the_capacity_or_a_fault(
    message: str, is_explained: bool
) -> None:
    picture = Picture(START + 1000, cessions=(cession(CessionPhase.FAILED, message, ended=True),))
    watch = Watch()
    assert bool(watch.unexplained_stops(picture)) != is_explained
    watch.disturbances.add("worker killed", START + 10, START + 11)
    assert bool(watch.unexplained_stops(picture)) != is_explained
    watch.disturbances.add("controller frozen", START + 10, START + 11)
    assert not watch.unexplained_stops(picture)


def test_a_cession_that_was_completed_stopped_nobody_in_vain() -> None:
    picture = Picture(START, cessions=(cession(CessionPhase.COMPLETED, ended=True),))
    assert not Watch().unexplained_stops(picture)
    assert not open_cessions(picture)


def test_workloads_are_read() -> None:
    runs = workload("runs", 1, "Admitted")
    picture = Picture(
        START,
        workloads=(
            runs,
            workload("ended", 1, "Admitted", "Finished"),
            workload("off", 1, active=False),
        ),
    )
    assert running(picture) == {"runs": rfc3339(START)}
    assert inactive(picture) == ["off"]


def event(reason: str, seconds: float, name: str, kind: str = "Workload") -> Json:
    return {
        "reason": reason,
        "lastTimestamp": rfc3339(START + seconds),
        "involvedObject": {"kind": kind, "name": name},
    }


def test_an_eviction_just_after_a_job_was_set_aside_is_explained() -> None:
    recorded = [
        event("SetAside", 0, "late", "Job"),
        event("SetAside", 0, "soon", "Job"),
        event("EvictedDueToDeactivated", 60, "job-late-1"),
        event("EvictedDueToDeactivated", 3, "job-soon-1"),
    ]
    assert evictions(recorded).keys() == {
        ("late", "EvictedDueToDeactivated"),
        ("soon", "EvictedDueToDeactivated"),
    }
    assert +admitted_when_set_aside(recorded) == {"soon": 1}
