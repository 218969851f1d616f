"""A scheduler that somebody took over changes only what the scheduler itself writes."""

import json
import time
from copy import deepcopy
from typing import Any

import pytest

from cede.api import guards, names
from cede.api.objects import (
    CLUSTER_QUEUES,
    DEPLOYMENTS,
    JOBS,
    LEADER_WORKER_SETS,
    PODS,
    WORKLOADS,
    Json,
    Kind,
)
from cede.api.reasons import SaveState
from cede.api.save_request import SaveAnswer
from scheduler.actions import (
    Action,
    CreateGuard,
    DeleteGuard,
    JoinGuard,
    RequeueWorkload,
    ResizeJob,
    SetPrivateQuota,
    SetQueueingStrategy,
    SetWorkloadActive,
)
from scheduler.apply import Applier
from scheduler.runtime_client import RuntimeClient
from scheduler.save_actions import AnswerSave
from scheduler.server_actions import DrainPod, ScaleServer
from tests.builders.jobs import elastic_job, running_job
from tests.builders.requests import GPU_FLAVOR, NOTE, SCHEDULER, groups, guard, obj, private, queue
from tests.fakes.api_server import ApiServer
from tests.harness.admission import Judge
from tests.oracle.test_rights import group_server, server

pytestmark = pytest.mark.slow
KEY = ("vision", "it")
POD_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main"}]}}


def job() -> Json:
    made = running_job(elastic_job(), 4)
    made["metadata"]["name"] = "it"
    return made


def raw_job() -> Json:
    """One of before its namespace was a team's, that Kueue resizes."""
    made = elastic_job(sizes=None, annotations={names.ELASTIC_JOB: "true"}, completions=None)
    return named(made)


def workload(**spec: Any) -> Json:
    pods = [{"name": name, "count": 4, "template": POD_TEMPLATE} for name in ("main", "other")]
    made = obj("kueue.x-k8s.io/v1beta2", "Workload", *KEY[::-1])
    made["metadata"] |= {"labels": {"a": "b"}, "annotations": {"a": "b"}}
    made["spec"] = {"podSets": deepcopy(pods), "queueName": "default", "active": True} | spec
    return made


def pod() -> Json:
    return obj("v1", "Pod", *KEY[::-1], spec={"containers": []})


def named(made: Json) -> Json:
    made["metadata"]["name"] = "it"
    return made


# --- what it writes is accepted -------------------------------------------------------------------
SAVED = SaveAnswer("r", SaveState.SAVED, "2026-01-01T00:00:00Z")


def resized(version: str, size: int, **more: bool) -> Action:
    return ResizeJob(KEY, "u", version, size, shrinks=size < 4, why="", **more)


def scaled(kind: Kind, version: str, replicas: int) -> Action:
    return ScaleServer((kind, KEY), "u", version, replicas, 4, shrinks=replicas < 4, why="")


async def written(kind: Kind, old: Json, action: Action) -> tuple[Json, Json]:
    """(before, after) the action, by the scheduler's own code. Its version is filled in."""
    async with ApiServer() as running, running.client(names.SCHEDULER) as client:
        before = running.put(kind, old)
        metadata = before["metadata"]
        for field, value in (("version", "resourceVersion"), ("uid", "uid"), ("job_uid", "uid")):
            if hasattr(action, field):
                object.__setattr__(action, field, metadata[value])
        applier = Applier(client, RuntimeClient(tuple, lambda: None), time.time)
        await applier.apply([action])
        key = (metadata.get("namespace", ""), metadata["name"])
        after = running.get(kind, key)
    assert after is not None
    assert after["metadata"]["resourceVersion"] != metadata["resourceVersion"], "it was written"
    return before, after


@pytest.mark.parametrize(
    ("kind", "old", "action"),
    [
        pytest.param(JOBS, job(), resized("", 2), id="a shrink"),
        pytest.param(JOBS, job(), resized("", 8), id="a growth"),
        pytest.param(JOBS, job(), resized("", 2, keeps_completions=True), id="completions stay"),
        pytest.param(JOBS, raw_job(), resized("", 2, keeps_completions=True), id="none to stay"),
        pytest.param(JOBS, job(), AnswerSave(KEY, "u", "", SAVED), id="an answer"),
        pytest.param(
            WORKLOADS, workload(), SetWorkloadActive(KEY, "", False, "", "c-1"), id="stop"
        ),
        pytest.param(
            WORKLOADS, workload(active=False), SetWorkloadActive(KEY, "", True, ""), id="run again"
        ),
        pytest.param(WORKLOADS, workload(), RequeueWorkload(KEY, "", "main", "now"), id="requeue"),
        pytest.param(
            CLUSTER_QUEUES, queue(), SetQueueingStrategy("vision", "StrictFIFO", ""), id="strict"
        ),
        pytest.param(
            CLUSTER_QUEUES,
            queue(),
            SetPrivateQuota("vision", "", tuple(groups("6", lendingLimit="0")), NOTE),
            id="private quota",
        ),
        pytest.param(
            CLUSTER_QUEUES,
            private(),
            SetPrivateQuota("vision", "", tuple(groups()), ""),
            id="no private quota any more",
        ),
        pytest.param(CLUSTER_QUEUES, guard(), JoinGuard("c-1", "", (GPU_FLAVOR,)), id="a guard"),
        pytest.param(DEPLOYMENTS, named(server(4)), scaled(DEPLOYMENTS, "", 2), id="a server"),
        pytest.param(
            LEADER_WORKER_SETS,
            named(group_server(4)),
            scaled(LEADER_WORKER_SETS, "", 2),
            id="a server of groups",
        ),
        pytest.param(PODS, pod(), DrainPod(KEY, "u", (DEPLOYMENTS, KEY), ""), id="a mark"),
    ],
)
async def test_what_the_scheduler_writes_is_accepted(
    judge: Judge, kind: Kind, old: Json, action: Action
) -> None:
    before, after = await written(kind, old, action)
    assert judge(after, SCHEDULER, old=before) == []


