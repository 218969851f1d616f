"""Saves count from the moment at which the scheduler saw them, whatever the job reports."""

from scheduler.observations import Observed, note_request, observe
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


def test_a_repeated_request_starts_no_new_time() -> None:
    first = note_request(FIRST, "c-1", NOW + 1)
    assert note_request(first, "c-1", NOW + 9).asked_at == NOW + 1
    assert note_request(first, "c-2", NOW + 9).asked_at == NOW + 9


def test_a_request_to_a_silent_runtime_counts_from_its_first() -> None:
    asked = note_request(None, "c-1", NOW)
    answered = observe(asked, runtime_status(durable_step=7), NOW + 5)
    assert (answered.asked_at, answered.since, answered.saved_at) == (NOW, NOW + 5, 0.0)
