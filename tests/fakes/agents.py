"""Agents of a job in this process, without worker processes, and their control ports."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from elastic_runtime import json_codec
from elastic_runtime.agent import control_server
from elastic_runtime.agent.agent import Agent
from elastic_runtime.agent.coordination import (
    MEMBER_PATH,
    RECORD_PATH,
    CoordinatorReply,
    Leader,
    MemberReport,
)
from elastic_runtime.agent.coordinator import Coordinator
from elastic_runtime.agent.settings import PodSettings
from elastic_runtime.agent.signing_keys import Keys

KEY = b"key"
JOB = "uid"
HOST = "127.0.0.1"


def always(key: bytes) -> Keys:
    """A key that is never replaced."""
    return lambda: (key,)


KEYS = always(KEY)


def pod_settings(index: int = 0, coordinator_port: int = 0, ranks: int = 1) -> PodSettings:
    """`coordinator_port`: the control port of pod 0."""
    return PodSettings(
        index,
        "test",
        JOB,
        KEYS,
        HOST,
        first_host=HOST,
        first_port=coordinator_port,
        port=0,
        ranks=ranks,
    )


def agent(index: int, coordinator_port: int = 0) -> Agent:
    """An agent that is not running, and follows pod 0 at this port."""
    pod = Agent(pod_settings(index, coordinator_port), [])
    if coordinator_port:
        pod.leadership.leader = first_leader(coordinator_port)
        pod.client.follow(pod.leadership.leader.address, pod.leadership.leader.epoch)
    return pod


def first_leader(port: int) -> Leader:
    """Pod 0 in the first epoch."""
    return Leader(0, "first", f"{HOST}:{port}", epoch=1)


@asynccontextmanager
async def listening(pod: Agent) -> AsyncIterator[int]:
    """The pod's control port."""
    server = control_server.Server(KEYS, JOB, pod.router.serve, pod.metrics)
    try:
        yield await server.start(0, HOST)
    finally:
        await server.stop()


@asynccontextmanager
async def three_pods() -> AsyncIterator[tuple[int, int, int]]:
    """The control ports of three pods; the first is pod 0's."""
    first = agent(0)
    first.client.coordinator = Coordinator(1)
    async with (
        listening(first) as port,
        listening(agent(1, port)) as second,
        listening(agent(2, port)) as third,
    ):
        yield port, second, third


async def report_to(coordinator: Coordinator, report: MemberReport) -> None:
    body = json_codec.encode(report)
    assert await coordinator.handle("POST", MEMBER_PATH, body) == (200, b"{}")


async def reply_of(coordinator: Coordinator) -> CoordinatorReply:
    """What a pod that asks now receives."""
    status, body = await coordinator.handle("GET", f"{RECORD_PATH}?after=-1", b"")
    assert status == 200
    return json_codec.decode(CoordinatorReply, body)
