"""Saves count from the moment at which the scheduler saw them, whatever the job reports."""

from scheduler.snapshot.observations import (
    Observed,
    forget_request,
    note_leaderless,
    note_refusal,
    note_request,
    observe,
)
from tests.builders.scheduler import NOW, runtime_status

FIRST = observe(None, runtime_status(step=50, durable_step=40), NOW)


def test_a_save_counts_from_the_first_answer_that_shows_it() -> None:
    later = observe(FIRST, runtime_status(step=60, durable_step=55), NOW + 30)
    same = observe(later, runtime_status(step=70, durable_step=55), NOW + 50)
    assert (same.saved_at, same.durable_step) == (NOW + 30, 55)
    assert same.unsaved_s(NOW + 60) == 30


def test_what_was_saved_before_the_first_answer_has_no_time() -> None:
    assert FIRST.saved_at == 0.0
    assert FIRST.unsaved_s(NOW + 10) == 10


def test_silence_changes_nothing() -> None:
    assert observe(FIRST, None, NOW + 99) == FIRST
    assert observe(None, None, NOW) == Observed()


def test_a_step_that_goes_back_is_no_save() -> None:
    """A job that reports 2⁵³ and then small steps gains no new save."""
    liar = observe(FIRST, runtime_status(durable_step=2**53), NOW + 1)
    back = observe(liar, runtime_status(durable_step=41), NOW + 90)
    assert back.saved_at == NOW + 1
    assert back.unsaved_s(NOW + 100) == 99


def test_a_job_is_without_coordinator_until_one_answers() -> None:
    lost = note_leaderless(FIRST)
    assert lost.is_leaderless
    assert observe(lost, None, NOW + 10).is_leaderless
    assert not observe(lost, runtime_status(), NOW + 10).is_leaderless
    assert not observe(note_leaderless(None), runtime_status(), NOW + 1).is_leaderless


def test_a_repeated_request_starts_no_new_time() -> None:
    first = note_request(FIRST, "c-1", 4, NOW + 1)
    assert note_request(first, "c-1", 4, NOW + 9).asked_at == NOW + 1
    assert note_request(first, "c-2", 4, NOW + 9).asked_at == NOW + 9


def test_another_size_for_the_same_reason_starts_no_new_time() -> None:
    first = note_request(FIRST, "c-1", 4, NOW + 1)
    other = note_request(first, "c-1", 3, NOW + 9)
    assert (other.asked_at, other.asked_size) == (NOW + 1, 3)


def test_a_request_is_forgotten_once_the_job_has_the_size() -> None:
    """Another one for the same reason is a new one; the runtime's answers renew nothing."""
    first = note_request(FIRST, "excess", 6, NOW + 1)
    ceded = observe(first, runtime_status(6, wanted=6, cession="excess"), NOW + 2)
    assert forget_request(ceded, 8).asked_at == NOW + 1
    done = forget_request(ceded, 6)
    assert (done.asked_for, done.since) == ("", NOW)
    assert note_request(done, "excess", 4, NOW + 86400).asked_at == NOW + 86400


def test_a_request_to_a_silent_runtime_counts_from_its_first() -> None:
    asked = note_request(None, "c-1", 4, NOW)
    answered = observe(asked, runtime_status(durable_step=7), NOW + 5)
    assert (answered.asked_at, answered.since, answered.saved_at) == (NOW, NOW + 5, 0.0)


def test_a_refusal_counts_until_a_pod_answers() -> None:
    first = note_refusal(FIRST, "+120 s off", NOW + 1)
    later = note_refusal(first, "+121 s off", NOW + 9)
    assert (later.refused_since, later.refusal) == (NOW + 1, "+120 s off")
    for known in (later, note_refusal(None, "+120 s off", NOW)):
        assert observe(known, runtime_status(), NOW + 10).refusal == ""
