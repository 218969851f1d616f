"""Sessions end, and are bounded."""

import tracemalloc

import pytest

from cede.dashboard.people import sessions as sessions_module
from cede.dashboard.people.sessions import IDLE_S, LIFE_S, MAX_OF_PERSON, Sessions


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_has_its_token_until_it_is_ended() -> None:
    sessions = Sessions(Clock())
    value = sessions.begin("ada", "t")
    assert sessions.token(value) == "t"
    assert sessions.token("another") == ""
    sessions.end(value)
    assert sessions.token(value) == ""


def test_a_session_that_nobody_uses_ends() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    value = sessions.begin("ada", "t")
    clock.now = IDLE_S + 1
    assert sessions.token(value) == ""


def test_a_session_that_is_used_ends_too() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    value = sessions.begin("ada", "t")
    while clock.now < LIFE_S:
        assert sessions.token(value) == "t"
        clock.now += IDLE_S / 2
    clock.now += 1
    assert sessions.token(value) == ""


def test_the_oldest_session_of_a_person_makes_room_for_their_next() -> None:
    sessions = Sessions(Clock())
    other = sessions.begin("bob", "b")
    values = [sessions.begin("ada", "t") for _ in range(MAX_OF_PERSON + 1)]
    assert [bool(sessions.token(value)) for value in values] == [False, *[True] * MAX_OF_PERSON]
    assert sessions.token(other) == "b"


def test_one_session_too_many_ends_the_one_that_was_unused_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions_module, "MAX_OF_ALL", 3)
    clock = Clock()
    sessions = Sessions(clock)
    looking = sessions.begin("ada", "a")
    idle = sessions.begin("bob", "b")
    for number in range(9):
        clock.now += 1
        assert sessions.token(looking) == "a"
        assert sessions.begin(f"eve-{number}", "e")
    assert (sessions.token(looking), sessions.token(idle)) == ("a", "")


def test_a_thousand_sessions_cost_little_more_than_their_tokens() -> None:
    sessions = Sessions(Clock())
    tracemalloc.start()
    values = [sessions.begin(f"person-{number}", f"{number:01024}") for number in range(1000)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(sessions.token(value) for value in values)
    assert size < 2_000_000
