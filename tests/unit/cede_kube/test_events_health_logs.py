"""What we tell the outside: events, health, log lines."""

import json
import logging
import sys

import aiohttp
import pytest

from cede.api.objects import EVENTS, Json
from cede.kube import events, health, logs
from tests.fakes.api_server import ApiServer

JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "gpt",
    "namespace": "research",
    "uid": "1",
}
QUEUE: Json = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "name": "vision",
    "uid": "2",
}


async def test_an_event_says_what_about_whom_and_by_whom() -> None:
    async with ApiServer() as server, server.client() as client:
        await events.record(
            client,
            manager="cede-scheduler",
            regarding=JOB,
            reason="Shrunk",
            note="8 → 4",
            now=1000.25,
            action="Resize",
        )
        (found,) = server.objects(EVENTS)
        assert found["metadata"]["namespace"] == "research"
        assert (found["regarding"], found["reason"], found["note"], found["type"]) == (
            JOB,
            "Shrunk",
            "8 → 4",
            "Normal",
        )
        assert found["eventTime"] == "1970-01-01T00:16:40.250000Z"
        assert (found["reportingController"], found["action"]) == (
            "cede.dev/cede-scheduler",
            "Resize",
        )


async def test_the_same_said_twice_in_a_second_is_one_event_and_later_another() -> None:
    async with ApiServer() as server, server.client() as client:
        for now in (1000.1, 1000.9, 1002.0):
            await events.record(client, manager="m", regarding=JOB, reason="R", note="n", now=now)
        assert len(server.objects(EVENTS)) == 2


@pytest.mark.parametrize("name", ["vision", "x" * 253, "a" * 199 + "-b"])
async def test_events_of_cluster_objects_live_in_default_under_a_valid_name(name: str) -> None:
    async with ApiServer() as server, server.client() as client:
        await events.record(
            client,
            manager="m",
            regarding=QUEUE | {"name": name},
            reason="R",
            note="n" * 5000,
            now=1.0,
        )
        (found,) = server.objects(EVENTS)
        assert found["metadata"]["namespace"] == "default"
        assert len(found["metadata"]["name"]) <= 253
        assert "-." not in found["metadata"]["name"]
        assert len(found["note"]) <= 1024


async def test_health_is_alive_at_once_and_ready_when_we_say_so() -> None:
    ready = False
    async with (
        health.serve(0, lambda: ready, host="127.0.0.1") as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):

        async def status(path: str) -> int:
            async with session.get(path) as response:
                return response.status

        assert (await status("/healthz"), await status("/readyz")) == (200, 503)
        ready = True
        assert await status("/readyz") == 200
        async with session.get("/metrics") as response:
            assert "python_info" in await response.text()


def test_a_log_line_is_json_with_its_facts_and_its_error() -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        record = logging.makeLogRecord(
            {
                "name": "scheduler",
                "levelname": "INFO",
                "msg": "planned %s",
                "args": ("it",),
                "resizes": 2,
                "key": ("a", "b"),
                "why": "für 🙂",
                "created": 0.0,
                "exc_info": sys.exc_info(),
            }
        )
    text = logs.JsonLines().format(record)
    found = json.loads(text)
    assert "\n" not in text
    assert (found["message"], found["resizes"], found["key"], found["why"]) == (
        "planned it",
        2,
        ["a", "b"],
        "für 🙂",
    )
    assert (found["level"], found["from"], found["time"]) == (
        "INFO",
        "scheduler",
        "1970-01-01T00:00:00.000000Z",
    )
    assert "ValueError: boom" in found["error"]
    assert not {"pathname", "args", "exc_info", "msecs"} & found.keys()


def test_afterwards_every_logger_writes_lines_to_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = logging.getLogger()
    before = root.handlers[:]
    level = root.level
    try:
        root.handlers = []
        logs.setup("INFO")
        logging.getLogger("any").info("said", extra={"fact": 1})
        assert json.loads(capsys.readouterr().out)["fact"] == 1
    finally:
        root.handlers = before
        root.level = level
