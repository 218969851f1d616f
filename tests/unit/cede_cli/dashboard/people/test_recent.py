"""An answer counts for a time, and is asked for once by many."""

import asyncio
from functools import partial

import pytest

from cede.dashboard.people import recent as recent_module
from cede.dashboard.people.recent import (
    MAX_STRANGERS_ASKING,
    MAX_STRANGERS_WAITING,
    Busy,
    Recent,
)


class Oracle:
    """Knows those with a letter. It says nothing about others while `silent`."""

    def __init__(self, valid_s: float = 60.0) -> None:
        self.asked: list[str] = []
        self.fails = False
        self.silent = False
        self.recent = Recent[str, str](lambda _: valid_s, str.isalpha)

    async def get(self, key: str, turn: str | None = None) -> str:
        return await self.recent.get(key, partial(self._ask, key), turn)

    async def _ask(self, key: str) -> str:
        self.asked.append(key)
        await asyncio.sleep(0)
        if self.fails:
            raise LookupError
        if self.silent and not key.isalpha():
            await asyncio.Event().wait()
        return key.upper()


async def test_many_who_ask_at_once_are_one_question() -> None:
    oracle = Oracle()
    assert await asyncio.gather(*[oracle.get("a") for _ in range(9)]) == ["A"] * 9
    assert oracle.asked == ["a"]


async def test_an_answer_that_does_not_count_is_asked_for_again() -> None:
    oracle = Oracle()
    oracle.recent = Recent[str, str](lambda answer: 60.0 if answer == "A" else 0.0)
    for _ in range(2):
        assert [await oracle.get(key) for key in "ab"] == ["A", "B"]
    assert oracle.asked == ["a", "b", "b"]


async def test_a_failure_is_raised_and_not_kept() -> None:
    oracle = Oracle()
    oracle.fails = True
    with pytest.raises(LookupError):
        await oracle.get("a")
    oracle.fails = False
    assert await oracle.get("a") == "A"


async def test_no_more_than_a_bound_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_module, "MAX_KEPT", 2)
    oracle = Oracle()
    for key in "abca":
        await oracle.get(key)
    assert oracle.asked == ["a", "b", "c", "a"]


async def test_strangers_keep_nobody_waiting_who_was_known() -> None:
    oracle = Oracle(valid_s=0.0)
    assert await oracle.get("ada") == "ADA"
    oracle.silent = True
    strangers = [
        asyncio.create_task(oracle.get(str(number))) for number in range(MAX_STRANGERS_WAITING)
    ]
    async with asyncio.timeout(20):
        assert await oracle.get("ada") == "ADA"
        with pytest.raises(Busy):
            await oracle.get("one too many")
    assert len(oracle.asked) == 2 + MAX_STRANGERS_ASKING
    for stranger in strangers:
        stranger.cancel()
    await asyncio.wait(strangers)
    oracle.silent = False
    assert await oracle.get("1") == "1"


async def test_strangers_displace_no_answer_about_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_module, "MAX_KEPT", 2)
    oracle = Oracle()
    for key in ("ada", "1", "2", "3", "ada", "1"):
        await oracle.get(key)
    assert oracle.asked == ["ada", "1", "2", "3", "1"]


async def test_somebody_with_many_tokens_is_asked_about_once_at_a_time() -> None:
    oracle = Oracle()
    under_way = 0

    async def ask() -> str:
        nonlocal under_way
        assert under_way == 0
        under_way += 1
        await asyncio.sleep(0)
        under_way -= 1
        return "A"

    async def come(number: int) -> None:
        # some come later, when others have had their turn
        for _ in range(number % 7):
            await asyncio.sleep(0)
        await oracle.recent.get(str(number), ask, "ada")

    await asyncio.gather(*[come(number) for number in range(50)])
    assert not oracle.recent._turns
