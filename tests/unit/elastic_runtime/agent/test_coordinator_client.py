"""Pods forward a controller's calls to pod 0, and keep what a replaced pod 0 must learn again."""

import asyncio
import time
from dataclasses import replace
from itertools import permutations

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_client
from elastic_runtime.agent.coordination import (
    MEMBER_PATH,
    RECORD_PATH,
    STACKS_PATH,
    CoordinatorReply,
    CoordinatorState,
    MemberReport,
)
from elastic_runtime.agent.coordinator import Coordinator
from elastic_runtime.agent.coordinator_client import request_timeout_s, retry_delay_s
from elastic_runtime.agent.membership_view import HEARTBEAT_S, heartbeat_s
from elastic_runtime.agent.settings import AGENT_FD_ENV
from elastic_runtime.agent.worker_process import spawn
from elastic_runtime.contract import SizeRequest
from elastic_runtime.messages import Progress, Record
from tests.fakes.agents import (
    HOST,
    JOB,
    KEY,
    KEYS,
    agent,
    listening,
    reply_of,
    report_to,
    three_pods,
)


async def test_request_sent_to_one_pod_is_a_replay_at_every_other() -> None:
    body = contract.encode(SizeRequest(3))
    async with three_pods() as ports:
        for first, second in permutations(ports, 2):
            nonce = f"{first}-{second}"
            signed = contract.sign_request(
                KEY, "PUT", contract.SIZE_PATH, JOB, nonce, body, time.time()
            )
            reply = await control_client.forward(
                HOST, first, KEYS, "PUT", contract.SIZE_PATH, signed, body
            )
            assert contract.decode_status(reply).wanted == 3
            with pytest.raises(control_client.Refused, match="401: the request was seen before"):
                await control_client.forward(
                    HOST, second, KEYS, "PUT", contract.SIZE_PATH, signed, body
                )


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", contract.STATUS_PATH), ("POST", contract.CHECKPOINT_PATH)],
    ids=["status", "save"],
)
async def test_every_pod_answers_a_controller(method: str, path: str) -> None:
    async with three_pods() as ports:
        for port in ports:
            reply = await control_client.call(HOST, port, KEYS, JOB, method, path)
            assert contract.decode_status(reply).state == contract.State.STARTING


async def test_every_pod_returns_the_refusal_of_pod_0() -> None:
    async with three_pods() as ports:
        for port in ports:
            with pytest.raises(control_client.Refused, match="400: size is '-1'"):
                await control_client.call(
                    HOST, port, KEYS, JOB, "PUT", contract.SIZE_PATH, b'{"size": -1}'
                )


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", MEMBER_PATH), ("GET", f"{RECORD_PATH}?after=0"), ("POST", STACKS_PATH)],
)
async def test_calls_of_agents_are_answered_by_the_coordinator_only(method: str, path: str) -> None:
    async with three_pods() as (_, *others):
        for port in others:
            with pytest.raises(
                control_client.Refused, match=r"421: .* is answered by the coordinator"
            ):
                await control_client.call(HOST, port, KEYS, JOB, method, path, b"{}")


async def test_malformed_report_is_refused_in_one_line() -> None:
    async with three_pods() as (port, *_):
        with pytest.raises(control_client.Refused, match="400: index is 'x'"):
            await control_client.call(
                HOST, port, KEYS, JOB, "POST", MEMBER_PATH, b'{"index":"x","incarnation":""}'
            )


def trains(index: int) -> MemberReport:
    return MemberReport(index, f"life-{index}", HOST, generation=3, members=(0, 1), ready=True)


def coordinator_of_generation_3() -> Coordinator:
    job = Coordinator(1)
    record = Record(3, (0, 1), ("life-0", "life-1"), "here")
    job.view = replace(job.view, record=record)
    return job


async def test_replaced_coordinator_recovers_what_the_pods_kept() -> None:
    first = coordinator_of_generation_3()
    second = Coordinator(1)
    pod = agent(1)
    await first.handle("PUT", contract.SIZE_PATH, contract.encode(SizeRequest(2, "c-1")))
    saved = Progress(durable_step=7, digest="d", save_s=1.5)
    await report_to(first, replace(trains(0), progress=saved))
    pod.client.apply(await reply_of(first))
    # The second one has received no report yet: its reply must not overwrite what the pod kept.
    pod.client.apply(await reply_of(second))
    await report_to(second, replace(trains(1), kept=pod.client.kept))
    status = second.status()
    assert (status.wanted, status.cession) == (2, "c-1")
    assert (status.durableStep, status.digest, status.saveSeconds) == (7, "d", 1.5)


