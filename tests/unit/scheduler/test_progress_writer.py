"""The notes of how far jobs are, written over real HTTP."""

from collections.abc import Awaitable
from dataclasses import replace

import pytest
from aiohttp import web

from cede.api import job_progress, names
from cede.api.job_progress import JobProgress, Progress, parse
from cede.api.objects import CONFIG_MAPS
from elastic_runtime.contract import Status
from scheduler.leader_clock import LeaderClock
from scheduler.progress_notes import MIN_INTERVAL_S, RETRY_S, Report
from scheduler.progress_writer import ProgressWriter
from tests.builders.shared_cluster import put_note
from tests.fakes.api_faults import drops, refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal

NOW = 1_700_000_000.0
PATH = CONFIG_MAPS.path(("research", names.PROGRESS))
OTHER = CONFIG_MAPS.path(("vision", names.PROGRESS))


class Wall:
    """The system's clock and the monotonic one."""

    def __init__(self) -> None:
        self.seconds = NOW

    def __call__(self) -> float:
        return self.seconds


class Lead:
    """A scheduler that leads, and what it knows of runtimes."""

    def __init__(self) -> None:
        self.wall = Wall()
        self.clock = LeaderClock(self.wall, self.wall)
        self.reports = [report("research", 5)]

    def round(self, writer: ProgressWriter, after_s: float = 0.0) -> Awaitable[None]:
        self.wall.seconds += after_s
        self.clock.note_pass()
        return writer.write()


def report(namespace: str, step: int) -> Report:
    return Report((namespace, "gpt"), f"uid-{namespace}", status=Status(step=step))


def noted(server: ApiServer, namespace: str = "research") -> Progress | None:
    config_map = server.get(CONFIG_MAPS, (namespace, names.PROGRESS))
    return parse(config_map["data"][job_progress.KEY]) if config_map else None


async def test_what_runtimes_report_is_in_a_config_map_of_their_namespace(
    server: ApiServer,
) -> None:
    lead = Lead()
    async with server.client() as client:
        writer = ProgressWriter(client, lead.clock, lambda: lead.reports)
        await lead.round(writer)
        assert noted(server) == Progress({"uid-research": JobProgress(answered=int(NOW), step=5)})
        lead.reports = [report("research", 6)]
        await lead.round(writer, 5)
        assert len(server.writes()) == 1
        await lead.round(writer, MIN_INTERVAL_S)
        assert len(server.writes()) == 2
    progress = noted(server)
    assert progress
    assert progress.jobs["uid-research"].step == 6


async def test_the_config_map_goes_with_the_last_job(server: ApiServer) -> None:
    lead = Lead()
    async with server.client() as client:
        writer = ProgressWriter(client, lead.clock, lambda: lead.reports)
        await lead.round(writer)
        lead.reports = []
        await lead.round(writer, MIN_INTERVAL_S)
        assert server.objects(CONFIG_MAPS) == []
        await lead.round(writer, MIN_INTERVAL_S)
    assert [method for method, _ in server.writes()] == ["PATCH", "DELETE"]


