"""`cede advise` over real HTTP, on what the ledger prints."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from cede.api.names import GPU
from cede.api.objects import ALLOCATIONS
from cede.api.use_history import DayUse, UseHistory
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.unit.cede_cli.conftest import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Of vision, which has an allocation, and of another team, whose allocation is gone."""
    path = tmp_path / "history.json"
    days = tuple(
        DayUse(f"2026-11-{n:02}", team, "p5", GPU, Decimal(192), *[Decimal(0)] * 3)
        for team in ("gone", "vision")
        for n in range(1, 11)
    )
    history = UseHistory("2026-11-01T00:00:00Z", "2026-11-11T00:00:00Z", Decimal(0), days)
    path.write_text(history.text())
    return path


async def test_it_advises_on_the_allocations_that_there_are(
    server: ApiServer, cede: Run, file: Path
) -> None:
    code, text, errors = await cede("advise", str(file), "-o", "json")
    assert (code, errors) == (0, "")
    facts = json.loads(text)
    assert [(entry["reason"], entry["team"]) for entry in facts["findings"]] == [
        ("NeverUsed", "vision")
    ]
    assert facts["recorded_hours"] == "240"
    assert server.writes() == []


async def test_a_right_that_is_missing_is_named(server: ApiServer, cede: Run, file: Path) -> None:
    server.script("GET", ALLOCATIONS.path(), refuses(403, "Forbidden"))
    code, text, errors = await cede("advise", str(file))
    assert code == 0
    assert "NeverUsed: gone had" in text
    assert "you may not list computeallocations" in errors


async def test_what_is_no_history_is_bad_input(cede: Run, tmp_path: Path) -> None:
    code, _, errors = await cede("advise", str(tmp_path / "none.json"))
    assert (code, "cannot be read" in errors) == (2, True)
    (tmp_path / "statement.csv").write_text("month,team\n")
    code, _, errors = await cede("advise", str(tmp_path / "statement.csv"))
    assert (code, "python -m ledger history" in errors) == (2, True)
