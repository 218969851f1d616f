"""A priority class that was taken out of the policy stays until no Workload names it."""

import logging
from collections.abc import AsyncIterator

import pytest

from cede.api import names
from cede.api.objects import POLICIES, PRIORITY_CLASSES, WORKLOADS, Json
from quota_controller.removed_classes import CHECK_INTERVAL_S
from tests.fakes.api_faults import refuses
from tests.harness.quota_controller import World, condition_of, existing, filled

TRAINING: Json = {"name": "training", "weight": 50}
SWEEP: Json = {"name": "sweep", "weight": 10}
JOB = ("vision", "job-sweeps")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A job has the class `sweep`, which the policy has."""
    async with filled() as world:
        set_classes(world, TRAINING, SWEEP)
        metadata = {"namespace": JOB[0], "name": JOB[1]}
        spec = {"priorityClassRef": {"kind": "WorkloadPriorityClass", "name": "sweep"}}
        world.server.put(WORKLOADS, {"metadata": metadata, "spec": spec})
        await world.settle()
        yield world


def set_classes(world: World, *classes: Json) -> None:
    policy = existing(world.server, POLICIES, ("", names.POLICY_NAME))
    policy["spec"]["priorityClasses"] = list(classes)
    world.server.put(POLICIES, policy)


async def later(world: World) -> set[str]:
    """The classes that Kueue has after the next check."""
    world.now += CHECK_INTERVAL_S
    world.renew_lease()
    await world.settle()
    return {obj["metadata"]["name"] for obj in world.server.objects(PRIORITY_CLASSES)}


def finish(world: World) -> None:
    workload = existing(world.server, WORKLOADS, JOB)
    finished = {"type": names.FINISHED, "status": "True", "reason": "r", "message": "m"}
    finished["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    world.server.put(WORKLOADS, workload | {"status": {"conditions": [finished]}})


def reported(world: World) -> tuple[list[str], str]:
    status = world.policy_status()
    ready = condition_of(status, names.READY)
    assert ready["status"] == "True"
    return status.get("removedPriorityClasses", []), ready["message"]


async def test_it_stays_until_no_job_has_it_and_the_policy_says_so(world: World) -> None:
    assert "sweep" not in reported(world)[1].partition("no longer in the policy")[2]
    set_classes(world, TRAINING)
    assert await later(world) == await later(world) == {"training", "sweep"}
    removed, message = reported(world)
    assert removed == ["sweep"]
    assert message.endswith("no longer in the policy, and kept until no job has them: sweep")
    finish(world)
    assert await later(world) == {"training"}
    assert reported(world)[0] == []
    assert "kept" not in reported(world)[1]


async def test_it_stays_for_a_while_in_any_case(world: World) -> None:
    """Kueue may still make the Workload of a job that was accepted just before."""
    world.server.remove(WORKLOADS, JOB)
    set_classes(world, TRAINING)
    await world.settle()
    assert existing(world.server, PRIORITY_CLASSES, ("", "sweep"))
    assert await later(world) == {"training"}


async def test_while_workloads_cannot_be_read_it_stays(world: World) -> None:
    finish(world)
    set_classes(world, TRAINING)
    await world.settle()
    world.server.script("GET", WORKLOADS.path(), refuses(403, "Forbidden", "no rights"))
    assert await later(world) == {"training", "sweep"}
    assert await later(world) == {"training"}


@pytest.mark.parametrize("code", [403, 404, 409])
async def test_a_class_whose_deletion_is_denied_is_not_logged_as_deleted(
    world: World, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    finish(world)
    set_classes(world, TRAINING)
    await world.settle()
    denial = 'admission webhook "example" denied the request: no'
    path = PRIORITY_CLASSES.path(("", "sweep"))
    world.server.script("DELETE", path, refuses(code, "Reason", denial))
    caplog.set_level(logging.INFO)
    assert await later(world) == {"training", "sweep"}
    [record] = [record for record in caplog.records if "priority class" in record.message]
    assert record.message == "removed priority class stays"
    assert denial in vars(record)["reason"]
    assert await later(world) == {"training"}


async def test_workloads_are_listed_once_in_a_while(world: World) -> None:
    set_classes(world, TRAINING)
    await later(world)
    lists = world.server.requests.count(("GET", WORKLOADS.path()))
    for _ in range(3):
        await world.settle()
    assert world.server.requests.count(("GET", WORKLOADS.path())) == lists


async def test_a_class_that_comes_back_is_as_before(world: World) -> None:
    set_classes(world, TRAINING)
    await later(world)
    set_classes(world, TRAINING, SWEEP | {"weight": 20})
    assert await later(world) == {"training", "sweep"}
    assert existing(world.server, PRIORITY_CLASSES, ("", "sweep"))["value"] == 20
    assert reported(world)[0] == []
