"""`cede checkpoint` against an API server over real HTTP."""

import json
from collections.abc import Callable

import pytest

from cede.api import names
from cede.api.objects import CESSIONS, JOBS, LEASES, POLICIES, Json, Kind
from cede.api.reasons import SaveState
from cede.api.save_request import SaveAnswer
from cede.commands import checkpoint
from tests.builders.jobs import TEAM, elastic_job, running_job
from tests.fakes.api_faults import drops, refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer
from tests.unit.cede_cli.conftest import Run
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.rules import complaints

GPT = ("vision", "gpt")


@pytest.fixture(autouse=True)
async def job(server: ApiServer) -> None:
    annotations = {names.SIZES: "2-8"}
    put(server, {"annotations": annotations})


def put(server: ApiServer, metadata: Json, **more: Json) -> None:
    metadata = {"name": "gpt", "namespace": "vision"} | metadata
    server.put(JOBS, {"metadata": metadata, "spec": {"parallelism": 4}} | more)


def notes(server: ApiServer) -> dict[str, str]:
    job = server.get(JOBS, GPT)
    assert job is not None
    annotations: dict[str, str] = job["metadata"]["annotations"]
    return annotations


def answer(
    server: ApiServer, state: SaveState, attempts: int = 1, step: int = 0, message: str = ""
) -> None:
    """As the scheduler does."""
    annotations = notes(server)
    request = annotations[names.SAVE_REQUESTED]
    note = SaveAnswer(request, state, "2026-01-31T12:00:00Z", attempts, step, message)
    put(server, {"annotations": annotations | {names.SAVE_ANSWER: note.text()}})


