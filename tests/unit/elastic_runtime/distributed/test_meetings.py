"""Ranks meet before a collective that only the script starts, and none waits there in vain."""

import threading
import time
from contextlib import suppress

import pytest
import torch

from elastic_runtime.collective_checks import EVALUATION
from elastic_runtime.distributed import meetings
from elastic_runtime.distributed.gloo import PeerLost, open_store
from elastic_runtime.distributed.group import Group
from elastic_runtime.mistake import Mistake
from tests.harness.thread_ranks import run_ranks


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "LOOK_INTERVAL_S", 0.05)


def test_no_rank_is_beyond_a_meeting_before_all_are_in_it() -> None:
    arrived = list[int]()

    def body(group: Group) -> list[int]:
        if group.rank == 2:
            # Until both others wait.
            while len(arrived) < 2:
                time.sleep(0.01)
        arrived.append(group.rank)
        assert group.meetings.hold("7", EVALUATION) is None
        assert group.meetings.hold("7", EVALUATION) is None
        return [*arrived]

    assert all(sorted(ranks) == [0, 1, 2] for ranks in run_ranks(3, body))


def test_a_meeting_of_one_rank_needs_no_store() -> None:
    assert meetings.Meetings(1, lambda: False).hold("7", EVALUATION) is None


def test_a_rank_that_goes_on_without_the_others_is_told_and_so_are_they() -> None:
    has_raised = threading.Event()

    def body(group: Group) -> object:
        if group.rank == 0:
            answer = group.meetings.hold("7", EVALUATION)
            has_raised.wait(30)
            return answer
        group.meetings.places = ("7",)
        with pytest.raises(Mistake) as mistake:
            group.all_reduce(torch.zeros(1)).wait()
        has_raised.set()
        return str(mistake.value)

    answer, mistake = run_ranks(2, body)
    assert answer == b""
    assert "session.evaluate was called by some workers" in str(mistake)


def test_a_rank_that_is_beyond_answers_and_goes_on() -> None:
    def body(group: Group) -> object:
        answer = None
        if group.rank == 0:
            answer = group.meetings.hold("7", EVALUATION)
        else:
            group.meetings.places = ("7",)
            group.meetings.answer = lambda: b"result"
        group.all_reduce(torch.zeros(1)).wait()
        # And both are at the next place.
        assert group.meetings.hold("8", EVALUATION) is None
        return answer

    assert run_ranks(2, body) == [b"result", None]


def test_ranks_at_another_place_are_left_alone() -> None:
    """The others may be at a later step already, when this one has not seen the end of its own."""

    waited = threading.Event()

    def meet(group: Group) -> None:
        # It ends with the group.
        with suppress(PeerLost):
            group.meetings.hold("8", EVALUATION)

    def body(group: Group) -> None:
        if group.rank == 0:
            threading.Thread(target=meet, args=[group], daemon=True).start()
            waited.wait(30)
        else:
            group.meetings.places = ("7",)
            keep_waiting = group.keep_waiting
            polls = iter(range(1000))

            def count() -> None:
                keep_waiting()
                if next(polls) == 15:
                    waited.set()

            group.keep_waiting = count  # type: ignore[method-assign]
        group.all_reduce(torch.zeros(1)).wait()
        if group.rank == 0:
            group.abort()

    run_ranks(2, body)


def test_an_abort_ends_a_meeting() -> None:
    def body(group: Group) -> None:
        if group.rank == 0:
            threading.Timer(0.1, group.abort).start()
            with pytest.raises(PeerLost, match="aborted while its ranks met"):
                group.meetings.hold("7", EVALUATION)

    run_ranks(2, body)


def test_an_abort_that_only_the_thread_in_the_store_has_seen_ends_a_meeting_too() -> None:
    def is_aborted() -> bool:
        return threading.current_thread().name == "meet"

    store, _ = open_store()
    alone = meetings.Meetings(2, is_aborted)
    alone.open(store)
    with pytest.raises(PeerLost, match="aborted while its ranks met"):
        alone.hold("7", EVALUATION)


def test_ranks_that_come_for_different_calls_are_all_told() -> None:
    def body(group: Group) -> str:
        with pytest.raises(Mistake) as mistake:
            group.meetings.hold("7", "step.all_reduce" if group.rank else "step.all_gather")
        return str(mistake.value)

    texts = run_ranks(3, body)
    assert len({*texts}) == 1
    assert "a worker called step.all_gather, and another called step.all_reduce: make" in texts[0]


def test_a_rank_that_meets_at_a_later_place_answers_those_that_wait_at_an_earlier_one() -> None:
    def body(group: Group) -> object:
        if group.rank == 0:
            return group.meetings.hold("7/before", "step.all_reduce")
        group.meetings.places = ("7", "7/before")
        with pytest.raises(Mistake, match=r"step.all_reduce was called by some workers, and"):
            group.meetings.hold("7/behind", "step.all_gather")
        return None

    assert run_ranks(2, body) == [b"", None]


def test_what_waits_is_told_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "ABORT_INTERVAL_S", 0.001)

    def body(group: Group) -> int:
        waits = list[int]()
        group.meetings.on_wait = lambda: waits.append(1)
        if group.rank == 0:
            group.meetings.hold("7", EVALUATION)
        else:
            while not group.meetings._store.check(["7/0"]):
                time.sleep(0.01)
            time.sleep(0.1)
            group.meetings.hold("7", EVALUATION)
        return len(waits)

    assert run_ranks(2, body)[0] > 1
