"""What the end of a call, and of a question to the name server, says about a pod."""

import socket
from dataclasses import replace
from typing import Any

import pytest

from elastic_runtime import json_codec
from elastic_runtime.agent import peers
from elastic_runtime.agent.control_client import Refused
from elastic_runtime.agent.coordination import Standing
from elastic_runtime.agent.peers import Peer, Silence, Unnamed
from tests.fakes.agents import pod_settings

ADDRESS = "10.0.0.3"
NAME = "test-3.cede-peers"
OWN = Standing(1, "asks")
OTHER = Standing(3, "lives")
NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
NO_ADDRESS = socket.gaierror(socket.EAI_NODATA, "No address associated with hostname")
NO_NAME_SERVER = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
REFUSING_NAME_SERVER = socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure")
REFUSED = ConnectionRefusedError()
SILENT = TimeoutError()


@pytest.mark.parametrize(
    ("at_address", "by_name", "answer"),
    [
        pytest.param(OTHER, NO_NAME, OTHER, id="it answers: the name is not asked"),
        pytest.param(SILENT, OTHER, OTHER, id="it was replaced"),
        pytest.param(SILENT, SILENT, Silence.UNKNOWN, id="its name exists: its link may be cut"),
        pytest.param(SILENT, REFUSED, Silence.UNKNOWN, id="a pod in its place is about to start"),
        pytest.param(SILENT, NO_NAME, Silence.UNNAMED, id="Kubernetes has deleted it"),
        pytest.param(SILENT, NO_ADDRESS, Silence.UNNAMED, id="its name has no address"),
        pytest.param(SILENT, NO_NAME_SERVER, Silence.UNKNOWN, id="nobody knows its name"),
        pytest.param(SILENT, REFUSING_NAME_SERVER, Silence.UNKNOWN, id="the name server refuses"),
        pytest.param(Refused(403, "no"), NO_NAME, Silence.UNNAMED, id="it refuses, without a name"),
        pytest.param(REFUSED, NO_NAME, Silence.ABSENT, id="nobody listens"),
        pytest.param(Standing(5, "x"), NO_NAME, Silence.ABSENT, id="another pod has its address"),
    ],
)
async def test_a_member_is_asked_at_its_address_and_by_its_name(
    monkeypatch: pytest.MonkeyPatch, at_address: object, by_name: object, answer: object
) -> None:
    answers = {ADDRESS: at_address, NAME: by_name}
    assert await exchange(monkeypatch, answers, f"{ADDRESS}:1") == answer


@pytest.mark.parametrize(
    ("by_name", "answer"),
    [
        pytest.param(NO_NAME, Silence.ABSENT, id="no name"),
        pytest.param(NO_NAME_SERVER, Silence.UNKNOWN, id="no name server"),
        pytest.param(REFUSING_NAME_SERVER, Silence.UNKNOWN, id="a name server that refuses"),
        pytest.param(SILENT, Silence.UNKNOWN, id="silent"),
        pytest.param(OTHER, OTHER, id="it answers"),
    ],
)
async def test_a_pod_whose_address_nobody_knows_is_asked_by_its_name(
    monkeypatch: pytest.MonkeyPatch, by_name: object, answer: object
) -> None:
    assert await exchange(monkeypatch, {NAME: by_name}, "test-3.localhost:1") == answer


@pytest.mark.parametrize("address", [f"{ADDRESS}:1", "test-3.none.invalid:1"])
async def test_without_the_service_no_pod_has_a_name_and_none_is_absent_for_it(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Members may delete it."""
    answers: dict[str, object] = {ADDRESS: SILENT, NAME: NO_NAME}
    answer = await exchange(monkeypatch, answers, address, service="none.invalid")
    assert answer is Silence.UNKNOWN


async def exchange(
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[str, object],
    address: str,
    service: str = "localhost",
) -> Standing | Silence:
    """What the call of pod 3 gives. The wire is replaced: no name of a test exists."""

    async def call(host: str, *_: object, **__: object) -> bytes:
        answer: Any = answers[host.replace(service, "cede-peers")]
        if isinstance(answer, Standing):
            return json_codec.encode(answer)
        raise answer

    monkeypatch.setattr(peers, "call", call)
    settings = replace(pod_settings(1), peers=service, first_port=1)
    return await peers.exchange(settings, Peer(3, address), OWN)


def test_a_pod_without_a_name_is_absent_when_it_has_had_none_for_long() -> None:
    unnamed = Unnamed(20)
    answers = {0: Silence.UNKNOWN, 19: Silence.UNKNOWN, 20: Silence.ABSENT, 90: Silence.ABSENT}
    assert {now: unnamed.settle(3, Silence.UNNAMED, now) for now in answers} == answers
    assert unnamed.settle(2, Silence.UNNAMED, 90) is Silence.UNKNOWN, "each by itself"


def test_a_name_that_was_there_in_between_begins_the_time_again() -> None:
    unnamed = Unnamed(20)
    unnamed.settle(3, Silence.UNNAMED, 0)
    assert unnamed.settle(3, Silence.UNKNOWN, 10) is Silence.UNKNOWN
    assert unnamed.settle(3, Silence.UNNAMED, 25) is Silence.UNKNOWN
    assert unnamed.settle(3, OTHER, 30) is OTHER
    unnamed.settle(3, Silence.UNNAMED, 40)
    unnamed.clear()
    assert unnamed.settle(3, Silence.UNNAMED, 70) is Silence.UNKNOWN
