"""`cede status` against an API server over real HTTP."""

import json

from cede.api.objects import CESSIONS, LEASES, POLICIES
from tests.builders.reports import stopping_cession
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.unit.cede_cli.conftest import Run


async def test_status_prints_text(server: ApiServer, cede: Run) -> None:
    server.put(CESSIONS, stopping_cession())
    code, text, _ = await cede("status")
    assert code == 0
    assert "mode Enforce: Cede asks jobs to shrink" in text
    assert "Leader   s-1" in text
    assert "c-1: research/gpt 8 → 0 for vision/inference; Released" in text
    assert not server.writes()


async def test_status_prints_json(server: ApiServer, cede: Run) -> None:
    server.put(CESSIONS, stopping_cession())
    code, text, _ = await cede("status", "-o", "json")
    status = json.loads(text)
    assert code == 0
    assert status["leader"] == "s-1"
    assert status["teams"][0]["owns"] == "4 gpu"
    assert status["open_cessions"][0]["why"] == "it is theirs"
    assert not server.writes()


async def test_status_leaves_out_leases_that_the_user_may_not_read(
    server: ApiServer, cede: Run
) -> None:
    for name in ("cede-scheduler", "cede-quota-controller"):
        server.script("GET", LEASES.path(("cede-system", name)), refuses(403, "Forbidden"))
    code, text, _ = await cede("status")
    assert code == 0
    assert "no leader" not in text


async def test_status_names_what_it_cannot_read_and_shows_the_rest(
    server: ApiServer, cede: Run
) -> None:
    server.put(POLICIES, {"metadata": {"name": "default"}, "spec": {"mode": "Newer"}})
    code, text, errors = await cede("status")
    assert (code, errors) == (0, "")
    assert "4 gpu" in text
    assert "  this cede cannot read ClusterPolicy default: " in text
    assert "there is no ClusterPolicy" not in text
