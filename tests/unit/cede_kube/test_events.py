"""Events: on which object, in which namespace, once."""

import pytest

from cede.api.objects import EVENTS, Json
from cede.kube import events
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


async def test_an_event_has_its_object_reason_note_and_controller() -> None:
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
        (event,) = server.objects(EVENTS)
        assert event["metadata"]["namespace"] == "research"
        assert event["regarding"] == JOB
        assert (event["reason"], event["note"], event["type"]) == ("Shrunk", "8 → 4", "Normal")
        assert event["eventTime"] == "1970-01-01T00:16:40.250000Z"
        assert event["reportingController"] == "cede.dev/cede-scheduler"
        assert event["action"] == "Resize"


async def test_an_equal_event_within_a_second_is_recorded_once() -> None:
    async with ApiServer() as server, server.client() as client:
        for now in (1000.1, 1000.9, 1002.0):
            await events.record(client, manager="m", regarding=JOB, reason="R", note="n", now=now)
        assert len(server.objects(EVENTS)) == 2


@pytest.mark.parametrize("name", ["vision", "x" * 253, "a" * 199 + "-b"])
async def test_events_of_cluster_scoped_objects_are_in_default(name: str) -> None:
    async with ApiServer() as server, server.client() as client:
        await events.record(
            client,
            manager="m",
            regarding=QUEUE | {"name": name},
            reason="R",
            note="→" * 5000,
            now=1.0,
        )
        (event,) = server.objects(EVENTS)
        assert event["metadata"]["namespace"] == "default"
        # the name is valid and the note short enough
        assert len(event["metadata"]["name"]) <= 253
        assert "-." not in event["metadata"]["name"]
        assert event["note"] == "→" * (1024 // 3)
