"""What the actions write, and what happens when the server refuses."""

import pytest
from prometheus_client import REGISTRY

from cede.api import names
from cede.api.cession import Cession
from cede.api.objects import CESSIONS, EVENTS, JOBS, WORKLOADS, Json
from cede.api.reasons import CessionPhase, SchedulerEvent
from cede.kube.errors import ApiError, Forbidden, TooManyRequests
from scheduler.actions import (
    Action,
    AmendCession,
    DeleteCession,
    OpenCession,
    RecordEvent,
    RequestSize,
    ResizeJob,
    SetWorkloadActive,
    UpdateCession,
)
from scheduler.apply import Applier
from scheduler.snapshot.snapshot import RawObjects
from tests.builders.scheduler import cession
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer

GPT = ("research", "gpt")
# as the API server writes it
NO_RIGHT = refuses(
    403,
    "Forbidden",
    'jobs.batch "gpt" is forbidden: User "system:serviceaccount:cede-system:cede-scheduler" cannot '
    'patch resource "jobs" in API group "batch" in the namespace "research"',
)
DENIED = refuses(403, "Forbidden", 'admission webhook "x" denied the request: User "y" cannot')
DENIED_BY_POLICY = refuses(
    422, "Invalid", "ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no"
)


def put_job(server: ApiServer) -> Json:
    spec = {"parallelism": 8, "completions": 8}
    return server.put(JOBS, {"metadata": {"namespace": "research", "name": "gpt"}, "spec": spec})


def resize(version: str, *, shrinks: bool = True, grows: bool = False) -> Action:
    return ResizeJob(GPT, "u", version, 4, shrinks, "for claim of vision", grows)


def events(server: ApiServer) -> list[tuple[str, str]]:
    return [(event["reason"], event["note"]) for event in server.objects(EVENTS)]


async def test_a_shrink_sets_both_numbers_and_notes_the_time(
    server: ApiServer, applier: Applier
) -> None:
    version = put_job(server)["metadata"]["resourceVersion"]
    await applier.apply([resize(version)])
    job = server.get(JOBS, GPT) or {}
    assert job["spec"] == {"parallelism": 4, "completions": 4}
    assert job["metadata"]["annotations"][names.SHRUNK_AT]
    assert events(server) == [("Shrunk", "to 4 pods: for claim of vision")]


async def test_completions_that_are_not_the_number_of_pods_stay(
    server: ApiServer, applier: Applier
) -> None:
    version = put_job(server)["metadata"]["resourceVersion"]
    await applier.apply([ResizeJob(GPT, "u", version, 4, True, "why", keeps_completions=True)])
    assert (server.get(JOBS, GPT) or {})["spec"] == {"parallelism": 4, "completions": 8}


async def test_growth_notes_no_time(server: ApiServer, applier: Applier) -> None:
    version = put_job(server)["metadata"]["resourceVersion"]
    await applier.apply([resize(version, shrinks=False)])
    assert names.SHRUNK_AT not in (server.get(JOBS, GPT) or {})["metadata"].get("annotations", {})
    assert [reason for reason, _ in events(server)] == ["Resized"]


@pytest.mark.parametrize(("grows", "kind"), [(True, "GrowJob"), (False, "ResizeJob")])
async def test_growth_is_counted_by_itself(
    server: ApiServer, applier: Applier, grows: bool, kind: str
) -> None:
    before = {name: count(name, "performed") for name in ("GrowJob", "ResizeJob")}
    version = put_job(server)["metadata"]["resourceVersion"]
    await applier.apply([resize(version, grows=grows)])
    assert {name for name in before if count(name, "performed") > before[name]} == {kind}


async def test_a_job_that_has_changed_meanwhile_is_left_for_the_next_pass(
    server: ApiServer, applier: Applier
) -> None:
    put_job(server)
    stop = SetWorkloadActive(("research", "x"), "u", False, "why", "c-1")
    await applier.apply([resize("1000000"), stop])
    assert (server.get(JOBS, GPT) or {})["spec"]["parallelism"] == 8
    assert server.objects(WORKLOADS) == []


