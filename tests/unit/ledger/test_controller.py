"""The ledger against an API server and a real database: what it counts, through what faults."""

import logging
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from cede.api.audit_chain import parse_head
from cede.api.budget import Budget, noted_use
from cede.api.objects import ALLOCATIONS, CONFIG_MAPS, POLICIES
from ledger import books
from ledger.database import Database
from tests.builders.ledger import KIND, NOW, allocation, workload
from tests.fakes.api_faults import refuses
from tests.harness.running_ledger import HEAD, LedgerWorld, ledger_world

UNCONFIRMED = 16.0
"""Accelerator-seconds: what the server has sent last is a moment old, in the time of the test."""


@pytest.fixture
async def world(sqlite: Database) -> AsyncIterator[LedgerWorld]:
    async with ledger_world(sqlite) as world:
        yield world


def metric(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


async def test_jobs_count_from_their_admission_to_their_end(world: LedgerWorld) -> None:
    async with world.running():
        await world.passes(60)
        world.controller.wake.clear()
        world.put(workload("gpt", pods=4))
        await world.changed()
        await world.passes(100)
        world.put(workload("gpt", pods=2))
        await world.changed()
        await world.passes(60)
        world.remove("gpt")
        await world.changed()
        await world.passes(100)
    assert world.used_s("gpt") == pytest.approx(4 * 100 + 2 * 60, abs=UNCONFIRMED)
    assert world.month.pools[KIND]["capacity"] / 1e6 == pytest.approx(16 * 320, abs=UNCONFIRMED)


async def test_the_ledger_writes_nothing_but_the_newest_record_of_the_audit(
    world: LedgerWorld,
) -> None:
    async with world.running():
        await world.passes(600)
    path = CONFIG_MAPS.path(HEAD)
    assert world.server.writes() == [("PATCH", path)]
    assert world.server.count()["GET"] == 6, "four lists, the record that was noted, and the time"


async def test_a_restart_is_a_gap_and_changes_nothing_else(world: LedgerWorld) -> None:
    world.put(workload("gpt", pods=4))
    async with world.running():
        await world.passes(100)
    written = world.month.written
    world.seconds += 50
    async with world.running():
        await world.passes(100)
    month = world.month
    [gap] = month.gaps
    assert (gap.begin, gap.reason) == (written, "the ledger did not run")
    assert (gap.end - gap.begin) / 1e6 == pytest.approx(50, abs=1)
    assert world.used_s("gpt") == pytest.approx(4 * 200, abs=UNCONFIRMED)
    assert len(books.open_books(world.database, 0).recorded) == 3, "nothing is recorded twice"


async def test_a_database_that_is_locked_is_written_when_it_is_free(
    world: LedgerWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world.put(workload("gpt", pods=4))
    before = metric("cede_ledger_failed_writes_total")
    async with world.running():
        await world.passes(20)
        other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        await world.passes(20)
        assert metric("cede_ledger_failed_writes_total") > before
        assert "locked: end the other program" in caplog.records[-1].reason  # type: ignore[attr-defined]
        other.execute("COMMIT")
        other.close()
        await world.passes(60)
    assert world.used_s("gpt") == pytest.approx(4 * 100, abs=UNCONFIRMED)
    assert world.used_s("gpt") * 1e6 == 4 * world.month.recorded
    assert world.month.gaps == ()


async def test_a_database_that_is_not_there_at_the_start_is_opened_later(
    world: LedgerWorld, tmp_path: Path
) -> None:
    later = tmp_path / "later"
    world.database = Database(f"sqlite:///{later}/ledger.db")
    async with world.running():
        await world.passes(20)
        later.mkdir()
        await world.passes(40)
    assert world.month.pools[KIND]["capacity"] / 1e6 == pytest.approx(16 * 40, abs=UNCONFIRMED)


async def test_another_process_that_writes_into_the_books_is_noticed(
    world: LedgerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """Both read the books again, and every moment is in them once."""
    world.put(workload("gpt", pods=4))
    async with world.running() as first:
        await world.passes(40)
        async with world.running():
            await world.passes(40)
            await first.reconcile()
            reasons = [getattr(record, "reason", "") for record in caplog.records]
            assert any("another process writes too" in reason for reason in reasons)
            await world.passes(40)
    month = world.month
    gaps = sum(gap.end - gap.begin for gap in month.gaps) / 1e6
    assert world.used_s("gpt") / 4 + gaps == pytest.approx((month.written - month.began) / 1e6)


async def test_the_newest_record_is_noted_in_the_cluster(world: LedgerWorld) -> None:
    async with world.running():
        await world.passes(20)
        first = parse_head(world.head)
        assert books.verify(world.database, first) == ("", first)
        world.controller.wake.clear()
        world.server.put(ALLOCATIONS, allocation("research", 16).model_dump(mode="json"))
        await world.changed()
        await world.passes(20)
    assert parse_head(world.head).number == first.number + 1 == 4


async def test_a_record_that_the_api_server_did_not_take_is_noted_later(
    world: LedgerWorld,
) -> None:
    refusal = refuses(503, "ServiceUnavailable")
    world.server.script("PATCH", CONFIG_MAPS.path(HEAD), refusal)
    async with world.running():
        await world.passes(40)
    newest = parse_head(world.head)
    assert books.verify(world.database, newest) == ("", newest)


async def test_a_record_that_an_earlier_process_did_not_note_is_noted(world: LedgerWorld) -> None:
    async with world.running():
        await world.passes(20)
    noted = world.head
    world.server.put(CONFIG_MAPS, {"metadata": {"name": HEAD[1], "namespace": HEAD[0]}})
    async with world.running():
        await world.passes(20)
    assert world.head == noted


def put_budget(world: LedgerWorld) -> None:
    team = allocation("research").model_copy(deep=True)
    team.spec.budget = Budget(hardHours=100)
    world.server.put(ALLOCATIONS, team.model_dump(mode="json"))


async def test_what_a_team_with_a_budget_has_used_is_noted_once_a_minute(
    world: LedgerWorld,
) -> None:
    put_budget(world)
    world.put(workload("gpt", pods=4))
    async with world.running():
        await world.passes(240)
    use = noted_use(world.server.get(CONFIG_MAPS, HEAD))
    assert use is not None
    hours = use.used["research"][KIND[0]][KIND[1]]
    assert use.used.keys() == {"research"}, "the other team has no budget"
    assert 4 * 160 / 3600 < hours <= 4 * 240 / 3600
    assert len(notes_of(world)) in (4, 5)


async def test_use_that_the_api_server_did_not_take_is_noted_later(world: LedgerWorld) -> None:
    put_budget(world)
    refused = [refuses(503, "ServiceUnavailable")] * 3
    world.server.script("PATCH", CONFIG_MAPS.path(HEAD), *refused)
    async with world.running():
        await world.passes(100)
    assert noted_use(world.server.get(CONFIG_MAPS, HEAD))


def notes_of(world: LedgerWorld) -> list[tuple[str, str]]:
    """All but that of the audit."""
    path = CONFIG_MAPS.path(HEAD)
    return [write for write in world.server.writes() if write == ("PATCH", path)][1:]


async def test_an_audit_that_was_changed_while_nobody_looked_keeps_its_evidence(
    world: LedgerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.running():
        await world.passes(20)
    noted = world.head
    with world.database.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM audit WHERE number = 3")
    async with world.running():
        await world.passes(20)
        assert metric("cede_ledger_audit_intact") == 0
        world.controller.wake.clear()
        world.server.put(ALLOCATIONS, allocation("research", 16).model_dump(mode="json"))
        await world.changed()
        await world.passes(20)
    [record] = [entry for entry in caplog.records if entry.message == "audit not intact"]
    assert record.levelno == logging.ERROR
    assert "record 2 is the last" in record.reason  # type: ignore[attr-defined]
    assert world.head == noted


async def test_a_note_that_is_none_is_reported_and_stops_nothing(world: LedgerWorld) -> None:
    metadata = {
        "name": HEAD[1],
        "namespace": HEAD[0],
        "annotations": {"cede.dev/audit-head": "a text of somebody"},
    }
    world.server.put(CONFIG_MAPS, {"metadata": metadata})
    async with world.running():
        await world.passes(40)
        assert metric("cede_ledger_audit_intact") == 0
    assert world.month.pools[KIND]["capacity"]


async def test_without_the_right_to_note_it_the_log_has_it(
    world: LedgerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.server.script("PATCH", CONFIG_MAPS.path(HEAD), refuses(403, "Forbidden"))
    async with world.running():
        await world.passes(40)
    [record] = [entry for entry in caplog.records if entry.message == "audit"]
    head = parse_head(record.head)  # type: ignore[attr-defined]
    assert books.verify(world.database, head) == ("", head)
    assert world.month.pools[KIND]["capacity"]


async def test_without_a_policy_time_is_a_gap(world: LedgerWorld) -> None:
    world.server.remove(POLICIES, ("", "default"))
    before = metric("cede_ledger_gap_seconds_total")
    async with world.running():
        await world.passes(60)
    assert [gap.reason for gap in world.month.gaps] == ["there was no ClusterPolicy"]
    assert metric("cede_ledger_gap_seconds_total") - before == pytest.approx(60, abs=1)


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_clock_far_ahead_of_the_servers_stops_the_records_only_until_it_is_set(
    world: LedgerWorld, caplog: pytest.LogCaptureFixture, restarts: bool
) -> None:
    """Books that end in the future would record nothing until then."""
    world.put(workload("gpt", pods=4))
    async with world.running():
        await world.passes(60)
    async with world.running() as first:
        await world.passes(60)
        world.ahead_s = 3 * 3600
        if restarts:
            async with world.running():
                await world.passes(60)
        else:
            await world.passes(60)
        [*_, record] = caplog.records
        assert "this clock is ahead" in record.message
        assert record.seconds == 3 * 3600  # type: ignore[attr-defined]
        world.ahead_s = 0
        world.controller = first
        await world.passes(60)
    assert world.used_s("gpt") == pytest.approx(4 * 180, abs=2 * UNCONFIRMED)
    assert world.month.written / 1e6 == pytest.approx(NOW / 1e6 + 240, abs=UNCONFIRMED)


async def test_a_machine_that_slept_goes_on(world: LedgerWorld) -> None:
    """Its clock is right: the server's agrees."""
    world.put(workload("gpt", pods=4))
    async with world.running():
        await world.passes(60)
        world.seconds += 3 * 3600
        await world.passes(60)
    assert world.used_s("gpt") == pytest.approx(4 * 120, abs=UNCONFIRMED)
    assert [gap.reason for gap in world.month.gaps] == ["the ledger made no pass"]


async def test_a_clock_that_is_set_back_counts_no_time_twice(world: LedgerWorld) -> None:
    world.put(workload("gpt", pods=4))
    async with world.running():
        await world.passes(60)
        world.seconds -= 40
        await world.passes(100)
    assert world.used_s("gpt") == pytest.approx(4 * 120, abs=UNCONFIRMED)
    assert world.used_s("gpt") * 1e6 == 4 * world.month.recorded
    assert world.month.gaps == ()
