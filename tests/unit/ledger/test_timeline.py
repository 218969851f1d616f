"""Every moment of the calendar is in one span; what nobody saw is a gap."""

import pytest

from ledger.timeline import MAX_PAUSE, SECOND, Timeline, begin, lose, note, take
from ledger.usage import Pool, Use
from tests.builders.ledger import KIND

T = 1000 * SECOND
STEP = 10 * SECOND


def use(used: int) -> Use:
    return Use({KIND: Pool(capacity=used)})


def pieces(timeline: Timeline, until: int) -> list[tuple[int, int, int | str]]:
    """(begin, end, what was used or why nobody knows), in seconds since T."""
    result, _ = take(timeline, until)
    return [
        (
            (piece.begin - T) // SECOND,
            (piece.end - T) // SECOND,
            piece.span.use.pools[KIND].capacity if piece.span.use else piece.span.reason,
        )
        for piece in result
    ]


def noted(*passes: tuple[int, int], started: int = 0, written: int = 0) -> Timeline:
    """After passes at these seconds that saw these uses."""
    timeline = begin(T + written * SECOND, T + started * SECOND)
    for second, used in passes:
        timeline = note(timeline, use(used), {}, T + second * SECOND)
    return timeline


def test_what_was_seen_holds_until_something_else_is_seen() -> None:
    timeline = noted((0, 1), (10, 1), (15, 2), (20, 2))
    assert pieces(timeline, T + 20 * SECOND) == [(0, 15, 1), (15, 20, 2)]


def test_only_what_the_server_confirmed_is_taken_and_the_rest_stays() -> None:
    timeline = noted((0, 1), (10, 2), (20, 2))
    _, left = take(timeline, T + 5 * SECOND)
    assert pieces(left, T + 20 * SECOND) == [(5, 10, 1), (10, 20, 2)]
    _, left = take(left, T + 20 * SECOND)
    assert pieces(note(left, use(2), {}, T + 25 * SECOND), T + 99 * SECOND) == [(20, 25, 2)]


def test_the_time_since_an_earlier_process_is_a_gap() -> None:
    timeline = noted((50, 1), (60, 1), started=50)
    assert pieces(timeline, T + 60 * SECOND) == [(0, 50, "the ledger did not run"), (50, 60, 1)]


def test_a_pause_without_a_pass_is_a_gap() -> None:
    """The machine slept, or its clock was set forward."""
    pause = MAX_PAUSE // SECOND
    timeline = noted((0, 1), (pause, 1), (2 * pause + 1, 1), (2 * pause + 2, 1))
    assert pieces(timeline, T + 999 * SECOND) == [
        (0, pause, 1),
        (pause, 2 * pause + 1, "the ledger made no pass"),
        (2 * pause + 1, 2 * pause + 2, 1),
    ]


def test_a_clock_that_is_set_back_counts_no_moment_twice() -> None:
    timeline = noted((0, 1), (20, 1), (5, 3), (10, 3), (25, 3), (30, 3))
    assert pieces(timeline, T + 30 * SECOND) == [(0, 20, 1), (20, 30, 3)]


def test_books_that_end_in_the_future_wait_for_it() -> None:
    """The clock was set back while the ledger did not run."""
    timeline = noted((10, 1), (20, 1), (40, 2), (50, 2), written=30, started=10)
    assert pieces(timeline, T + 50 * SECOND) == [(30, 40, 1), (40, 50, 2)]


def test_what_a_silent_server_did_not_confirm_is_a_gap() -> None:
    timeline = lose(noted((0, 1), (10, 2), (20, 3)), T + 5 * SECOND, "silent")
    timeline = lose(timeline, T + 5 * SECOND, "silent")
    timeline = note(timeline, use(4), {}, T + 30 * SECOND)
    timeline = note(timeline, use(4), {}, T + 40 * SECOND)
    assert pieces(timeline, T + 40 * SECOND) == [(0, 5, 1), (5, 30, "silent"), (30, 40, 4)]


def test_what_is_written_already_is_not_lost() -> None:
    _, timeline = take(noted((0, 1), (20, 1)), T + 20 * SECOND)
    timeline = lose(note(timeline, use(1), {}, T + 30 * SECOND), T + 5 * SECOND, "silent")
    assert pieces(timeline, T + 30 * SECOND) == [(20, 30, "silent")]


@pytest.mark.parametrize("until", [0, -5])
def test_nothing_is_taken_of_no_time(until: int) -> None:
    timeline = noted((0, 1), (20, 1))
    assert take(timeline, T + until * SECOND) == ([], timeline)


def test_equal_passes_are_one_span() -> None:
    assert len(noted(*((second, 1) for second in range(0, 1000, 10))).spans) == 1