async def test_a_report_that_cannot_be_noted_keeps_no_other_team_waiting_and_is_logged_once(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    lead = Lead()
    no_float = Status(step=5, loss=10**400)
    lead.reports = [replace(report("vision", 5), status=no_float), report("research", 5)]
    async with server.client() as client:
        writer = ProgressWriter(client, lead.clock, lambda: lead.reports)
        await lead.round(writer)
        await lead.round(writer, MIN_INTERVAL_S)
    assert noted(server) == Progress({"uid-research": JobProgress(answered=int(NOW), step=5)})
    assert noted(server, "vision") is None
    [record] = caplog.records
    assert vars(record)["job"] == "vision/gpt"


async def test_a_config_map_that_a_member_made_immutable_is_written_anew(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the API server has it: ValidateConfigMapUpdate."""

    def validate(method: str, path: str, body: object) -> web.Response | None:
        old = server.get(CONFIG_MAPS, ("research", names.PROGRESS)) or {}
        if method != "PATCH" or not old.get("immutable"):
            return None
        return refusal(
            422, "Invalid", "data: Forbidden: field is immutable when `immutable` is set"
        )

    monkeypatch.setattr(server, "admission_hook", validate)
    put_note(server, "research", "{}", immutable=True)
    lead = Lead()
    async with server.client() as client:
        writer = ProgressWriter(client, lead.clock, lambda: lead.reports)
        await lead.round(writer)
        assert noted(server) == Progress({"uid-research": JobProgress(answered=int(NOW), step=5)})
        lead.reports = [report("research", 6)]
        await lead.round(writer, MIN_INTERVAL_S)
    assert [method for method, _ in server.writes()] == ["PATCH", "DELETE", "PATCH", "PATCH"]
    assert not caplog.records


async def test_a_config_map_that_is_refused_for_another_reason_stays(server: ApiServer) -> None:
    """It may hold what others wrote."""
    put_note(server, "research", "{}")
    server.script("PATCH", PATH, refuses(422, "Invalid", "data: Too long"))
    lead = Lead()
    async with server.client() as client:
        await lead.round(ProgressWriter(client, lead.clock, lambda: lead.reports))
    assert [method for method, _ in server.writes()] == ["PATCH"]


async def test_a_new_leader_continues_the_notes_of_the_last_one(server: ApiServer) -> None:
    saved = JobProgress(answered=5, step=4, saved_step=3, saved=77)
    put_note(server, "research", Progress({"uid-research": saved, "uid-gone": saved}).text())
    put_note(server, "vision", Progress({"uid-gone": saved}).text())
    put_note(server, "nlp", "what no scheduler wrote")
    lead = Lead()
    status = Status(step=5, durableStep=3)
    lead.reports = [Report(("research", "gpt"), "uid-research", status=status)]
    async with server.client() as client:
        await lead.round(ProgressWriter(client, lead.clock, lambda: lead.reports))
    progress = noted(server)
    assert progress
    assert progress.jobs.keys() == {"uid-research"}
    assert progress.jobs["uid-research"].saved == 77
    assert noted(server, "vision") is None
    assert server.get(CONFIG_MAPS, ("nlp", names.PROGRESS)) is None


async def test_nothing_is_written_by_who_does_not_lead(server: ApiServer) -> None:
    lead = Lead()
    async with server.client() as client:
        writer = ProgressWriter(client, lead.clock, lambda: lead.reports)
        await writer.write()
        assert server.requests == []
        await lead.round(writer)
        lead.wall.seconds += 60
        await writer.write()
    assert len(server.writes()) == 1


async def test_a_lead_that_ends_between_two_writes_ends_them(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = Lead()
    lead.reports = [report("research", 5), report("vision", 5)]

    def lose(method: str, path: str, body: object) -> None:
        lead.wall.seconds += 60

    monkeypatch.setattr(server, "admission_hook", lose)
    async with server.client() as client:
        await lead.round(ProgressWriter(client, lead.clock, lambda: lead.reports))
    assert len(server.writes()) == 1


async def test_a_namespace_that_refuses_costs_only_its_own_note_and_one_line_in_the_log(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = refuses(403, "Forbidden")
    server.script("PATCH", PATH, refusal, refusal)
    lead = Lead()
    lead.reports = [report("research", 5), report("vision", 5)]
    async with server.client() as client:
        writer = ProgressWriter(client, lead.clock, lambda: lead.reports)
        await lead.round(writer)
        assert noted(server, "vision")
        lead.reports[1] = report("vision", 6)
        await lead.round(writer, RETRY_S - 1)
        assert [path for _, path in server.writes()].count(PATH) == 1
        assert [path for _, path in server.writes()].count(OTHER) == 2
        await lead.round(writer, 1)
        assert noted(server) is None
        await lead.round(writer, RETRY_S)
    assert noted(server)
    warnings = [entry.message for entry in caplog.records if entry.levelname == "WARNING"]
    assert warnings == ["progress not noted"]


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_a_server_that_does_not_answer_is_asked_again_later_and_nothing_raises(
    server: ApiServer, method: str
) -> None:
    path = CONFIG_MAPS.path() if method == "GET" else PATH
    server.script(method, path, drops())
    lead = Lead()
    lead.reports = [report("research", 5), report("vision", 5)]
    async with server.client() as client:
        writer = ProgressWriter(client, lead.clock, lambda: lead.reports)
        await lead.round(writer)
        before = len(server.requests)
        await lead.round(writer, RETRY_S - 1)
        assert len(server.requests) == before
        await lead.round(writer, 1)
    assert noted(server)
    assert noted(server, "vision")
