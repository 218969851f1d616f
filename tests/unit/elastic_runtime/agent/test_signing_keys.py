"""Keys are replaced under a running job: no request is lost, and a key that ended signs none."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_client
from elastic_runtime.agent.control_server import Server
from elastic_runtime.agent.signing_keys import REREAD_S, KeyFile, Keys
from tests.fakes.agents import HOST, JOB, always

OLD = b"old"
NEW = b"new"
START = 1000.0
PATH = contract.STATUS_PATH


class Clock:
    now = START

    def __call__(self) -> float:
        return self.now


class Pod:
    """A pod with a file of its own, as its kubelet writes it."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.path.write_bytes(OLD)
        self.clock = clock
        self.keys = KeyFile(path, clock)

    def receive_new_key(self) -> None:
        self.path.write_bytes(contract.replace_key(OLD, NEW, OLD, START))
        self.clock.now += REREAD_S


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pods(tmp_path: Path, clock: Clock) -> list[Pod]:
    return [Pod(tmp_path / str(index), clock) for index in range(3)]


async def answer(method: str, path: str, _: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
    return 200, b"{}"


@asynccontextmanager
async def listening(keys: Keys) -> AsyncIterator[int]:
    server = Server(keys, JOB, answer, lambda: "")
    try:
        yield await server.start(0, HOST)
    finally:
        await server.stop()


async def all_call_all(pods: list[Pod]) -> None:
    for server in pods:
        async with listening(server.keys) as port:
            for client in pods:
                reply = await control_client.call(HOST, port, client.keys, JOB, "GET", PATH)
                assert reply == b"{}"


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_pods_reach_each_other_whoever_reads_the_new_key_first(
    order: tuple[int, ...], pods: list[Pod]
) -> None:
    await all_call_all(pods)
    for index in order:
        pods[index].receive_new_key()
        await all_call_all(pods)


async def test_a_connection_that_is_open_survives_the_new_key(pods: list[Pod]) -> None:
    server, client, _ = pods
    async with listening(server.keys) as port:
        connection = control_client.Connection(HOST, port, client.keys, JOB)
        for step in (client.receive_new_key, server.receive_new_key, lambda: None):
            assert await connection.call("GET", PATH) == b"{}"
            step()
        assert await connection.call("GET", PATH) == b"{}"
        connection.close()


async def test_a_key_past_its_end_is_refused(pods: list[Pod], clock: Clock) -> None:
    pods[0].receive_new_key()
    async with listening(pods[0].keys) as port:
        clock.now = START + contract.KEY_OVERLAP_S - 1
        assert await control_client.call(HOST, port, always(OLD), JOB, "GET", PATH)
        clock.now = START + contract.KEY_OVERLAP_S
        with pytest.raises(control_client.Refused, match=f"401: {contract.WRONG_SIGNATURE}"):
            await control_client.call(HOST, port, always(OLD), JOB, "GET", PATH)
        assert await control_client.call(HOST, port, always(NEW), JOB, "GET", PATH)


async def test_a_pod_that_never_reads_the_new_key_answers_who_knows_the_old(
    pods: list[Pod], clock: Clock
) -> None:
    """As the scheduler, which keeps the root key before."""
    clock.now = START + 2 * contract.KEY_OVERLAP_S
    async with listening(pods[0].keys) as port:
        assert await control_client.call(HOST, port, lambda: (NEW, OLD), JOB, "GET", PATH)


async def test_other_refusals_are_not_tried_with_an_older_key(pods: list[Pod]) -> None:
    pods[0].receive_new_key()
    async with listening(pods[0].keys) as port:
        with pytest.raises(control_client.Refused, match="for another job"):
            await control_client.call(HOST, port, pods[0].keys, "another", "GET", PATH)


async def test_a_request_that_is_passed_on_is_answered_with_the_key_that_signed_it(
    pods: list[Pod],
) -> None:
    for pod in pods:
        pod.receive_new_key()
    async with listening(pods[1].keys) as port:
        signed = contract.sign_request(OLD, "GET", PATH, JOB, "once", b"", time.time())
        assert await control_client.forward(HOST, port, pods[0].keys, "GET", PATH, signed, b"")


@pytest.mark.parametrize("content", [None, b"", b"new soon"], ids=["no file", "empty", "no time"])
def test_a_file_without_a_key_counts_as_it_last_was(
    content: bytes | None, pods: list[Pod], clock: Clock
) -> None:
    if content is None:
        pods[0].path.unlink()
    else:
        pods[0].path.write_bytes(content)
    clock.now += REREAD_S
    assert pods[0].keys() == (OLD,)


def test_a_pod_without_a_key_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        KeyFile(tmp_path / "nowhere")
    (tmp_path / "key").touch()
    with pytest.raises(FileNotFoundError, match="a key in "):
        KeyFile(tmp_path / "key")
