"""Sessions end, and are bounded."""

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


def test_too_many_people_are_refused_until_sessions_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MAX_OF_ALL", 1)
    clock = Clock()
    sessions = Sessions(clock)
    assert sessions.begin("ada", "t")
    assert sessions.begin("bob", "b") == ""
    clock.now = LIFE_S + 1
    assert sessions.begin("bob", "b")
