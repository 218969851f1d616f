"""Objects of others, refused writes, and interruptions at any point."""

from typing import Any

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NAMESPACES,
    NETWORK_POLICIES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    Json,
    Key,
    Kind,
)
from cede.kube.errors import ApiError
from quota_controller.controller import MAX_RETRY_INTERVAL_S, RETRY_INTERVAL_S
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.harness.quota_controller import (
    WRITTEN_KINDS,
    World,
    condition_of,
    existing,
    fill,
    put_allocation,
    started,
)


def no_failure(method: str, path: str, body: Any) -> None:
    """What `ApiServer.admission_hook` is by default."""


# --- objects of others ----------------------------------------------------------------------------
async def test_a_queue_of_somebody_else_is_not_changed(world: World) -> None:
    foreign = world.server.put(
        CLUSTER_QUEUES, {"metadata": {"name": "vision"}, "spec": {"cohortName": "theirs"}}
    )
    await world.settle(kueue=False)
    assert world.server.get(CLUSTER_QUEUES, ("", "vision")) == foreign
    assert world.ready()["reason"] == "ObjectExists"
    assert "ClusterQueue vision exists and was not created by Cede" in world.ready()["message"]
    assert world.server.get(LOCAL_QUEUES, ("vision", "default")) is None, (
        "it would submit jobs to the foreign queue"
    )
    assert world.server.get(LOCAL_QUEUES, ("research", "default")), "other teams are served"
    world.server.remove(CLUSTER_QUEUES, ("", "vision"))
    await world.settle()
    assert world.ready()["status"] == "True"


ANOTHER_NAMESPACE = "give the team another namespace"
FOREIGN_OBJECTS: list[tuple[Kind, Key, str, str]] = [
    (CLUSTER_QUEUES, ("", "vision"), "vision", "give the allocation another name"),
    (LOCAL_QUEUES, ("vision", "default"), "vision", ANOTHER_NAMESPACE),
    (SERVICES, ("vision", "cede-peers"), "vision", ANOTHER_NAMESPACE),
    (NETWORK_POLICIES, ("vision", "cede-elastic"), "vision", ANOTHER_NAMESPACE),
    (SECRETS, ("vision", "cede-control"), "vision", ANOTHER_NAMESPACE),
    (ROLE_BINDINGS, ("vision", "cede-members"), "vision", ANOTHER_NAMESPACE),
    (RESOURCE_FLAVORS, ("", "local"), "", "give the instance type another name"),
    (PRIORITY_CLASSES, ("", "training"), "", "give the priority class another name"),
    (COHORTS, ("", "cede"), "", "delete it"),
]