@pytest.fixture
def happens(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What happens while the command waits, one after the other."""

    def set_events(*events: Callable[[], object]) -> None:
        waiting = iter(events)

        async def wait(_: float) -> None:
            next(waiting)()

        monkeypatch.setattr(checkpoint, "sleep", wait)

    return set_events


async def test_it_waits_until_the_job_has_saved_and_says_what_it_waits_for(
    server: ApiServer, cede: Run, happens: Callable[..., None]
) -> None:
    happens(
        lambda: answer(server, SaveState.ASKED, attempts=1, step=9),
        lambda: answer(server, SaveState.SAVED, attempts=1, step=12),
    )
    code, text, progress = await cede("checkpoint", "gpt")
    assert (code, text) == (0, "gpt has saved step 12\n")
    assert progress.splitlines() == [
        "cede: gpt is to save; the scheduler has not seen that yet",
        "cede: gpt is asked to save, after step 9",
    ]
    [(method, path, body)] = server.bodies
    assert (method, path) == ("PATCH", JOBS.path(GPT))
    assert set(body["metadata"]["annotations"]) == {names.SAVE_REQUESTED}


async def test_a_program_gets_the_step(
    server: ApiServer, cede: Run, happens: Callable[..., None]
) -> None:
    happens(lambda: answer(server, SaveState.SAVED, step=12))
    _, text, _ = await cede("checkpoint", "gpt", "-o", "json")
    facts = json.loads(text)
    assert (facts["saved"], facts["step"]) == (True, 12)
    assert facts["request"] == notes(server)[names.SAVE_REQUESTED]


async def test_without_waiting_the_request_is_written(server: ApiServer, cede: Run) -> None:
    code, text, _ = await cede("checkpoint", "gpt", "--no-wait")
    assert (code, text) == (0, "gpt is to save\n")
    assert names.SAVE_REQUESTED in notes(server)


async def test_an_open_request_is_joined_and_an_answered_one_is_followed_by_a_new_one(
    server: ApiServer, cede: Run
) -> None:
    await cede("checkpoint", "gpt", "--no-wait")
    first = notes(server)[names.SAVE_REQUESTED]
    await cede("checkpoint", "gpt", "--no-wait")
    assert notes(server)[names.SAVE_REQUESTED] == first
    answer(server, SaveState.SAVED, step=1)
    await cede("checkpoint", "gpt", "--no-wait")
    assert notes(server)[names.SAVE_REQUESTED] > first


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        pytest.param(
            lambda server: answer(server, SaveState.NOT_SAVED, message="No space left on device"),
            "gpt has not saved: No space left on device",
            id="the disk is full",
        ),
        pytest.param(lambda server: server.remove(JOBS, GPT), "gpt was deleted", id="deleted"),
        pytest.param(
            lambda server: put(
                server,
                {"annotations": notes(server)},
                status={"conditions": [{"type": "Complete", "status": "True"}]},
            ),
            "gpt has ended before",
            id="the job ends",
        ),
        pytest.param(
            lambda server: put(server, {"annotations": notes(server)}, spec={"suspend": True}),
            "gpt was stopped before",
            id="the job is stopped",
        ),
    ],
)
async def test_what_keeps_it_from_saving_reaches_the_user_and_is_a_failure(
    server: ApiServer,
    cede: Run,
    happens: Callable[..., None],
    event: Callable[[ApiServer], object],
    sentence: str,
) -> None:
    happens(lambda: event(server))
    code, text, _ = await cede("checkpoint", "gpt")
    assert code == 1
    assert text.startswith(sentence)


async def test_without_a_scheduler_it_says_so_and_ends_in_time(
    server: ApiServer, cede: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.remove(LEASES, (names.SYSTEM_NAMESPACE, names.SCHEDULER_LEASE))
    monkeypatch.setattr(checkpoint, "ANSWER_S", 0.0)
    monkeypatch.setattr(checkpoint, "POLL_S", 0.01)
    code, text, error = await cede("checkpoint", "gpt", "--timeout", "1s")
    assert (code, text) == (1, "")
    assert "cede: no scheduler leads, so nobody asks the job yet: see `cede status`\n" in error
    assert "waited 1 s: it may save later, see `kubectl describe job gpt -n vision`\n" in error


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        pytest.param(CESSIONS, refuses(403, "Forbidden"), id="no right to list Cessions"),
        pytest.param(POLICIES, refuses(503, "ServiceUnavailable"), id="no answer for a moment"),
    ],
)
async def test_what_cannot_be_read_of_the_scheduler_does_not_end_the_wait(
    server: ApiServer,
    cede: Run,
    happens: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    fault: Answer,
) -> None:
    monkeypatch.setattr(checkpoint, "ANSWER_S", 0.0)
    server.script("GET", kind.path(), fault)
    happens(lambda: answer(server, SaveState.SAVED, step=3))
    code, text, _ = await cede("checkpoint", "gpt")
    assert (code, text) == (0, "gpt has saved step 3\n")


@pytest.mark.parametrize("fault", [drops(), refuses(503, "ServiceUnavailable")])
async def test_it_goes_on_after_a_fault_of_the_api_server(
    server: ApiServer, cede: Run, happens: Callable[..., None], fault: object
) -> None:
    happens(
        lambda: server.script("GET", JOBS.path(GPT), fault),  # type: ignore[arg-type]
        lambda: answer(server, SaveState.SAVED, step=3),
    )
    code, text, _ = await cede("checkpoint", "gpt")
    assert (code, text) == (0, "gpt has saved step 3\n")


async def test_without_the_right_to_patch_nothing_is_asked(server: ApiServer, cede: Run) -> None:
    message = 'jobs.batch "gpt" is forbidden: User "eve" cannot patch'
    server.script("PATCH", JOBS.path(GPT), refuses(403, "Forbidden", message))
    code, _, error = await cede("checkpoint", "gpt")
    assert (code, error.startswith("cede: you are not allowed to do this")) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        pytest.param(["nobody"], 1, "there is no Job nobody", id="no such job"),
        pytest.param(["gpt", "--timeout", "soon"], 2, "--timeout: 'soon' is not", id="timeout"),
    ],
)
async def test_what_cannot_be_asked_is_one_line(
    server: ApiServer, cede: Run, words: list[str], code: int, sentence: str
) -> None:
    failed, _, error = await cede("checkpoint", *words)
    assert (failed, error.startswith(f"cede: {sentence}"), len(error.splitlines())) == (
        code,
        True,
        1,
    )
    assert not server.writes()


async def test_a_job_that_is_not_elastic_is_not_asked(server: ApiServer, cede: Run) -> None:
    put(server, {})
    code, _, error = await cede("checkpoint", "gpt")
    assert (code, server.writes()) == (1, [])
    assert error.startswith("cede: gpt is not elastic, and only elastic Jobs are asked")


async def test_the_webhook_accepts_the_request_and_changes_nothing_else(
    server: ApiServer, cede: Run
) -> None:
    old = running_job(elastic_job(8, "2-8/2"), 4)
    server.put(JOBS, old)
    await cede("checkpoint", "gpt", "--no-wait")
    new = server.get(JOBS, GPT)
    assert new is not None
    request = AdmissionRequest(new, old, "alice", TEAM)
    assert complaints(request) == []
    assert apply_defaults(request) == new
