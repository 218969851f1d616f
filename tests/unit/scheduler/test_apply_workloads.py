"""What actions write to Workloads."""

import msgspec

from cede.api import names
from cede.api.kueue import Workload
from cede.api.objects import WORKLOADS
from scheduler.actions import RequeueWorkload, SetWorkloadActive
from scheduler.apply import Applier
from scheduler.snapshot.snapshot import RawObjects
from tests.fakes.api_server import ApiServer


async def test_a_requeued_workload_has_another_spec_and_requests_the_same(
    server: ApiServer, applier: Applier
) -> None:
    key = ("vision", "job-claim")
    pods = {"name": "main", "count": 4, "template": {"spec": {"containers": [{"name": "main"}]}}}
    metadata = {"namespace": key[0], "name": key[1]}
    body = {"metadata": metadata, "spec": {"podSets": [pods, pods | {"name": "other"}]}}
    created = server.put(WORKLOADS, body)["metadata"]
    await applier.apply([RequeueWorkload(key, created["uid"], "main", "2026-01-01T00:00:00Z")])
    requeued = server.get(WORKLOADS, key) or {}
    assert requeued["metadata"]["generation"] == created["generation"] + 1
    [annotated, other] = requeued["spec"]["podSets"]
    template = annotated["template"]
    assert template.pop("metadata") == {"annotations": {names.REQUEUED_AT: "2026-01-01T00:00:00Z"}}
    assert [annotated, other] == [pods, pods | {"name": "other"}]


async def test_a_workload_that_has_changed_meanwhile_is_not_requeued(
    server: ApiServer, applier: Applier
) -> None:
    """It may be admitted by now."""
    key = ("vision", "job-claim")
    spec = {"podSets": [{"name": "main"}]}
    old = server.put(WORKLOADS, {"metadata": {"namespace": key[0], "name": key[1]}, "spec": spec})
    planned_on = RawObjects(workloads=[msgspec.convert(old, Workload)])
    new = server.put(WORKLOADS, old | {"status": {"conditions": []}})
    requeue = RequeueWorkload(key, old["metadata"]["uid"], "main", "now")
    await applier.apply([requeue], planned_on)
    assert server.get(WORKLOADS, key) == new


async def test_a_workload_that_is_gone_is_not_made_by_requeuing_it(
    server: ApiServer, applier: Applier
) -> None:
    await applier.apply([RequeueWorkload(("vision", "job-claim"), "u", "main", "now")])
    assert server.objects(WORKLOADS) == []


async def test_a_stopped_workload_names_its_cession_until_it_may_run_again(
    server: ApiServer, applier: Applier
) -> None:
    key = ("research", "job-gpt")
    metadata = {"namespace": key[0], "name": key[1], "labels": {"app": "it"}}
    uid = server.put(WORKLOADS, {"metadata": metadata, "spec": {}})["metadata"]["uid"]
    await applier.apply([SetWorkloadActive(key, uid, False, "why", "c-1")])
    stopped = server.get(WORKLOADS, key) or {}
    assert stopped["spec"]["active"] is False
    assert stopped["metadata"]["labels"] == {"app": "it", names.STOPPED_FOR: "c-1"}
    await applier.apply([SetWorkloadActive(key, uid, True, "why")])
    running = server.get(WORKLOADS, key) or {}
    assert running["spec"]["active"] is True
    assert running["metadata"]["labels"] == {"app": "it"}


async def test_a_workload_that_was_made_again_under_the_same_name_is_not_stopped(
    server: ApiServer, applier: Applier
) -> None:
    key = ("research", "job-gpt")
    server.put(WORKLOADS, {"metadata": {"namespace": key[0], "name": key[1]}, "spec": {}})
    await applier.apply([SetWorkloadActive(key, "uid-of-another", False, "why", "c-1")])
    assert (server.get(WORKLOADS, key) or {})["spec"] == {}


async def test_a_late_stop_of_an_earlier_leader_stops_nothing(
    server: ApiServer, applier: Applier
) -> None:
    key = ("research", "job-gpt")
    put = server.put(
        WORKLOADS, {"metadata": {"namespace": key[0], "name": key[1]}, "spec": {"active": True}}
    )
    planned_on = RawObjects(workloads=[msgspec.convert(put, Workload)])
    server.put(WORKLOADS, put | {"status": {"conditions": []}})
    stop = SetWorkloadActive(key, put["metadata"]["uid"], False, "why", "c-1")
    await applier.apply([stop], planned_on)
    assert (server.get(WORKLOADS, key) or {})["spec"] == {"active": True}
