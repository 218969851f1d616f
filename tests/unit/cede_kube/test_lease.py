"""One leader: client-go's times, judged by our own clock. The clock runs thirty times as fast;
sockets are real."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from cede.api.objects import LEASES, Json, unix
from cede.kube.lease import LostLease, Times, lead
from tests.fakes.api_faults import hangs, refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer
from tests.harness.fast_loop import fast

KEY = ("cede-system", "cede-scheduler")
PATH = LEASES.path(KEY)
TIMES = Times()
# seconds of the fast clock, a fifth of a real one: for a machine that is busy
LATE = 6.0


def clock() -> float:
    return asyncio.get_running_loop().time()


def held(holder: str, turn: int = 0, renewed: str = "2020-01-01T00:00:00.000000Z") -> Json:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "renewTime": renewed,
        "acquireTime": renewed,
        "leaseTransitions": 3,
    }
    return {
        "metadata": {"name": KEY[1], "namespace": KEY[0], "annotations": {"turn": str(turn)}},
        "spec": spec,
    }


class Work:
    """Work that goes on until it is cancelled, and knows when it was."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = asyncio.Event()
        self.at = 0.0

    async def __call__(self) -> None:
        self.at = clock()
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def spec(server: ApiServer) -> Json:
    found = server.get(LEASES, KEY)
    assert found is not None
    return dict(found["spec"])


def leading(test: Callable[[ApiServer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with ApiServer() as server:
            await test(server)

    fast(run())


def test_the_first_one_leads_renews_by_put_and_gives_back_when_it_stops() -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        said = list[bool]()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work, leading=said.append))
            await work.began.wait()
            first = spec(server)
            await asyncio.sleep(10)
            now = spec(server)
            assert (
                now["holderIdentity"],
                now["leaseDurationSeconds"],
                now["leaseTransitions"],
            ) == ("one", 15, 0)
            assert now["acquireTime"] == first["acquireTime"]
            assert unix(now["renewTime"]) > unix(first["renewTime"])
            assert now["renewTime"].endswith("Z")
            assert len(now["renewTime"]) == len("2026-01-01T00:00:00.000000Z"), "MicroTime"
            assert 3 <= server.count()["PUT"] <= 5, "once in two seconds, and a little more"
            assert server.count()["PATCH"] == 0, (
                "renewals by PUT fall under the leader-election flow"
            )
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert work.ended.is_set()
            assert said == [True, False]
            assert (spec(server)["holderIdentity"], spec(server)["leaseDurationSeconds"]) == ("", 1)

    leading(test)


def test_the_second_starts_at_once_when_the_first_gives_back() -> None:
    async def test(server: ApiServer) -> None:
        one = Work()
        two = Work()
        async with server.client() as a, server.client() as b:
            first = asyncio.create_task(lead(a, KEY, "one", one))
            await one.began.wait()
            second = asyncio.create_task(lead(b, KEY, "two", two))
            # well past a lease's duration
            await asyncio.sleep(40)
            assert not two.began.is_set()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            stopped = clock()
            await two.began.wait()
            assert two.at - stopped <= 1.2 * TIMES.retry_s + LATE
            assert spec(server)["leaseTransitions"] == 1
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)

    leading(test)


def test_of_many_that_start_together_one_leads() -> None:
    async def test(server: ApiServer) -> None:
        works = [Work() for _ in range(5)]
        async with server.client() as client:
            tasks = [
                asyncio.create_task(lead(client, KEY, f"n{i}", work))
                for i, work in enumerate(works)
            ]
            await asyncio.sleep(30)
            assert sum(work.began.is_set() for work in works) == 1
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    leading(test)


@pytest.mark.parametrize(
    "renewed",
    ["2020-01-01T00:00:00.000000Z", "2090-01-01T00:00:00.000000Z"],
    ids=["past", "future"],
)
def test_a_dead_leader_is_waited_for_by_our_own_clock_whatever_its_record_says(
    renewed: str,
) -> None:
    async def test(server: ApiServer) -> None:
        server.put(LEASES, held("dead", renewed=renewed))
        work = Work()
        began = clock()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work))
            await work.began.wait()
            assert (
                TIMES.duration_s <= work.at - began <= TIMES.duration_s + 1.2 * TIMES.retry_s + LATE
            )
            assert (spec(server)["holderIdentity"], spec(server)["leaseTransitions"]) == ("one", 4)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    leading(test)


def test_a_leader_that_renews_is_never_taken_over() -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work))
            for turn in range(12):
                server.put(LEASES, held("alive", turn))
                await asyncio.sleep(5)
            assert not work.began.is_set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    leading(test)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(refuses(500, "InternalError"), id="refusals"),
        pytest.param(hangs(), id="silence"),
    ],
)
def test_past_the_deadline_the_work_is_cancelled_before_another_may_start(fault: Answer) -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work))
            await work.began.wait()
            last = clock()
            server.script("GET", PATH, *[fault] * 50)
            with pytest.raises(LostLease, match="not renewed within"):
                await task
            assert work.ended.is_set()
            assert TIMES.deadline_s - 1 <= clock() - last <= TIMES.deadline_s + 2 + LATE < 15 + LATE

    leading(test)


def test_a_short_outage_is_outlived() -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work))
            await work.began.wait()
            server.script("GET", PATH, *[refuses(503, "Unavailable")] * 2)
            await asyncio.sleep(30)
            assert not task.done()
            assert not work.ended.is_set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    leading(test)


def test_who_is_taken_over_stops_at_the_next_look_and_leaves_the_other_alone() -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work))
            await work.began.wait()
            server.put(
                LEASES, held("two", renewed=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
            )
            taken = clock()
            with pytest.raises(LostLease, match="taken over by two"):
                await task
            assert clock() - taken <= 1.2 * TIMES.retry_s + LATE
            assert work.ended.is_set()
            assert spec(server)["holderIdentity"] == "two"

    leading(test)


def test_work_that_ends_or_fails_ends_the_lead_and_says_so() -> None:
    async def test(server: ApiServer) -> None:
        async def done() -> None:
            return

        async def broken() -> None:
            raise RuntimeError("a bug")

        async with server.client() as client:
            await lead(client, KEY, "one", done)
            assert spec(server)["holderIdentity"] == ""
            with pytest.raises(RuntimeError, match="a bug"):
                await lead(client, KEY, "one", broken)
            assert spec(server)["holderIdentity"] == ""

    leading(test)


def test_the_times_leave_room_between_our_stop_and_anothers_start() -> None:
    assert TIMES.retry_s < TIMES.deadline_s < TIMES.duration_s
    assert all(TIMES.retry_s <= TIMES.pause_s() <= 1.2 * TIMES.retry_s for _ in range(100))
