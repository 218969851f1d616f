"""The history, through the API server and from the ledger, and why there is none."""

import json

import pytest
from aiohttp import web

from cede.api.team_days import PATH, Day, Statement, TeamDay, TeamDays
from cede.dashboard import history
from cede.dashboard.history import PROXY, from_ledger, through_api_server
from cede.kube import health
from tests.fakes.api_faults import drops, hangs, refuses
from tests.fakes.api_server import ApiServer

DAYS = {
    "days": [{"day": "2026-11-20", "recorded_hours": 20.0, "passed_hours": 24.0, "reasons": ["r"]}],
    "teams": [
        {
            "day": "2026-11-20",
            "team": "vision",
            "type": "p5",
            "resource": "nvidia.com/gpu",
            "owned": 8.0,
            "used": 6.0,
            "borrowed": 0.0,
            "lent": 1.0,
            "idle": 1.0,
        }
    ],
    "statements": [{"month": "2026-11", "csv": "month,team\n"}],
}
EXPECTED = TeamDays(
    (Day("2026-11-20", 20.0, 24.0, ("r",)),),
    (TeamDay("2026-11-20", "vision", "p5", "nvidia.com/gpu", 8.0, 6.0, 0.0, 1.0, 1.0),),
    (Statement("2026-11", "month,team\n"),),
)


async def proxied(status: int = 200, content: object = DAYS) -> str | TeamDays:
    """What is answered when the API server's proxy answers so."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(content, status=status)

    async with ApiServer() as server, server.client() as client:
        server.script("GET", PROXY, answer if status == 200 else refuses(status, "Refused"))
        answered = await through_api_server(client)
        return answered.problem or answered.history


async def test_it_comes_through_the_api_server_with_the_persons_rights() -> None:
    assert await proxied() == EXPECTED


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        pytest.param(404, "There is no history, because the ledger is not installed", id="none"),
        pytest.param(403, "You may not read the history: ask an admin for the right", id="right"),
        pytest.param(503, "The history cannot be read now: the ledger does not", id="down"),
    ],
)
async def test_why_there_is_none_is_a_line_with_the_cure(status: int, problem: str) -> None:
    assert str(await proxied(status)).startswith(problem)


async def test_an_answer_of_another_version_is_a_line() -> None:
    assert "the ledger does not answer" in str(await proxied(content={"days": 1}))


async def test_an_api_server_that_is_lost_is_a_line() -> None:
    async with ApiServer() as server, server.client() as client:
        server.script("GET", PROXY, *[drops()] * 9)
        assert "is not reachable" in (await through_api_server(client)).problem


async def test_it_comes_from_the_ledger() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(DAYS))

    routes = [web.get("/v1/team-days", answer)]
    async with health.serve(0, lambda: True, "127.0.0.1", routes) as port:
        assert (await from_ledger(f"http://127.0.0.1:{port}")).history == EXPECTED


async def test_a_ledger_that_is_not_there_is_a_line() -> None:
    assert (await from_ledger("http://cede-ledger.invalid:1")).problem.startswith(
        "There is no history, because the ledger is not installed"
    )
    assert "the ledger does not answer" in (await from_ledger("http://127.0.0.1:1")).problem


async def test_a_ledger_that_takes_too_long_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "LEDGER_S", 0.05)
    async with ApiServer() as server:
        server.script("GET", PATH, hangs())
        problem = (await from_ledger(server.url)).problem
    assert problem.endswith("the ledger does not answer (within 0.05 s).")