async def test_a_refused_resize_delays_no_other_action(server: ApiServer, applier: Applier) -> None:
    version = put_job(server)["metadata"]["resourceVersion"]
    server.script("PATCH", JOBS.path(GPT), refuses(422, "Invalid", "completions is immutable"))
    await applier.apply([resize(version), RecordEvent(GPT, "u", SchedulerEvent.CEDED, "note")])
    assert events(server) == [("Ceded", "note")]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(refuses(422, "Invalid", "no"), id="invalid"),
        pytest.param(refuses(403, "Forbidden", "no"), id="forbidden"),
        pytest.param(refuses(500, "InternalError", "failed calling webhook"), id="a webhook fails"),
    ],
)
async def test_a_refused_action_costs_only_itself(
    server: ApiServer, applier: Applier, fault: Answer
) -> None:
    """Of any kind: the actions after it are performed too."""
    version = put_job(server)["metadata"]["resourceVersion"]
    server.script("PATCH", CESSIONS.path(("", "c-9"), subresource="status"), fault)
    await applier.apply([UpdateCession("c-9", cession().status), resize(version)])
    assert (server.get(JOBS, GPT) or {})["spec"]["parallelism"] == 4


@pytest.mark.parametrize(
    "fault",
    [refuses(422, "Invalid"), refuses(403, "Forbidden"), refuses(500, "InternalError")],
    ids=["invalid", "forbidden", "a webhook fails"],
)
async def test_a_refusal_of_one_object_fails_no_pass(
    server: ApiServer, applier: Applier, fault: Answer
) -> None:
    """Not even if there is nothing else to do, in any pass: others would wait for it."""
    version = put_job(server)["metadata"]["resourceVersion"]
    server.script("PATCH", JOBS.path(GPT), fault, fault, fault)
    await applier.apply([resize(version), resize(version)])
    await applier.apply([resize(version)])


async def test_a_pass_of_which_two_objects_refuse_everything_has_failed(
    server: ApiServer, applier: Applier
) -> None:
    """We may have lost our rights: Kueue should preempt. What is only queued proves nothing."""
    version = put_job(server)["metadata"]["resourceVersion"]
    server.script("PATCH", JOBS.path(GPT), NO_RIGHT)
    server.script("PATCH", CESSIONS.path(("", "c-9"), subresource="status"), NO_RIGHT)
    queued: list[Action] = [
        RecordEvent(GPT, "u", SchedulerEvent.CEDED, "note"),
        RequestSize(GPT, "u", ("127.0.0.1:9",), 4, "c-1", 60.0),
    ]
    before = [count(type(action).__name__, "queued") for action in queued]
    with pytest.raises(Forbidden):
        await applier.apply([*queued, resize(version), UpdateCession("c-9", cession().status)])
    after = [count(type(action).__name__, "queued") for action in queued]
    assert after == [number + 1 for number in before]


@pytest.mark.parametrize(
    "fault",
    [
        refuses(422, "Invalid"),
        refuses(403, "Forbidden", 'admission webhook "x" denied the request'),
    ],
    ids=["invalid", "denied by a third party"],
)
async def test_objects_that_a_third_party_refuses_fail_no_pass(
    server: ApiServer, applier: Applier, fault: Answer
) -> None:
    """Two jobs with a webhook of their own do not take preemption from everybody else."""
    version = put_job(server)["metadata"]["resourceVersion"]
    server.script("PATCH", JOBS.path(GPT), fault)
    server.script("PATCH", CESSIONS.path(("", "c-9"), subresource="status"), fault)
    await applier.apply([resize(version), UpdateCession("c-9", cession().status)])


def count(kind: str, result: str) -> float:
    labels = {"action": kind, "result": result}
    return REGISTRY.get_sample_value("cede_scheduler_actions_total", labels) or 0.0


@pytest.mark.parametrize(
    "fault",
    [NO_RIGHT, DENIED, DENIED_BY_POLICY],
    ids=["no right", "denied by a webhook", "denied by a policy"],
)
async def test_a_pass_that_may_not_open_a_cession_has_failed(
    server: ApiServer, applier: Applier, fault: Answer
) -> None:
    """Without it nobody is preempted for: Kueue should preempt."""
    server.script("POST", CESSIONS.path(), fault)
    with pytest.raises(ApiError):
        await applier.apply([OpenCession(cession())])


async def test_a_cession_that_is_written_wrongly_fails_no_pass(
    server: ApiServer, applier: Applier
) -> None:
    """It costs only its own preemptor."""
    server.script("POST", CESSIONS.path(), refuses(422, "Invalid", "spec.why: too long"))
    await applier.apply([OpenCession(cession())])