async def test_pods_keep_what_the_coordinator_was_asked_last() -> None:
    job = coordinator_of_generation_3()
    pod = agent(1)
    for size, cession, step in ((2, "c-1", 7), (1, "", 9)):
        await job.handle("PUT", contract.SIZE_PATH, contract.encode(SizeRequest(size, cession)))
        saved = Progress(durable_step=step, digest=f"digest-{step}", save_s=1.0)
        await report_to(job, replace(trains(0), progress=saved))
        pod.client.apply(await reply_of(job))
    assert pod.client.kept == CoordinatorState(1, durable_step=9, digest="digest-9", save_s=1.0)


async def test_finished_job_ends_a_pod_that_is_in_no_generation() -> None:
    outside = agent(2)
    member = agent(1)
    member.pool.state.generation = 3
    for pod in (outside, member):
        pod.client.apply(CoordinatorReply(finished=True))
    assert (outside.over.is_set(), outside.code) == (True, 0)
    assert not member.over.is_set()


def test_pods_of_a_large_job_wait_longer_and_do_not_come_back_together() -> None:
    assert request_timeout_s(HEARTBEAT_S) == 3.0
    assert request_timeout_s(heartbeat_s(4096)) == pytest.approx(20.48)
    delays = [retry_delay_s(HEARTBEAT_S) for _ in range(100)]
    assert 0.05 <= min(delays) < 0.1 < max(delays) <= 0.15


async def test_a_pod_reports_as_often_as_pod_0_asks() -> None:
    pod = agent(1)
    for asked, interval in ((0.5, 0.5), (0.0, HEARTBEAT_S)):
        pod.client.apply(CoordinatorReply(heartbeat_s=asked))
        assert pod.client._heartbeat_s == interval


async def test_a_reply_without_a_record_leaves_that_of_the_pod() -> None:
    pod = agent(1)
    record = Record(3, (0, 1), ("a", "b"), "here")
    pod.client.apply(CoordinatorReply(1, "c", record=record))
    pod.client.apply(CoordinatorReply(2, "c", saves_requested=1))
    assert pod.pool.record == record


async def test_a_pod_names_its_members_to_each_pod_0_once_it_was_accepted() -> None:
    """A replaced pod 0 has to learn whom to wait for; later ones it has chosen itself."""
    first = agent(0)
    first.client.coordinator = Coordinator(1)
    received = list[MemberReport]()

    async def record(report: MemberReport) -> None:
        received.append(report)
        if len(received) == 1:
            raise ValueError("refused")

    first.client.coordinator._receive = record  # type: ignore[method-assign]
    async with listening(first) as port:
        pod = agent(1, port)
        pod.pool.state.generation, pod.pool.state.members = 3, (0, 1)
        await pod.client.send_report()
        await pod.client.send_report()
        await pod.client.send_report()
        pod.pool.state.generation = 4
        await pod.client.send_report()
        # As when pod 0 is replaced.
        pod.client.close()
        await pod.client.send_report()
        pod.client.close()
    assert [report.members for report in received] == [(0, 1), (0, 1), (), (), (0, 1)]


async def test_report_that_fails_is_merged_into_the_next_one() -> None:
    # No server listens on port 0.
    pod = agent(1)
    pod.pool.state.add_progress(Progress(step=3, message="kept"))
    await pod.client.send_report()
    pod.pool.state.add_progress(Progress(step=4))
    assert pod.pool.state.progress == Progress(step=4, message="kept")


ECHO = f"""
import os, socket
agent = socket.socket(fileno=int(os.environ["{AGENT_FD_ENV}"]))
for line in agent.makefile("rb"):
    if b'"SaveRequested"' in line:
        agent.sendall(b"save")
"""


async def test_ranks_receive_save_requests_of_a_replaced_coordinator_too() -> None:
    """It counts from 0 again, though the ranks have made saves for the last one."""
    first = Coordinator(1)
    second = Coordinator(1)
    pod = agent(1)
    worker = await spawn(["-c", ECHO], pod.settings, 0, time.monotonic)
    pod.pool.workers = [worker]
    try:
        async with asyncio.timeout(20):
            for job in (first, second):
                for _ in range(2):
                    await job.handle("POST", contract.CHECKPOINT_PATH, b"")
                pod.client.apply(await reply_of(job))
                assert await worker.reader.readexactly(4) == b"save"
    finally:
        worker.kill()
        await worker.process.wait()
        worker.close()
