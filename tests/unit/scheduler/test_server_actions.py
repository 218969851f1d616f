"""What is written when a server cedes, and when it gets its replicas back."""

from dataclasses import replace

import pytest

from cede.api import names
from cede.api.objects import DEPLOYMENTS, EVENTS, LEADER_WORKER_SETS, PODS, Json
from cede.kube.errors import Forbidden
from scheduler.actions import shrink
from scheduler.apply import Applier
from scheduler.server_actions import DrainPod, ScaleServer, scaled_down
from tests.builders.scheduler import admitted
from tests.builders.servers import CHAT, deployment, groups, leader_worker_set, pods, serving
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer

SERVER = (DEPLOYMENTS, CHAT)
DRAIN = DrainPod(("research", "chat-3"), "uid-pod", SERVER, "for claim of vision")


def put(server: ApiServer, labels: Json | None = None, **notes: str) -> str:
    metadata = {"namespace": CHAT[0], "name": CHAT[1], "labels": labels or {}, "annotations": notes}
    stored = server.put(DEPLOYMENTS, {"metadata": metadata, "spec": {"replicas": 4}})
    return str(stored["metadata"]["resourceVersion"])


def scale(version: str, replicas: int, desired: int, *, shrinks: bool = False) -> ScaleServer:
    return ScaleServer(SERVER, "u", version, replicas, desired, shrinks, "for claim of vision")


def stored(server: ApiServer) -> tuple[int, str, Json]:
    chat = server.get(DEPLOYMENTS, CHAT) or {}
    metadata = chat["metadata"]
    return chat["spec"]["replicas"], metadata["labels"][names.SERVER], metadata["annotations"]


def test_a_server_loses_as_many_replicas_as_drain_and_those_that_wait() -> None:
    current = serving(deployment(6), pods(4))
    drains = [shrink(job, 0, "why") for job in current.admitted if job.drains]
    [action] = scaled_down([*drains, shrink(admitted(), 4, "why")], current)
    assert (action.server, action.version, action.replicas) == (SERVER, "5", 2)
    assert (action.desired_size, action.shrinks) == (6, True)


def test_a_server_that_cedes_again_gets_back_what_it_had_at_first() -> None:
    current = serving(deployment(3, desired=4), pods(3))
    drains = [shrink(job, 0, "why") for job in current.admitted if job.drains]
    [action] = scaled_down(drains, current)
    assert (action.replicas, action.desired_size) == (2, 4)


def test_a_server_that_would_lose_other_groups_than_those_that_drain_keeps_them() -> None:
    """Such as if only the first of two is on the node that the preemptor needs."""
    current = serving(leader_worker_set(3, "1-3"), groups(3))
    first, last = (shrink(job, 0, "why") for job in current.admitted if job.drains)
    assert list(scaled_down([first], current)) == []
    assert [action.replicas for action in scaled_down([last], current)] == [2]
    assert [action.replicas for action in scaled_down([first, last], current)] == [1]


def test_a_pod_that_drains_for_two_reasons_is_one_replica_less() -> None:
    """Otherwise a replica would go with it that nobody chose, maybe below the smallest size."""
    current = serving(leader_worker_set(2, "1-2"), groups(2))
    [last] = (shrink(job, 0, "why") for job in current.admitted if job.drains)
    assert [action.replicas for action in scaled_down([last, last], current)] == [1]


async def test_a_scheduler_without_rights_to_groups_knows_that_it_has_lost_them(
    server: ApiServer, applier: Applier
) -> None:
    """Their drain writes nothing, so it is no sign that others are answered."""
    no_right = refuses(403, "Forbidden", 'User "cede-scheduler" cannot patch resource')
    actions = list[DrainPod | ScaleServer]()
    for name in ("chat", "code"):
        key = ("research", name)
        server.script("PATCH", LEADER_WORKER_SETS.path(key), no_right)
        sets = (LEADER_WORKER_SETS, key)
        drain = replace(DRAIN, job=key, server=sets)
        actions += [drain, replace(scale("1", 3, 4, shrinks=True), server=sets)]
    with pytest.raises(Forbidden):
        await applier.apply(actions)


