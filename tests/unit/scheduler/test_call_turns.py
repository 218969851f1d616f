"""Calls to runtimes take turns, so that a namespace whose pods do not answer delays no other."""

import asyncio

import pytest
from aiohttp import web

from elastic_runtime import contract
from elastic_runtime.contract import SizeRequest
from scheduler.call_turns import Turns
from scheduler.runtime_client import Endpoint, RuntimeClient
from tests.fakes.runtime import ROOT_KEY, Runtime, answering, loopback_address
from tests.unit.scheduler.test_runtime_client import until

MUTE_ADDRESS = loopback_address(3)
ADDRESS = loopback_address(1)
FEW = 4


class Calls:
    """Calls that last until `end`, in the order in which they began."""

    def __init__(self, limit: int) -> None:
        self.turns = Turns(limit)
        self.began = list[str]()
        self.tasks = dict[str, asyncio.Task[None]]()
        self._ends = dict[str, asyncio.Event]()

    async def start(self, *names: str) -> None:
        """The namespace is what stands before the dash."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._call(name))
        await let_all_run()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await let_all_run()

    async def _call(self, name: str) -> None:
        async with self.turns.take(name.partition("-")[0]):
            self.began.append(name)
            await self._ends[name].wait()


async def let_all_run() -> None:
    """Everything that can go on without another event has done so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_next_turn_is_of_the_namespace_that_has_the_fewest() -> None:
    calls = Calls(2)
    await calls.start("mute-1", "mute-2", "mute-3", "mute-4", "mute-5", "b-1", "b-2")
    assert calls.began == ["mute-1", "mute-2"]
    await calls.end("mute-1")
    await calls.end("b-1")
    assert calls.began[2:] == ["b-1", "b-2"]
    await calls.end("b-2")
    await calls.end("mute-2")
    assert calls.began[4:] == ["mute-3", "mute-4"]


async def test_namespaces_take_turns_when_there_are_more_of_them_than_turns() -> None:
    calls = Calls(1)
    await calls.start("a-1", "a-2", "a-3", "b-1", "b-2", "c-1")
    for number in range(5):
        await calls.end(calls.began[number])
    assert calls.began == ["a-1", "a-2", "b-1", "c-1", "a-3", "b-2"]


@pytest.mark.parametrize("is_granted", [False, True], ids=["that waits", "that just got its turn"])
async def test_a_call_that_is_cancelled_keeps_no_turn(is_granted: bool) -> None:
    calls = Calls(1)
    await calls.start("a-1", "a-2", "a-3")
    if is_granted:
        # the turn ends now, and the next one has not begun yet
        calls.tasks["a-1"].cancel()
        await asyncio.sleep(0)
    calls.tasks["a-2"].cancel()
    await let_all_run()
    if not is_granted:
        await calls.end("a-1")
    assert calls.began == ["a-1", "a-3"]
    await calls.end("a-3")
    await calls.start("a-4")
    assert calls.began[-1] == "a-4"


async def test_a_team_with_very_many_mute_jobs_keeps_no_other_team_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The runtime of the other team is asked in the first turn that ends."""
    monkeypatch.setattr("scheduler.runtime_client.MAX_CALLS", FEW)
    asked = 0
    gives_up = asyncio.Semaphore(0)

    async def wait(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await gives_up.acquire()
        return web.Response(status=500)

    mute = [Endpoint(("mute", f"j{i}"), f"m{i}", (MUTE_ADDRESS,)) for i in range(5 * FEW)]
    async with (
        answering(MUTE_ADDRESS, wait),
        Runtime(ADDRESS, "research", "u", 8),
        RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as runtimes,
    ):
        runtimes.follow([*mute, Endpoint(("research", "gpt"), "u", (ADDRESS,))])
        await until(lambda: asked == FEW)
        assert not runtimes.statuses()
        gives_up.release()
        await until(runtimes.statuses)
        assert asked <= FEW + 1


async def test_a_request_of_a_size_waits_for_no_poll_of_its_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its deadline runs: a job that is asked too late would be stopped."""
    monkeypatch.setattr("scheduler.runtime_client.MAX_CALLS", FEW)
    asked = list[str]()

    async def wait(request: web.Request) -> web.Response:
        asked.append(request.method)
        await asyncio.Event().wait()
        return web.Response(status=500)

    jobs = [Endpoint(("mute", f"j{i}"), f"m{i}", (MUTE_ADDRESS,)) for i in range(5 * FEW)]
    async with (
        answering(MUTE_ADDRESS, wait),
        RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as runtimes,
    ):
        runtimes.follow(jobs)
        await until(lambda: asked == ["GET"] * FEW)
        runtimes.request_size(jobs[-1], SizeRequest(4, "c-1"))
        await until(lambda: asked[FEW:] == ["PUT"])


async def test_a_job_that_does_not_answer_has_one_request_of_each_kind_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same request is not sent again, and another one takes its place at once."""
    monkeypatch.setattr("scheduler.call_turns.REPEAT_REQUEST_S", 0.0)
    begun, ended = list[str](), list[str]()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode()
        begun.append(name)
        await reader.read()
        ended.append(name)
        writer.close()

    job = Endpoint(("mute", "j"), "m", (MUTE_ADDRESS,))
    async with (
        await asyncio.start_server(never_answer, MUTE_ADDRESS, contract.PORT),
        RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as runtimes,
    ):
        for _ in range(5):
            runtimes.request_size(job, SizeRequest(4, "c-1"))
            runtimes.request_save(job, "r, attempt 1")
            await let_all_run()
        await until(lambda: len(begun) == 2)
        assert not ended
        runtimes.request_size(job, SizeRequest(6, "c-1"))
        await until(lambda: len(begun) == 3)
        await until(lambda: len(ended) == 1)
        assert ended == [f"PUT {contract.SIZE_PATH} HTTP/1.1\r\n"]
