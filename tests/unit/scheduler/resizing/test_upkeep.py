"""Runtimes know the size of their Job, stopped jobs wait at their smallest, and old records are
deleted."""

from dataclasses import replace

from cede.api.objects import Meta
from scheduler.resizing.upkeep import (
    MAX_ENDED_CESSIONS,
    RETENTION_S,
    align_runtimes,
    delete_ended,
    start_small,
)
from scheduler.snapshot.waiting_jobs import WaitingJob
from tests.builders.scheduler import NOW, admitted, cession, runtime_status, snapshot

ASKED = runtime_status(4, wanted=4, cession="c-1")


def test_a_runtime_is_asked_for_the_size_of_its_job_unless_it_was_asked_on_purpose() -> None:
    current = snapshot(admitted=[admitted(runtime=ASKED)])
    assert [request.size for request in align_runtimes(current, ())] == [8]
    assert not list(align_runtimes(current, {"job-uid-gpt"}))


def test_only_what_a_cession_asked_is_asked_back_in_mode_observe() -> None:
    new = admitted("new", runtime=runtime_status(8))
    current = snapshot(admitted=[admitted(runtime=ASKED), new])
    requests = list(align_runtimes(current, (), only_asked_back=True))
    assert [request.job[1] for request in requests] == ["gpt"]


def test_a_job_that_waits_for_quota_starts_at_its_smallest_size() -> None:
    waiting = WaitingJob(("research", "gpt"), "uid", "3", smallest_size=2)
    (action,) = start_small(replace(snapshot(), waiting_jobs=(waiting,)))
    # not as a shrink: it may grow as soon as it trains
    assert (action.job_uid, action.version, action.size, action.shrinks) == ("uid", "3", 2, False)


def test_old_records_are_deleted_unless_their_preemptor_is_still_waited_for() -> None:
    current = snapshot(cessions=[cession("Completed"), cession("Admitted")])
    assert len(list(delete_ended(current, NOW + RETENTION_S + 1))) == 1
    assert not list(delete_ended(current, NOW))


def test_only_the_newest_records_are_kept() -> None:
    ended = [
        cession("Failed").model_copy(update={"metadata": Meta(name=f"c-{i}")})
        for i in range(MAX_ENDED_CESSIONS + 2)
    ]
    deleted = list(delete_ended(snapshot(cessions=ended), 0))
    assert {action.name for action in deleted} == {"c-0", "c-1"}