async def test_the_queue_of_a_guard_is_accepted(judge: Judge) -> None:
    async with ApiServer() as running, running.client(names.SCHEDULER) as client:
        applier = Applier(client, RuntimeClient(tuple, lambda: None), time.time)
        await applier.apply([CreateGuard("c-1", {GPU_FLAVOR: 4}, guards.LIMIT_S)])
        [made] = running.objects(CLUSTER_QUEUES)
        assert (
            judge(guard() | {"metadata": made["metadata"], "spec": made["spec"]}, SCHEDULER) == []
        )
        await applier.apply([DeleteGuard("c-1")])
    assert judge(guard(), SCHEDULER, deletion={}) == []


# --- and nothing else -----------------------------------------------------------------------------
NOTES: list[Json] = [
    {"labels": {names.QUEUE_NAME: "other"}},
    {"labels": {}},
    {"annotations": {"a": "c"}},
    {"annotations": {}},
    {"ownerReferences": [{"uid": "1"}]},
    {"finalizers": ["x/y"]},
]


@pytest.mark.parametrize("metadata", NOTES, ids=json.dumps)
@pytest.mark.parametrize("old", [job(), workload(), queue()], ids=lambda old: old["kind"])
def test_the_scheduler_changes_no_marks_of_others(judge: Judge, old: Json, metadata: Json) -> None:
    """Such as the queue or the priority class of a job."""
    before, after = deepcopy(old), deepcopy(old)
    before["metadata"].setdefault("annotations", {"a": "b"})
    before["metadata"]["labels"]["x"] = "y"
    after["metadata"] = before["metadata"] | metadata
    assert judge(before, SCHEDULER, old=before) == []
    assert judge(after, SCHEDULER, old=before)


@pytest.mark.parametrize(
    "spec",
    [
        {"suspend": True},
        {"managedBy": "example.com/other"},
        {"backoffLimit": 0},
        {"backoffLimitPerIndex": 0},
        {"activeDeadlineSeconds": 1},
        {"ttlSecondsAfterFinished": 0},
        {"podFailurePolicy": {"rules": []}},
        {"template": {"spec": {"hostPID": True}}},
        {"aFieldOfTomorrow": True},
    ],
    ids=json.dumps,
)
def test_the_scheduler_resizes_and_changes_nothing_else_of_a_job(judge: Judge, spec: Json) -> None:
    old, new = job(), job()
    new["spec"] |= {"parallelism": 2, "completions": 2}
    assert judge(new, SCHEDULER, old=old) == []
    assert judge(new, SCHEDULER, old=old, labels={}), "not in a namespace of no team"
    new["spec"] |= spec
    assert judge(new, SCHEDULER, old=old)
    assert judge(old, SCHEDULER, old=new), "nor does it remove a field"


@pytest.mark.parametrize(
    "spec",
    [
        {"queueName": "other"},
        {"priority": 1_000_000},
        {"priorityClassRef": {"name": "urgent"}},
        {"maximumExecutionTimeSeconds": 1},
        {"preemptionGates": []},
    ],
    ids=json.dumps,
)
def test_the_scheduler_stops_workloads_and_changes_nothing_else_of_them(
    judge: Judge, spec: Json
) -> None:
    stopped = workload(active=False)
    assert judge(stopped, SCHEDULER, old=workload()) == []
    assert judge(stopped, SCHEDULER, old=workload(), labels={}), "not in a namespace of no team"
    assert judge(workload(), SCHEDULER, old=stopped, labels={}) == [], "it may run again there"
    assert judge(workload(**spec), SCHEDULER, old=workload())


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 1},
        {"minCount": 1},
        {"topologyRequest": {"required": "rack"}},
        {"name": "another"},
        {"template": {"spec": {"containers": []}}},
        {"template": POD_TEMPLATE | {"metadata": {"labels": {"a": "c"}}}},
        {
            "template": POD_TEMPLATE
            | {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}}
        },
    ],
    ids=json.dumps,
)
def test_the_scheduler_changes_no_pods_of_a_workload(judge: Judge, changes: Json) -> None:
    changed = workload()
    changed["spec"]["podSets"][1] |= changes
    assert judge(changed, SCHEDULER, old=workload())
    assert judge(workload(), SCHEDULER, old=changed)
    fewer = workload()
    del fewer["spec"]["podSets"][1]
    assert judge(fewer, SCHEDULER, old=workload())
