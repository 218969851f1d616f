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
    MemberReport,
)
from elastic_runtime.agent.coordinator import Coordinator
from elastic_runtime.agent.settings import PodSettings

KEY = b"key"
JOB = "uid"
HOST = "127.0.0.1"


def pod_settings(index: int = 0, coordinator_port: int = 0, ranks: int = 1) -> PodSettings:
    """`coordinator_port`: the control port of pod 0."""
    return PodSettings(
        index,
        "test",
        JOB,
        KEY,
        HOST,
        coordinator=HOST,
        coordinator_port=coordinator_port,
        port=0,
        ranks=ranks,
    )


def agent(index: int, coordinator_port: int = 0) -> Agent:
    """An agent that is not running."""
    return Agent(pod_settings(index, coordinator_port), [])


@asynccontextmanager
async def listening(pod: Agent) -> AsyncIterator[int]:
    """The pod's control port."""
    server = control_server.Server(KEY, JOB, pod.client.serve, pod.metrics)
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
