"""An answer counts for a time, and is asked for once by many."""

import asyncio

import pytest

from cede.dashboard.people import recent as recent_module
from cede.dashboard.people.recent import Recent


class Oracle:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False

    async def ask(self, key: str) -> str:
        self.asked.append(key)
        await asyncio.sleep(0)
        if self.fails:
            raise LookupError
        return key.upper()


async def test_many_who_ask_at_once_are_one_question() -> None:
    oracle = Oracle()
    recent = Recent[str, str](oracle.ask, lambda _: 60.0)
    assert await asyncio.gather(*[recent.get("a") for _ in range(9)]) == ["A"] * 9
    assert oracle.asked == ["a"]


async def test_an_answer_that_does_not_count_is_asked_for_again() -> None:
    oracle = Oracle()
    recent = Recent[str, str](oracle.ask, lambda answer: 60.0 if answer == "A" else 0.0)
    for _ in range(2):
        assert [await recent.get(key) for key in "ab"] == ["A", "B"]
    assert oracle.asked == ["a", "b", "b"]


async def test_a_failure_is_raised_and_not_kept() -> None:
    oracle = Oracle()
    recent = Recent[str, str](oracle.ask, lambda _: 60.0)
    oracle.fails = True
    with pytest.raises(LookupError):
        await recent.get("a")
    oracle.fails = False
    assert await recent.get("a") == "A"


async def test_no_more_than_a_bound_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_module, "MAX_KEPT", 2)
    oracle = Oracle()
    recent = Recent[str, str](oracle.ask, lambda _: 60.0)
    for key in "abca":
        await recent.get(key)
    assert oracle.asked == ["a", "b", "c", "a"]