async def test_a_group_needs_no_mark(server: ApiServer, applier: Applier) -> None:
    metadata = {"namespace": CHAT[0], "name": CHAT[1]}
    made = server.put(LEADER_WORKER_SETS, {"metadata": metadata, "spec": {"replicas": 4}})
    version = str(made["metadata"]["resourceVersion"])
    sets = (LEADER_WORKER_SETS, CHAT)
    drain = replace(DRAIN, job=CHAT, server=sets)
    await applier.apply([drain, replace(scale(version, 3, 4, shrinks=True), server=sets)])
    chat = server.get(LEADER_WORKER_SETS, CHAT) or {}
    assert chat["spec"]["replicas"] == 3
    paths = [path for _, path, *_ in server.writes() if "events" not in path]
    assert paths == [LEADER_WORKER_SETS.path(CHAT)]
    [event] = server.objects(EVENTS)
    assert event["regarding"]["kind"] == "LeaderWorkerSet"


async def test_a_pod_is_marked_before_its_server_is_scaled_down(
    server: ApiServer, applier: Applier
) -> None:
    version = put(server)
    metadata = {"namespace": "research", "name": "chat-3", "uid": "uid-pod"}
    server.put(PODS, {"metadata": metadata, "spec": {}})
    await applier.apply([DRAIN, scale(version, 3, 4, shrinks=True)])
    pod = server.get(PODS, DRAIN.job) or {}
    assert pod["metadata"]["annotations"] == {names.POD_DELETION_COST: "-1"}
    replicas, label, notes = stored(server)
    assert (replicas, label, notes[names.DESIRED_SIZE]) == (3, names.CEDED, "4")
    assert notes[names.SHRUNK_AT]
    paths = [path for _, path, *_ in server.writes() if "events" not in path]
    assert paths == [PODS.path(DRAIN.job), DEPLOYMENTS.path(CHAT)]
    [event] = server.objects(EVENTS)
    assert (event["reason"], event["regarding"]["kind"]) == ("Shrunk", "Deployment")
    assert event["note"] == "to 3 replicas: for claim of vision"


@pytest.mark.parametrize(
    "fault",
    [refuses(422, "Invalid"), refuses(403, "Forbidden"), refuses(404, "NotFound")],
    ids=["invalid", "denied", "the pod has gone"],
)
async def test_a_server_keeps_its_replicas_while_one_of_its_pods_cannot_be_marked(
    server: ApiServer, applier: Applier, fault: Answer
) -> None:
    """Kubernetes would delete another pod. The next pass tries again; other servers do not wait."""
    version = put(server)
    other = server.put(
        DEPLOYMENTS,
        {"metadata": {"namespace": "research", "name": "other"}, "spec": {"replicas": 4}},
    )
    metadata = {"namespace": "research", "name": "chat-3", "uid": "uid-pod"}
    server.put(PODS, {"metadata": metadata, "spec": {}})
    down = scale(version, 3, 4, shrinks=True)
    other_key = ("research", "other")
    version = other["metadata"]["resourceVersion"]
    beside = replace(down, server=(DEPLOYMENTS, other_key), version=version)
    server.script("PATCH", PODS.path(DRAIN.job), fault)
    await applier.apply([DRAIN, down, beside])
    written = [path for _, path in server.writes() if "/deployments/" in path]
    assert written == [DEPLOYMENTS.path(other_key)]
    await applier.apply([DRAIN, down])
    assert stored(server)[0] == 3


async def test_a_server_that_gets_all_back_has_no_notes(
    server: ApiServer, applier: Applier
) -> None:
    notes = {names.DESIRED_SIZE: "4", names.SHRUNK_AT: "2026-01-01T00:00:00Z", "own": "note"}
    version = put(server, {names.SERVER: names.CEDED}, **notes)
    await applier.apply([scale(version, 4, 4)])
    assert stored(server) == (4, names.WHOLE, {"own": "note"})


async def test_a_server_that_gets_some_back_keeps_its_notes(
    server: ApiServer, applier: Applier
) -> None:
    notes = {names.DESIRED_SIZE: "4", names.SHRUNK_AT: "2026-01-01T00:00:00Z"}
    version = put(server, {names.SERVER: names.CEDED}, **notes)
    await applier.apply([scale(version, 3, 4)])
    assert stored(server) == (3, names.CEDED, notes)


@pytest.mark.parametrize("outdated", ["1", "999"])
async def test_a_server_that_somebody_else_changed_meanwhile_is_left_alone(
    server: ApiServer, applier: Applier, outdated: str
) -> None:
    put(server, {names.SERVER: names.WHOLE})
    put(server, {names.SERVER: names.WHOLE})
    await applier.apply([scale(outdated, 2, 4, shrinks=True)])
    assert stored(server)[:2] == (4, names.WHOLE)
