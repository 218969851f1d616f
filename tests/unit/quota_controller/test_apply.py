"""What is not ours, what others edit, what the server refuses, and that any interruption heals."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    COHORTS,
    EVENTS,
    LOCAL_QUEUES,
    NAMESPACES,
    POLICIES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    Json,
    Kind,
)
from cede.kube.errors import ApiError
from quota_controller.controller import RETRY_MOST_S, RETRY_S
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.harness.quota_controller import (
    MADE,
    World,
    allocate,
    fill,
    filled,
    place_node,
    started,
    there,
)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with filled() as world:
        yield world


# --- others ---------------------------------------------------------------------------------------
async def test_a_strangers_queue_is_never_touched_and_the_clash_is_said(world: World) -> None:
    stranger = world.server.put(
        CLUSTER_QUEUES, {"metadata": {"name": "vision"}, "spec": {"cohortName": "theirs"}}
    )
    await world.settle(kueue=False)
    assert world.server.get(CLUSTER_QUEUES, ("", "vision")) == stranger
    assert world.ready()["reason"] == "NotOurs"
    assert "ClusterQueue vision exists and is not ours" in world.ready()["message"]
    assert world.server.get(LOCAL_QUEUES, ("vision", "default")) is None, (
        "it would give away the stranger's quota"
    )
    assert world.server.get(LOCAL_QUEUES, ("research", "default")), "others are served"
    world.server.remove(CLUSTER_QUEUES, ("", "vision"))
    await world.settle()
    assert world.ready()["status"] == "True"


STRANGERS: list[tuple[Kind, tuple[str, str], str, str]] = [
    (CLUSTER_QUEUES, ("", "vision"), "vision", "name the allocation otherwise"),
    (LOCAL_QUEUES, ("vision", "default"), "vision", "give the team another namespace"),
    (SERVICES, ("vision", "cede-peers"), "vision", "give the team another namespace"),
    (SECRETS, ("vision", "cede-control"), "vision", "give the team another namespace"),
    (ROLE_BINDINGS, ("vision", "cede-members"), "vision", "give the team another namespace"),
    (RESOURCE_FLAVORS, ("", "local"), "", "name the instance type otherwise"),
    (PRIORITY_CLASSES, ("", "training"), "", "name the priority class otherwise"),
    (COHORTS, ("", "cede"), "", "delete it"),
]


@pytest.mark.parametrize(
    ("kind", "key", "team", "cure"), [pytest.param(*one, id=one[0].kind) for one in STRANGERS]
)
async def test_a_strangers_object_of_any_kind_is_left_alone(
    world: World, kind: Kind, key: tuple[str, str], team: str, cure: str
) -> None:
    world.server.put(NAMESPACES, {"metadata": {"name": "vision"}})
    members = [{"kind": "Group", "name": "vision-team"}]
    allocate(world.server, "vision", namespace={"name": "vision", "adopt": True}, members=members)
    meta = {"name": key[1]} | ({"namespace": key[0]} if key[0] else {})
    stranger = world.server.put(
        kind, {"metadata": meta, "spec": {"theirs": True}, "data": {"key": "dGhlaXJz"}}
    )
    await world.settle(kueue=False)
    assert world.server.get(kind, key) == stranger
    status = there(world.server, ALLOCATIONS if team else POLICIES, ("", team or "default"))[
        "status"
    ]
    ready = next(c for c in status["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NotOurs")
    assert f"{kind.kind} {key[1]}" in ready["message"]
    assert cure in ready["message"]
    assert world.server.get(LOCAL_QUEUES, ("research", "default")), "others are served"
    world.server.remove(kind, key)
    await world.settle()
    assert world.ready("vision")["status"] == "True", "and it heals"


async def test_an_object_of_ours_that_lost_its_labels_is_taken_back(world: World) -> None:
    await world.settle()
    queue = there(world.server, CLUSTER_QUEUES, ("", "vision"))
    queue["metadata"] |= {
        "labels": {},
        "managedFields": [{"manager": names.QUOTA_CONTROLLER, "operation": "Apply"}],
    }
    world.server.put(CLUSTER_QUEUES, queue)
    world.now += 60
    await world.settle()
    assert (
        there(world.server, CLUSTER_QUEUES, ("", "vision"))["metadata"]["labels"][names.ALLOCATION]
        == "vision"
    )


async def test_manual_edits_are_put_back_and_the_schedulers_field_is_not_ours(world: World) -> None:
    await world.settle()
    queue = there(world.server, CLUSTER_QUEUES, ("", "vision"))
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "400"
    queue["spec"]["queueingStrategy"] = "StrictFIFO"
    world.server.put(CLUSTER_QUEUES, queue)
    world.server.remove(SERVICES, ("vision", "cede-peers"))
    world.now += 60
    await world.settle()
    assert world.nominal() == "4"
    assert world.queue()["queueingStrategy"] == "StrictFIFO"
    assert world.server.get(SERVICES, ("vision", "cede-peers"))


# --- edits ----------------------------------------------------------------------------------------
def put_back(world: World) -> dict[str, str]:
    """What events say of edits, by the object they belong to."""
    found = [e for e in world.server.objects(EVENTS) if e["reason"] == "PutBack"]
    assert {e["type"] for e in found} <= {"Warning"}
    return {e["regarding"]["name"]: e["note"] for e in found}


def by(manager: str, *path: str) -> Json:
    """An entry of managedFields for one field."""
    fields: Json = {}
    for step in reversed(path):
        fields = {f"f:{step}": fields}
    return {
        "manager": manager,
        "operation": "Update",
        "time": "2027-01-01T00:00:00Z",
        "fieldsV1": fields,
    }


async def test_an_edit_is_put_back_and_told_with_its_author_and_once(world: World) -> None:
    await world.settle()
    for value in ("Hold", "HoldAndDrain"):
        queue = there(world.server, CLUSTER_QUEUES, ("", "vision"))
        queue["spec"] |= {"stopPolicy": value, "queueingStrategy": "StrictFIFO"}
        queue["metadata"]["managedFields"] = [
            by("kubectl-edit", "spec", "stopPolicy"),
            by("kueue", "status"),
        ]
        world.server.put(CLUSTER_QUEUES, queue)
        world.now += 10
        await world.settle()
    assert (world.queue()["stopPolicy"], world.queue()["queueingStrategy"]) == (
        "None",
        "StrictFIFO",
    )
    assert put_back(world) == {
        "vision": (
            "ClusterQueue vision was changed by kubectl-edit: spec.stopPolicy was Hold, is "
            "None again"
        ),
    }


async def test_what_all_share_belongs_to_the_policy(world: World) -> None:
    await world.settle()
    found = there(world.server, PRIORITY_CLASSES, ("", "training"))
    world.server.put(PRIORITY_CLASSES, found | {"value": 99})
    world.now += 60
    await world.settle()
    assert put_back(world) == {
        "default": "WorkloadPriorityClass training was changed: value was 99, is 50 again"
    }


async def test_a_deleted_object_is_made_again_and_told(world: World) -> None:
    await world.settle()
    world.server.remove(SERVICES, ("vision", "cede-peers"))
    world.now += 60
    await world.settle()
    assert put_back(world) == {
        "vision": "Service cede-peers in namespace vision was deleted, and is made again"
    }


async def test_a_secret_is_put_back_and_its_values_are_told_to_nobody(world: World) -> None:
    await world.settle()
    found = there(world.server, SECRETS, ("vision", "cede-control"))
    world.server.put(SECRETS, found | {"data": {"key": "c3RvbGVu"}})
    world.now += 60
    await world.settle()
    assert there(world.server, SECRETS, ("vision", "cede-control")) | {"metadata": {}} == found | {
        "metadata": {}
    }
    assert put_back(world) == {
        "vision": "Secret cede-control in namespace vision was changed: data.key was changed"
    }


async def test_what_the_admin_or_the_cluster_changes_is_no_edit(world: World) -> None:
    await world.settle()
    allocate(world.server, "vision", quotas=[{"instanceType": "local", "accelerators": 2}])
    await world.settle()
    place_node(world.server, "n2", ready="False")
    await world.settle()
    allocate(world.server, "research", team="lab")
    await world.settle()
    # the scheduler is gone
    world.now += 500
    await world.settle()
    assert put_back(world) == {}


async def test_another_leader_knows_an_edit_by_its_author(world: World) -> None:
    await world.settle()
    queue = there(world.server, CLUSTER_QUEUES, ("", "vision"))
    queue["spec"]["stopPolicy"] = "Hold"
    queue["metadata"]["managedFields"] = [
        by("argocd", "spec", "stopPolicy"),
        by(names.QUOTA_CONTROLLER, "spec", "fairSharing"),
    ]
    world.server.put(CLUSTER_QUEUES, queue)
    allocate(world.server, "vision", fairShareWeight=7)
    async with started(world.server) as second:
        second.renew()
        await second.settle()
    assert put_back(world) == {
        "vision": (
            "ClusterQueue vision was changed by argocd: spec.stopPolicy was Hold, is None again"
        )
    }


# --- what the server refuses ----------------------------------------------------------------------
REFUSALS = [
    (422, "Invalid", "Refused", "was refused: not so"),
    (403, "Forbidden", "Refused", "was refused: not so"),
    (400, "BadRequest", "Refused", "was refused: not so"),
    (409, "Conflict", "TriedAgain", "changed meanwhile: it is tried again"),
    (404, "NotFound", "TriedAgain", "changed meanwhile: it is tried again"),
    (500, "InternalError", "TriedAgain", "could not be written and is tried again: not so"),
]


@pytest.mark.parametrize(
    ("code", "reason", "told", "words"), REFUSALS, ids=[str(one[0]) for one in REFUSALS]
)
@pytest.mark.parametrize(
    "kind", [CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS], ids=lambda kind: kind.plural
)
async def test_what_the_server_refuses_is_said_and_the_rest_goes_on(
    world: World, kind: Kind, code: int, reason: str, told: str, words: str
) -> None:
    """One team's object, or one flavor of all: the other team is served whole, and so is what comes
    after it in the plan."""
    of = {
        CLUSTER_QUEUES: "/research",
        LOCAL_QUEUES: "/namespaces/research/",
        RESOURCE_FLAVORS: "/local",
    }[kind]

    def refuses(method: str, at: str, body: Any) -> web.Response | None:
        return (
            refusal(code, reason, "not so")
            if method == "PATCH" and f"/{kind.plural}" in at and of in at
            else None
        )

    world.server.admission_hook = refuses
    rests = []
    # many passes in one moment are no reason to wait
    for passed in (0, 0, 0, 0, 0, 10, 100):
        world.now += passed
        world.renew()
        world.kueue()
        await world.caught_up()
        rests.append(await world.controller.reconcile())
    assert rests == [RETRY_S] * 5 + [10, RETRY_MOST_S], (
        "it is tried again soon, and while nothing changes ever more seldom"
    )
    assert world.server.get(LOCAL_QUEUES, ("vision", "default"))
    assert world.server.get(PRIORITY_CLASSES, ("", "training"))
    of_all = kind == RESOURCE_FLAVORS
    status = there(
        world.server, *((POLICIES, ("", "default")) if of_all else (ALLOCATIONS, ("", "research")))
    )["status"]
    ready = next(c for c in status["conditions"] if c["type"] == "Ready")
    assert (ready["reason"], words in ready["message"]) == (told, True)
    assert world.ready("vision")["status"] == "True"
    world.server.admission_hook = lambda method, path, body: None
    await world.settle()
    assert world.ready("research")["status"] == "True", "and it heals"


async def test_a_server_that_is_gone_ends_the_pass_and_is_no_fault_of_anybody(world: World) -> None:
    world.server.admission_hook = lambda method, at, body: refusal(
        503, "ServiceUnavailable", "back soon"
    )
    with pytest.raises(ApiError):
        await world.controller.reconcile()
    world.server.admission_hook = lambda method, path, body: None
    await world.settle()
    assert {world.ready(name)["status"] for name in ("vision", "research")} == {"True"}


# --- interruptions --------------------------------------------------------------------------------
def _state(server: ApiServer) -> dict[Any, Any]:
    volatile = ("uid", "resourceVersion", "creationTimestamp", "generation")
    return {
        (kind.kind, o["metadata"].get("namespace"), o["metadata"]["name"]): (
            {k: v for k, v in o["metadata"].items() if k not in volatile},
            o.get("spec"),
        )
        for kind in (*MADE, ALLOCATIONS)
        for o in server.objects(kind)
    }


@pytest.mark.parametrize("crash_at", range(0, 24, 3))
async def test_a_crash_between_any_two_writes_heals(crash_at: int) -> None:
    left = [crash_at]

    def dies(method: str, path: str, body: Any) -> web.Response | None:
        left[0] -= 1
        return refusal(503, "ServiceUnavailable", "power cut") if left[0] < 0 else None

    async with ApiServer() as server, ApiServer() as calm:
        for one in (server, calm):
            fill(one)
        server.admission_hook = dies
        async with started(server) as first:
            first.renew()
            with pytest.raises(ApiError):
                await first.settle()
        server.admission_hook = lambda method, path, body: None
        async with started(server) as second, started(calm) as reference:
            for world in (second, reference):
                world.renew()
                await world.settle()
        assert _state(server) == _state(calm)
