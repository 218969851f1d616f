"""Agents find, elect and depose their coordinator over their control ports."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from elastic_runtime import json_codec
from elastic_runtime.agent import peers
from elastic_runtime.agent.agent import Agent
from elastic_runtime.agent.control_client import Refused, call
from elastic_runtime.agent.coordination import STANDING_PATH, Leader, Standing, host_and_port
from elastic_runtime.agent.peers import Peer, Silence
from elastic_runtime.agent.settings import PodSettings
from elastic_runtime.agent.succession import TERM
from elastic_runtime.messages import Record
from tests.fakes.agents import HOST, JOB, KEYS, agent, listening

MEMBERS = (0, 1, 2, 3)


@asynccontextmanager
async def members(*lost: int, fresh: int | None = None) -> AsyncIterator[list[Agent]]:
    """Agents of generation 3, which pod 0 made in epoch 1. Those that are `lost` do not run; one
    that is `fresh` is a replaced pod."""
    pods = [agent(index) for index in MEMBERS]
    lives = tuple(f"{pod.pool.life}.1" for pod in pods)
    record = Record(3, MEMBERS, lives, "here", epoch=1)
    if fresh is not None:
        pods[fresh] = agent(fresh)
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory()))
        for pod in pods:
            server = await stack.enter_async_context(AsyncExitStack())
            pod.client.port = await server.enter_async_context(listening(pod))
            if pod.settings.index in lost:
                # Nobody listens at its port any more.
                await server.aclose()
        ports = [pod.client.port for pod in pods]
        leader = Leader(0, lives[0].partition(".")[0], f"{HOST}:{ports[0]}", 1)
        for pod in pods:
            settings = replace(
                pod.settings, first_port=ports[0], ports=directory, largest=len(MEMBERS)
            )
            peers.publish_port(settings, pod.client.port)
            pod.settings = pod.leadership.settings = pod.client.settings = settings
            pod.client.addresses = {index: f"{HOST}:{ports[index]}" for index in MEMBERS}
            if pod.settings.index != fresh:
                state = pod.pool.state
                state.incarnation = f"{pod.pool.life}.1"
                state.generation, state.members, state.ready = 3, MEMBERS, True
                pod.pool.record = record
                pod.leadership.leader = leader
                pod.client.follow(leader.address, 1)
                # It was lost a moment ago.
                pod.client.lose()
        running = [pod for pod in pods if pod.settings.index not in lost]
        tasks = [asyncio.create_task(pod.leadership.run()) for pod in running]
        try:
            yield running
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for pod in pods:
                pod.client.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def leaders(pods: Sequence[Agent]) -> list[Agent]:
    return [pod for pod in pods if pod.leadership.coordinator]


async def test_a_majority_of_the_members_elects_one_coordinator() -> None:
    async with members(0) as pods:
        await until(lambda: all(pod.pool.record.epoch > TERM for pod in pods))
        [leader] = leaders(pods)
        assert {pod.leadership.leader for pod in pods} == {leader.leadership.leader}
        assert len({pod.client.epoch for pod in pods}) == 1


async def test_a_replaced_pod_0_follows_the_coordinator_that_the_others_elect() -> None:
    async with members(fresh=0) as pods:
        first = pods[0]
        await until(lambda: min(pod.client.epoch for pod in pods) > TERM)
        assert first.leadership.coordinator is None


async def test_half_of_the_members_elect_none() -> None:
    async with members(0, 1) as pods:
        await until(lambda: all(pod.leadership._voted_at > 0 for pod in pods))
        assert not leaders(pods)
        assert {pod.client.epoch for pod in pods} == {1}, "no vote is spent in vain"


async def test_half_of_the_members_save_under_the_first_of_them_when_they_end() -> None:
    async with members(0, 1) as pods:
        for pod in pods:
            pod.pool.state.leaving = True
        await until(lambda: all(pod.pool.record.epoch > 1 for pod in pods))
        [leader] = leaders(pods)
        assert leader is pods[0]
        assert {pod.leadership.leader for pod in pods} == {leader.leadership.leader}
        assert leader.leadership.leader
        assert leader.leadership.leader.is_last_save
        assert leader.pool.record.members == (2, 3)


async def test_a_silent_pod_is_waited_for_since_its_last_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with members(0, 1) as pods:
        ending, other = (pod.leadership for pod in pods)
        pods[0].pool.state.leaving = True
        await until(lambda: bool(ending._answers and ending._answers.standings))
        answered_at = ending._clock()
        exchange = peers.exchange

        async def silent(settings: PodSettings, peer: Peer, own: Standing) -> Standing | Silence:
            is_cut = peer.index == other.settings.index
            return Silence.UNKNOWN if is_cut else await exchange(settings, peer, own)

        monkeypatch.setattr(peers, "exchange", silent)
        await until(lambda: bool(ending._answers and ending._answers.silent))
        assert ending._answers
        assert answered_at - 2 < ending._answers.silent_since <= ending._clock()


async def test_a_coordinator_that_trains_obeys_no_pod_that_saves_and_ends() -> None:
    async with members(0) as pods:
        await until(lambda: len(leaders(pods)) == 1)
        [leader] = leaders(pods)
        epoch = leader.client.epoch
        ending = Standing(7, "ending", epoch=9 * TERM, leaving=True)
        last_save = Leader(7, "ending", "127.0.0.1:1", 9 * TERM, is_last_save=True)
        for pod in pods:
            pod.leadership.receive(ending)
            pod.leadership.receive(replace(ending, leader=last_save))
        assert leaders(pods) == [leader]
        assert {pod.client.epoch for pod in pods} == {epoch}


async def test_a_deposed_coordinator_follows_the_next_one() -> None:
    async with members(0) as pods:
        await until(lambda: len(leaders(pods)) == 1)
        [deposed] = leaders(pods)
        next_one = Leader(7, "next", "127.0.0.1:1", 3 * TERM)
        deposed.leadership.receive(Standing(7, "next", epoch=3 * TERM, leader=next_one))
        assert deposed.leadership.coordinator is None
        assert deposed.leadership.leader == next_one
        # What the first one sends counts no more.
        assert deposed.client.epoch == 3 * TERM


@pytest.mark.parametrize("address", ["", "here", "here:", ":80", "here:x", "here:65536"])
def test_the_address_of_a_leader_is_host_and_port(address: str) -> None:
    with pytest.raises(ValueError, match=f"the address is '{address}': it must be host:port"):
        Leader(7, "next", address, 9)
    assert host_and_port("::1:8476") == ("::1", 8476)


async def test_a_standing_without_the_port_of_its_leader_is_refused_and_ends_no_agent() -> None:
    async with members(0) as pods:
        await until(lambda: all(pod.pool.record.epoch > TERM for pod in pods))
        follower = next(pod for pod in pods if not pod.leadership.coordinator)
        leader = {"index": 7, "life": "next", "address": "here", "epoch": 9 * TERM}
        body = json_codec.dump({"index": 7, "life": "next", "epoch": 9 * TERM, "leader": leader})
        with pytest.raises(Refused, match=r"^400: "):
            await call(HOST, follower.client.port, KEYS, JOB, "POST", STANDING_PATH, body)
        refused_at = follower.clock()
        # It still reports to its coordinator.
        await until(lambda: follower.client.answered_at > refused_at)


async def test_a_replaced_pod_is_found_by_its_name_when_its_old_address_is_silent() -> None:
    async with members(fresh=3) as pods:
        asking = pods[1].settings
        # Nobody listens at port 1.
        known = peers.Peer(3, f"{HOST}:1")
        answer = await peers.exchange(asking, known, pods[1].leadership.standing())
        assert isinstance(answer, Standing)
        assert answer.life == pods[3].pool.life
