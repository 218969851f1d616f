"""What membership costs pod 0 of a large job: `python -m tests.bench.runtime.coordinator`.

The coordinator is the real one, with its control port, in a process of its own. The pods are
simulated in another process: each has the two connections of an agent, signs and reports as an
agent does, and has no worker.

start: all pods are ready → the last one has the first generation.
change: the size is lowered by one → the last one has the next generation.
cpu: of a core, while all pods train and nothing changes.
"""

import argparse
import asyncio
import functools
import multiprocessing
import resource
import statistics
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe

from elastic_runtime import contract, json_codec
from elastic_runtime.agent import membership
from elastic_runtime.agent.control_client import MAX_REPLY, Connection
from elastic_runtime.agent.control_server import Server
from elastic_runtime.agent.coordination import (
    MEMBER_PATH,
    RECORD_PATH,
    CoordinatorReply,
    MemberReport,
)
from elastic_runtime.agent.coordinator import Coordinator
from elastic_runtime.agent.coordinator_client import request_timeout_s, retry_delay_s
from elastic_runtime.agent.membership_view import heartbeat_s
from elastic_runtime.messages import Record, StoreOpened
from tests.fakes.agents import KEYS

JOB = "uid"
HOST = "127.0.0.1"
SIZES = (8, 64, 256, 1024, 4096)
STEADY_S = 10.0
# Plans of one picture.
PLANS = 20


@functools.cache
def decoded(body: bytes) -> CoordinatorReply:
    """Once for all pods, which in a cluster decode at the same time."""
    return json_codec.decode(CoordinatorReply, body)


class PodConnection(Connection):
    """From the address of the pod, as in a cluster: the coordinator limits what one address has."""

    def __init__(self, index: int, port: int) -> None:
        super().__init__(HOST, port, KEYS, JOB)
        self._own = f"127.1.{index // 250}.{1 + index % 250}"

    async def _connect(self) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                self.host, self.port, limit=MAX_REPLY, local_addr=(self._own, 0)
            )


class SimulatedPod:
    """Joins every generation that it receives."""

    def __init__(self, index: int, port: int, pods: int) -> None:
        self.report = MemberReport(index, f"life-{index}", HOST, ready=True)
        self._heartbeat_s = heartbeat_s(pods)
        self._changed = asyncio.Event()
        self._reports = PodConnection(index, port)
        self._replies = PodConnection(index, port)
        self.record = Record()
        # When it received the newest record.
        self.received_at = 0.0

    @property
    def _timeout_s(self) -> float:
        return request_timeout_s(self._heartbeat_s)

    async def send_reports(self) -> None:
        while True:
            self._changed.clear()
            body = json_codec.encode(self.report)
            try:
                await self._reports.call("POST", MEMBER_PATH, body, timeout_s=self._timeout_s)
            except OSError:
                # Too many pods connect at once.
                await asyncio.sleep(retry_delay_s(self._heartbeat_s))
                continue
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def receive_replies(self) -> None:
        revision = 0
        while True:
            path = f"{RECORD_PATH}?after={revision}"
            try:
                body = await self._replies.call("GET", path, timeout_s=self._timeout_s)
            except OSError:
                await asyncio.sleep(retry_delay_s(self._heartbeat_s))
                continue
            reply = decoded(body)
            revision = reply.revision
            self._heartbeat_s = reply.heartbeat_s
            if reply.record and reply.record != self.record:
                self._enter(reply.record)

    def _enter(self, record: Record) -> None:
        if record.generation != self.record.generation:
            self.received_at = time.monotonic()
        self.record = record
        index = self.report.index
        if index not in record.members:
            self.report = replace(self.report, generation=0, parked=True)
        elif record.members[0] == index and not record.store:
            self.report = replace(self.report, store=StoreOpened(record.generation, 1))
        elif record.store:
            self.report = replace(self.report, generation=record.generation)
        epoch, generation = record.order
        self.report = replace(self.report, record_epoch=epoch, record_generation=generation)
        self._changed.set()


def serve(pipe: Pipe, pods: int) -> None:
    """The process of pod 0. Answers "cpu" with its CPU seconds, "plan" with those of one plan."""
    asyncio.run(_serve(pipe, pods))


async def _serve(pipe: Pipe, pods: int) -> None:
    coordinator = Coordinator(pods - 1)

    async def handle(method: str, path: str, _: object, body: bytes) -> tuple[int, bytes]:
        return await coordinator.handle(method, path, body)

    server = Server(KEYS, JOB, handle, lambda: "")
    pipe.send(await server.start(0, HOST))
    deciding = asyncio.create_task(coordinator.run())
    loop = asyncio.get_running_loop()
    while (question := await loop.run_in_executor(None, pipe.recv)) != "end":
        pipe.send(time.process_time() if question == "cpu" else _plan_s(coordinator))
    deciding.cancel()
    await server.stop()


def _plan_s(coordinator: Coordinator) -> float:
    def once() -> float:
        began = time.perf_counter()
        membership.plan(coordinator.view, coordinator._clock(), coordinator.present_limits)
        return time.perf_counter() - began

    return statistics.median(once() for _ in range(PLANS))


async def _measure(pipe: Pipe, pods: int) -> tuple[float, float, float, float]:
    """(start_s, change_s, plan_s, cpu): see above."""
    port: int = pipe.recv()
    everybody = [SimulatedPod(index, port, pods) for index in range(pods)]
    began = time.monotonic()
    tasks = [
        asyncio.create_task(work)
        for pod in everybody
        for work in (pod.send_reports(), pod.receive_replies())
    ]
    start_s = await _until_all_train(everybody, began, size=pods, tasks=tasks)
    request = contract.encode(contract.SizeRequest(pods - 1))
    began = time.monotonic()
    asking = Connection(HOST, port, KEYS, JOB)
    await asking.call("PUT", contract.SIZE_PATH, request)
    change_s = await _until_all_train(everybody, began, size=pods - 1, tasks=tasks)
    pipe.send("plan")
    plan_s = await asyncio.to_thread(pipe.recv)
    pipe.send("cpu")
    cpu_s = await asyncio.to_thread(pipe.recv)
    await asyncio.sleep(STEADY_S)
    pipe.send("cpu")
    cpu = (await asyncio.to_thread(pipe.recv) - cpu_s) / STEADY_S
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return start_s, change_s, plan_s, cpu


async def _until_all_train(
    pods: list[SimulatedPod], began: float, *, size: int, tasks: list[asyncio.Task[None]]
) -> float:
    """Until a generation of so many has formed. Seconds from `began` until all had received it."""

    def have_formed() -> bool:
        return all(
            len(pod.record.members) == size and (pod.report.generation or pod.report.parked)
            for pod in pods
        )

    while not have_formed():
        for task in tasks:
            if task.done():
                task.result()
        await asyncio.sleep(0.02)
    return max(pod.received_at for pod in pods) - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, help="pods")
    sizes = parser.parse_args().sizes
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    context = multiprocessing.get_context("spawn")
    print("pods   start_s  change_s  plan_ms  cpu")
    for pods in sizes:
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, pods))
        process.start()
        try:
            start_s, change_s, plan_s, cpu = asyncio.run(_measure(ours, pods))
            ours.send("end")
        finally:
            process.join(10)
            process.kill()
        print(f"{pods:<6} {start_s:7.2f} {change_s:9.2f} {1000 * plan_s:8.2f}  {cpu:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
