"""Leader election with client-go's times.

The clock runs thirty times as fast; sockets are real.
"""

import asyncio
from datetime import UTC, datetime

import pytest

from cede.api.objects import LEASES, unix
from cede.kube.lease import LostLease
from tests.fakes.api_faults import hangs, refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer
from tests.harness.leases import (
    KEY,
    PATH,
    TIMES,
    TOLERANCE_S,
    Work,
    clock,
    lead,
    lease,
    run_fast,
    spec,
)

pytestmark = pytest.mark.slow


def test_a_leader_renews_by_put_and_releases_the_lease() -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        calls = list[bool]()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work, leading=calls.append))
            await work.started.wait()
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
            assert calls == [True, False]
            assert (spec(server)["holderIdentity"], spec(server)["leaseDurationSeconds"]) == ("", 1)

    run_fast(test)


def test_the_next_leader_starts_at_once_after_a_release() -> None:
    async def test(server: ApiServer) -> None:
        work_a = Work()
        work_b = Work()
        async with server.client() as a, server.client() as b:
            first = asyncio.create_task(lead(a, KEY, "one", work_a))
            await work_a.started.wait()
            second = asyncio.create_task(lead(b, KEY, "two", work_b))
            # well past a lease's duration
            await asyncio.sleep(40)
            assert not work_b.started.is_set()
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            stopped = clock()
            await work_b.started.wait()
            assert work_b.started_at - stopped <= 1.2 * TIMES.retry_s + TOLERANCE_S
            assert spec(server)["leaseTransitions"] == 1
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)

    run_fast(test)


def test_only_one_of_many_candidates_leads() -> None:
    async def test(server: ApiServer) -> None:
        works = [Work() for _ in range(5)]
        async with server.client() as client:
            tasks = [
                asyncio.create_task(lead(client, KEY, f"n{i}", work))
                for i, work in enumerate(works)
            ]
            await asyncio.sleep(30)
            assert sum(work.started.is_set() for work in works) == 1
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run_fast(test)


@pytest.mark.parametrize(
    "renewed",
    ["2020-01-01T00:00:00.000000Z", "2090-01-01T00:00:00.000000Z"],
    ids=["past", "future"],
)
def test_a_dead_leaders_lease_expires_by_our_own_clock(
    renewed: str,
) -> None:
    async def test(server: ApiServer) -> None:
        server.put(LEASES, lease("dead", renewed=renewed))
        work = Work()
        began = clock()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work))
            await work.started.wait()
            assert (
                TIMES.duration_s
                <= work.started_at - began
                <= TIMES.duration_s + 1.2 * TIMES.retry_s + TOLERANCE_S
            )
            assert (spec(server)["holderIdentity"], spec(server)["leaseTransitions"]) == ("one", 4)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_fast(test)


def test_a_leader_that_renews_keeps_the_lease() -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work))
            for turn in range(12):
                server.put(LEASES, lease("alive", turn))
                await asyncio.sleep(5)
            assert not work.started.is_set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_fast(test)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(refuses(500, "InternalError"), id="refusals"),
        pytest.param(hangs(), id="silence"),
    ],
)
def test_the_work_is_cancelled_before_another_may_lead(fault: Answer) -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work))
            await work.started.wait()
            last = clock()
            server.script("PUT", PATH, *[fault] * 50)
            with pytest.raises(LostLease, match="not renewed within"):
                await task
            assert work.ended.is_set()
            assert (
                # the work may have begun late, long after the lease was taken
                TIMES.deadline_s - 1 - TOLERANCE_S
                <= clock() - last
                <= TIMES.deadline_s + 2 + TOLERANCE_S
                < 15 + TOLERANCE_S
            )

    run_fast(test)


def test_a_short_outage_does_not_lose_the_lease() -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work))
            await work.started.wait()
            server.script("PUT", PATH, *[refuses(503, "Unavailable")] * 2)
            await asyncio.sleep(30)
            assert not task.done()
            assert not work.ended.is_set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_fast(test)


def test_a_leader_stops_when_another_holds_the_lease() -> None:
    async def test(server: ApiServer) -> None:
        work = Work()
        async with server.client() as client:
            task = asyncio.create_task(lead(client, KEY, "one", work))
            await work.started.wait()
            server.put(
                LEASES, lease("two", renewed=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
            )
            taken_at = clock()
            with pytest.raises(LostLease, match="taken over by two"):
                await task
            assert clock() - taken_at <= 1.2 * TIMES.retry_s + TOLERANCE_S
            assert work.ended.is_set()
            assert spec(server)["holderIdentity"] == "two"

    run_fast(test)


def test_the_lease_is_released_when_the_work_ends_or_fails() -> None:
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

    run_fast(test)


def test_we_stop_before_another_may_start() -> None:
    assert TIMES.retry_s < TIMES.deadline_s < TIMES.duration_s
    assert all(TIMES.retry_s <= TIMES.pause_s() <= 1.2 * TIMES.retry_s for _ in range(100))