@pytest.mark.parametrize(
    ("kind", "key", "team", "cure"),
    [pytest.param(*case, id=case[0].kind) for case in FOREIGN_OBJECTS],
)
async def test_an_object_of_somebody_else_is_left_alone(
    world: World, kind: Kind, key: Key, team: str, cure: str
) -> None:
    """`team` is empty for an object that all teams share."""
    world.server.put(NAMESPACES, {"metadata": {"name": "vision"}})
    members = [{"kind": "Group", "name": "vision-team"}]
    put_allocation(
        world.server, "vision", namespace={"name": "vision", "adopt": True}, members=members
    )
    meta = {"name": key[1]} | ({"namespace": key[0]} if key[0] else {})
    foreign = world.server.put(
        kind, {"metadata": meta, "spec": {"theirs": True}, "data": {"key": "dGhlaXJz"}}
    )
    await world.settle(kueue=False)
    assert world.server.get(kind, key) == foreign
    status = world.status(team) if team else world.policy_status()
    ready = condition_of(status, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ObjectExists")
    assert f"{kind.kind} {key[1]}" in ready["message"]
    assert cure in ready["message"]
    assert world.server.get(LOCAL_QUEUES, ("research", "default")), "other teams are served"
    world.server.remove(kind, key)
    await world.settle()
    assert world.ready("vision")["status"] == "True", "it recovers"


async def test_a_resource_quota_of_somebody_else_is_left_alone(world: World) -> None:
    """Also in a namespace that Cede created; an adopted one gets none."""
    await world.settle()
    key = ("vision", "cede-objects")
    world.server.remove(RESOURCE_QUOTAS, key)
    meta = {"name": key[1], "namespace": key[0]}
    foreign = world.server.put(RESOURCE_QUOTAS, {"metadata": meta, "spec": {"hard": {}}})
    world.now += 60
    await world.settle(kueue=False)
    assert world.server.get(RESOURCE_QUOTAS, key) == foreign
    assert world.ready("vision")["reason"] == "ObjectExists"
    assert "ResourceQuota cede-objects in namespace vision" in world.ready("vision")["message"]
    world.server.remove(RESOURCE_QUOTAS, key)
    await world.settle()
    assert world.ready("vision")["status"] == "True"


async def test_our_object_without_its_labels_gets_them_back(world: World) -> None:
    await world.settle()
    queue = existing(world.server, CLUSTER_QUEUES, ("", "vision"))
    queue["metadata"] |= {
        "labels": {},
        "managedFields": [{"manager": names.QUOTA_CONTROLLER, "operation": "Apply"}],
    }
    world.server.put(CLUSTER_QUEUES, queue)
    world.now += 60
    await world.settle()
    labels = existing(world.server, CLUSTER_QUEUES, ("", "vision"))["metadata"]["labels"]
    assert labels[names.ALLOCATION] == "vision"


NO_RIGHT = 'x "y" is forbidden: User "cede" cannot delete resource "x" in API group ""'


async def test_an_object_with_copied_labels_that_may_not_be_deleted_harms_nobody(
    world: World,
) -> None:
    labels = {"app.kubernetes.io/managed-by": "cede", names.ALLOCATION: "nobody"}
    metadata = {"name": "mine", "namespace": "vision", "labels": labels}

    def answer(method: str, path: str, body: Any) -> web.Response | None:
        is_deletion = method == "DELETE" and path.endswith("/networkpolicies/mine")
        return refusal(403, "Forbidden", NO_RIGHT) if is_deletion else None

    await world.settle()
    world.server.put(NETWORK_POLICIES, {"metadata": metadata, "spec": {}})
    world.server.admission_hook = answer
    put_allocation(world.server, "newcomer")
    # it tries again in each pass
    for _ in range(5):
        await one_pass(world)
    assert world.server.get(NETWORK_POLICIES, ("vision", "mine"))
    assert world.server.get(LOCAL_QUEUES, ("newcomer", "default"))


# --- refused writes -------------------------------------------------------------------------------
REFUSALS = [
    (422, "Invalid", "WriteRefused", "was refused: not so"),
    (403, "Forbidden", "WriteRefused", "was refused: not so"),
    (400, "BadRequest", "WriteRefused", "was refused: not so"),
    (409, "Conflict", "WriteFailed", "has changed meanwhile: it is tried again"),
    (404, "NotFound", "WriteFailed", "has changed meanwhile: it is tried again"),
    (500, "InternalError", "WriteFailed", "could not be written and is tried again: not so"),
]
PATHS_OF_RESEARCH = {
    CLUSTER_QUEUES: "/research",
    LOCAL_QUEUES: "/namespaces/research/",
    RESOURCE_FLAVORS: "/local",
}


def refuse(world: World, kind: Kind, code: int, reason: str) -> None:
    """The server refuses to write one object of team research, or the flavor of all teams."""

    def answer(method: str, path: str, body: Any) -> web.Response | None:
        if method != "PATCH" or f"/{kind.plural}" not in path:
            return None
        return refusal(code, reason, "not so") if PATHS_OF_RESEARCH[kind] in path else None

    world.server.admission_hook = answer


async def one_pass(world: World) -> float:
    """The seconds to the next pass."""
    world.renew_lease()
    world.run_kueue()
    await world.sync_caches()
    return await world.controller.reconcile()


@pytest.mark.parametrize(
    ("code", "reason", "reported", "fragment"), REFUSALS, ids=[str(case[0]) for case in REFUSALS]
)
@pytest.mark.parametrize("kind", PATHS_OF_RESEARCH, ids=lambda kind: kind.plural)
async def test_a_refused_write_is_reported_and_others_go_on(
    world: World, kind: Kind, code: int, reason: str, reported: str, fragment: str
) -> None:
    refuse(world, kind, code, reason)
    for _ in range(5):
        await one_pass(world)
    assert world.server.get(LOCAL_QUEUES, ("vision", "default"))
    assert world.server.get(PRIORITY_CLASSES, ("", "training"))
    shared = kind == RESOURCE_FLAVORS
    status = world.policy_status() if shared else world.status("research")
    ready = condition_of(status, "Ready")
    assert ready["reason"] == reported
    assert fragment in ready["message"]
    assert world.ready("vision")["status"] == "True"
    world.server.admission_hook = no_failure
    await world.settle()
    assert world.ready("research")["status"] == "True", "it recovers"


@pytest.mark.parametrize("kind", PATHS_OF_RESEARCH, ids=lambda kind: kind.plural)
async def test_retries_slow_down_while_the_problem_is_the_same(world: World, kind: Kind) -> None:
    refuse(world, kind, 422, "Invalid")
    intervals = []
    # several passes at one moment do not slow down the retries
    for seconds in (0, 0, 0, 0, 0, 10, 100):
        world.now += seconds
        intervals.append(await one_pass(world))
    assert intervals == [RETRY_INTERVAL_S] * 5 + [10, MAX_RETRY_INTERVAL_S]


async def test_an_unavailable_server_ends_the_pass_and_is_nobodys_problem(world: World) -> None:
    world.server.admission_hook = lambda *_: refusal(503, "ServiceUnavailable", "back soon")
    with pytest.raises(ApiError):
        await world.controller.reconcile()
    world.server.admission_hook = no_failure
    await world.settle()
    assert {world.ready(name)["status"] for name in ("vision", "research")} == {"True"}


# --- interruptions --------------------------------------------------------------------------------
def content(server: ApiServer) -> dict[tuple[str, str | None, str], tuple[Json, Json | None]]:
    """All written objects without what the server sets."""
    set_by_server = ("uid", "resourceVersion", "creationTimestamp", "generation")
    objects = {}
    for kind in (*WRITTEN_KINDS, ALLOCATIONS):
        for obj in server.objects(kind):
            meta = {k: v for k, v in obj["metadata"].items() if k not in set_by_server}
            key = (kind.kind, meta.get("namespace"), meta["name"])
            objects[key] = (meta, obj.get("spec"))
    return objects


@pytest.mark.parametrize("writes", range(0, 24, 3))
async def test_a_crash_between_any_two_writes_is_repaired(writes: int) -> None:
    left = [writes]

    def crash(method: str, path: str, body: Any) -> web.Response | None:
        left[0] -= 1
        return refusal(503, "ServiceUnavailable", "power cut") if left[0] < 0 else None

    async with ApiServer() as server, ApiServer() as undisturbed:
        fill(server)
        fill(undisturbed)
        server.admission_hook = crash
        async with started(server) as first:
            first.renew_lease()
            with pytest.raises(ApiError):
                await first.settle()
        server.admission_hook = no_failure
        async with started(server) as second, started(undisturbed) as reference:
            for world in (second, reference):
                world.renew_lease()
                await world.settle()
        assert content(server) == content(undisturbed)