async def test_a_busy_server_ends_the_pass_and_says_for_how_long(
    server: ApiServer, applier: Applier
) -> None:
    version = put_job(server)["metadata"]["resourceVersion"]
    busy = refuses(429, "TooManyRequests", headers={"Retry-After": "7"})
    server.script("PATCH", JOBS.path(GPT), busy)
    with pytest.raises(TooManyRequests) as raised:
        await applier.apply([resize(version), RecordEvent(GPT, "u", SchedulerEvent.CEDED, "n")])
    assert raised.value.retry_after_s == 7
    assert server.writes() == [("PATCH", JOBS.path(GPT))]


async def test_an_event_that_cannot_be_written_stops_nothing(
    server: ApiServer, applier: Applier
) -> None:
    path = EVENTS.path(namespace="research")
    server.script("POST", path, refuses(403, "Forbidden", "no"))
    await applier.apply([RecordEvent(GPT, "u", SchedulerEvent.CEDED, "note")])
    assert events(server) == []


# --- Cessions -------------------------------------------------------------------------------------
def cached(server: ApiServer) -> list[Cession]:
    return [Cession.model_validate(body) for body in server.objects(CESSIONS)]


async def test_opening_twice_creates_one_cession_and_one_event(
    server: ApiServer, applier: Applier
) -> None:
    await applier.apply([OpenCession(cession()), OpenCession(cession())])
    (body,) = server.objects(CESSIONS)
    assert body["metadata"]["labels"] == {names.MANAGED_BY: names.MANAGED_BY_CEDE}
    assert body["spec"]["preemptor"]["job"] == "claim"
    assert events(server) == [("CessionOpened", "because")]


async def test_our_own_write_counts_until_the_cache_has_it(
    server: ApiServer, applier: Applier
) -> None:
    await applier.apply([OpenCession(cession())])
    stale = cached(server)
    await applier.apply([UpdateCession("c-1", cession("Asked").status)])
    assert [record.status.phase for record in applier.latest(stale)] == [CessionPhase.ASKED]
    assert [record.status.phase for record in applier.latest([])] == [CessionPhase.ASKED]
    assert applier.latest(cached(server)) == cached(server)
    assert applier.latest([]) == []


@pytest.mark.parametrize(
    "action",
    [
        UpdateCession("c-1", cession("Asked").status),
        AmendCession("c-1", "1", cession().spec),
        DeleteCession("c-1", ""),
    ],
    ids=lambda action: type(action).__name__,
)
async def test_a_cession_that_was_deleted_before_the_cache_had_it_does_not_come_back(
    server: ApiServer, applier: Applier, action: Action
) -> None:
    await applier.apply([OpenCession(cession())])
    server.remove(CESSIONS, ("", "c-1"))
    assert [record.metadata.name for record in applier.latest([])] == ["c-1"]
    await applier.apply([action])
    assert applier.latest([]) == []


async def test_a_late_status_of_an_earlier_leader_replaces_nothing(
    server: ApiServer, applier: Applier
) -> None:
    await applier.apply([OpenCession(cession())])
    planned_on = RawObjects(cessions=cached(server))
    stopped = server.get(CESSIONS, ("", "c-1")) or {}
    server.put(CESSIONS, stopped | {"status": {"phase": "Released"}})
    await applier.apply([UpdateCession("c-1", cession("Asked").status)], planned_on)
    assert (server.get(CESSIONS, ("", "c-1")) or {})["status"] == {"phase": "Released"}


async def test_two_writes_of_one_pass_on_a_cession_both_count(
    server: ApiServer, applier: Applier
) -> None:
    await applier.apply([OpenCession(cession())])
    planned_on = RawObjects(cessions=cached(server))
    updates = [UpdateCession("c-1", cession(phase).status) for phase in ("Asked", "Released")]
    await applier.apply(updates, planned_on)
    assert (server.get(CESSIONS, ("", "c-1")) or {})["status"]["phase"] == "Released"


async def test_a_cession_is_deleted_by_its_uid(server: ApiServer, applier: Applier) -> None:
    await applier.apply([OpenCession(cession())])
    (record,) = cached(server)
    await applier.apply([DeleteCession("c-1", record.metadata.uid)])
    assert server.objects(CESSIONS) == []
