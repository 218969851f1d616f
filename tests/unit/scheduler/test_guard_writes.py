"""What the actions of guards write."""

import json

import pytest

from cede.api import names
from cede.api.guards import queue_name
from cede.api.objects import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, Json
from cede.kube.errors import Conflict
from scheduler.actions import CreateGuard, DeleteGuard, JoinGuard, SetPrivateQuota
from scheduler.guard_writes import perform
from tests.fakes.api_server import ApiServer

GPU = "nvidia.com/gpu"
KEY = ("a100", GPU)
QUEUE = ("", queue_name("c-1"))
CREATE = CreateGuard("c-1", {KEY: 4}, 120)


def guard_objects(server: ApiServer) -> list[str]:
    kinds = (JOBS, LOCAL_QUEUES, CLUSTER_QUEUES)
    return [kind.kind for kind in kinds if server.objects(kind)]


async def test_a_guard_is_made_once_and_completed_after_a_crash(server: ApiServer) -> None:
    async with server.client() as client:
        await perform(client, CREATE)
        server.remove(JOBS, (names.GUARD_NAMESPACE, "c-1"))
        await perform(client, CREATE)
    assert guard_objects(server) == ["Job", "LocalQueue", "ClusterQueue"]


async def test_it_joins_only_at_the_version_observed(server: ApiServer) -> None:
    async with server.client() as client:
        await perform(client, CREATE)
        with pytest.raises(Conflict):
            await perform(client, JoinGuard("c-1", "100000", (KEY,)))
        version = (server.get(CLUSTER_QUEUES, QUEUE) or {})["metadata"]["resourceVersion"]
        await perform(client, JoinGuard("c-1", version, (KEY,)))
    assert (server.get(CLUSTER_QUEUES, QUEUE) or {})["spec"]["cohortName"] == names.COHORT


async def test_nothing_of_it_is_left_also_after_a_crash(server: ApiServer) -> None:
    async with server.client() as client:
        await perform(client, CREATE)
        server.remove(JOBS, (names.GUARD_NAMESPACE, "c-1"))
        await perform(client, DeleteGuard("c-1"))
        await perform(client, DeleteGuard("c-1"))
    assert guard_objects(server) == []


async def test_private_quota_and_its_note_come_and_go_together(server: ApiServer) -> None:
    def queue() -> Json:
        return server.get(CLUSTER_QUEUES, ("", "vision")) or {}

    own = [{"coveredResources": [GPU], "flavors": []}]
    server.put(CLUSTER_QUEUES, {"metadata": {"name": "vision"}, "spec": {"resourceGroups": own}})
    note = json.dumps({"cession": "c-1"})
    async with server.client() as client:
        version = queue()["metadata"]["resourceVersion"]
        await perform(client, SetPrivateQuota("vision", version, ({"flavors": [1]},), note))
        assert queue()["metadata"]["annotations"] == {names.PRIVATE_QUOTA: note}
        assert queue()["spec"]["resourceGroups"] == [{"flavors": [1]}]
        version = queue()["metadata"]["resourceVersion"]
        await perform(client, SetPrivateQuota("vision", version, tuple(own), ""))
    assert queue()["spec"]["resourceGroups"] == own
    assert not queue()["metadata"].get("annotations")
