"""`cede history` against an API server over real HTTP."""

import json
import time

import pytest

from cede.api.objects import CESSIONS, rfc3339
from tests.builders.reports import stopping_cession
from tests.fakes.api_server import ApiServer
from tests.unit.cede_cli.conftest import Run


@pytest.fixture(autouse=True)
async def cessions(server: ApiServer) -> None:
    """One that is ten minutes old, and one that is a day old."""
    for name, age_s in (("young", 600), ("old", 86_400)):
        body = stopping_cession()
        body["metadata"] = {"name": name, "creationTimestamp": rfc3339(time.time() - age_s)}
        server.put(CESSIONS, body)


async def test_all_teams_are_the_default(server: ApiServer, cede: Run) -> None:
    code, text, _ = await cede("history")
    heading, *rows = text.splitlines()
    assert (code, heading.split()[:3]) == (0, ["STARTED", "CESSION", "FOR"])
    assert [row.split()[1] for row in rows] == ["old", "young"]
    assert not server.writes()


async def test_since_and_namespace_select(cede: Run) -> None:
    _, text, _ = await cede("history", "--since", "1h", "-n", "research", "-o", "json")
    assert [take["name"] for take in json.loads(text)] == ["young"]
    assert (await cede("history", "-n", "nobody"))[1] == "no Cessions\n"
    assert (await cede("history", "--since", "5m", "-o", "yaml"))[1] == "[]\n"


async def test_names_are_what_kubectl_takes(cede: Run) -> None:
    _, text, _ = await cede("history", "-o", "name")
    assert text.splitlines() == ["cession/old", "cession/young"]


async def test_a_time_that_is_none_is_bad_input(cede: Run) -> None:
    code, text, error = await cede("history", "--since", "yesterday")
    assert (code, text) == (2, "")
    assert error == "cede: --since: 'yesterday' is not a duration: write it like 90s, 5m or 1h\n"


async def test_a_cession_that_cannot_be_read_is_named_and_the_others_are_shown(
    server: ApiServer, cede: Run
) -> None:
    server.put(CESSIONS, {"metadata": {"name": "newer"}, "spec": 1})
    code, text, errors = await cede("history", "-o", "name")
    assert (code, text.splitlines()) == (0, ["cession/old", "cession/young"])
    assert errors.startswith("cede: this cede cannot read Cession newer: ")
    assert len(errors.splitlines()) == 1
