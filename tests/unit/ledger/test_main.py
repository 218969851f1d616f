"""The command line: a statement, a check of the audit, and refusals in one line."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from cede.api import names
from cede.api.audit_chain import complaint, parse_head, parse_record
from cede.api.objects import CONFIG_MAPS, LEASES
from cede.api.use_history import parse_history
from cede.kube import service
from ledger import books
from ledger.__main__ import NOT_CHECKED, NOT_INTACT, main, parser, run
from ledger.bookkeeper import Bookkeeper
from ledger.database import Database
from ledger.timeline import SECOND
from tests.builders.ledger import NOW, seen_at, workload
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig
from tests.harness.running_ledger import HEAD, ledger_world


@pytest.fixture
def url(sqlite: Database) -> str:
    """Books of a minute, in which a job used 4 accelerators."""
    bookkeeper = Bookkeeper(books.open_books(sqlite, NOW), NOW)
    for second in range(0, 61, 20):
        bookkeeper.look(seen_at(NOW + second * SECOND, workloads=[workload("gpt", pods=4)]))
    batch = bookkeeper.batch()
    assert batch
    books.add(sqlite, batch)
    return sqlite.name


def head_of(url: str) -> str:
    return str(books.verify(Database(url), None)[1])


@contextmanager
def cluster(folder: Path, head: str) -> Iterator[str]:
    """The kubeconfig of an API server that has this note, in a thread of its own."""
    ready = threading.Event()
    paths = list[str]()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with ApiServer() as server:
            metadata = {"name": HEAD[1], "namespace": HEAD[0]}
            notes = {"annotations": {"cede.dev/audit-head": head}} if head else {}
            server.put(CONFIG_MAPS, {"metadata": metadata | notes})
            paths.append(kubeconfig(folder / "kubeconfig", server.url))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    try:
        yield paths[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def test_the_process_counts_while_it_leads(sqlite: Database) -> None:
    """Its caches, its lease and its first write are those of the deployed one."""
    flags = service.Flags("ledger-0", None, 0, "INFO")
    async with ledger_world(sqlite) as world:
        world.server.clock = time.time
        process = asyncio.create_task(run(world.client, flags, sqlite))
        while not world.head:
            await world.server.change(world.server.version)
        process.cancel()
        with pytest.raises(asyncio.CancelledError):
            await process
        lease = world.server.get(LEASES, (names.SYSTEM_NAMESPACE, names.LEDGER))
    assert lease
    assert lease["spec"]["holderIdentity"] == "", "it was released"
    assert books.verify(sqlite, parse_head(world.head))[0] == ""


def test_a_statement_as_csv(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--database", url, "statement", "--month", "2026-11", "--by", "job"])
    header, row = capsys.readouterr().out.splitlines()
    assert header.startswith("month,recorded_hours,not_recorded_hours,team,namespace,job,")
    assert row.endswith(",nvidia.com/gpu,0.066667,0.000000,0.000000,0.000000,0")


def test_a_statement_as_json(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--database", url, "statement", "--month", "2026-11", "-o", "json"])
    assert '"difference": "0.000000"' in capsys.readouterr().out


def test_the_records_of_the_audit_as_lines(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--database", url, "audit"])
    records = [parse_record(line) for line in capsys.readouterr().out.splitlines()]
    assert complaint(records, parse_head(head_of(url))) == ""
    assert [record.name for record in records] == ["default", "research", "vision"]


def test_an_audit_that_has_what_the_cluster_noted_is_intact(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = head_of(url)
    with cluster(tmp_path, head) as config:
        main(["--database", url, "--kubeconfig", config, "verify"])
    assert capsys.readouterr().out == (
        f"intact: 3 records; the newest is {head}\nchecked against {head}\n"
    )


def test_without_a_note_only_the_records_are_checked(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster(tmp_path, "") as config:
        main(["--database", url, "--kubeconfig", config, "verify"])
    assert "no record was noted to check it against" in capsys.readouterr().out


def test_an_audit_whose_newest_records_are_missing_is_not(
    url: str, sqlite: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    head = head_of(url)
    with sqlite.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM audit WHERE number > 1")
    with pytest.raises(SystemExit) as raised:
        main(["--database", url, "verify", "--head", head])
    assert raised.value.code == NOT_INTACT
    assert capsys.readouterr().out == (
        "not intact: records up to 3 were noted, but record 1 is the last: the newest are missing\n"
    )


@pytest.mark.parametrize("note", ["a text of somebody", None])
def test_without_what_was_noted_nothing_is_said_to_be_intact(
    url: str, tmp_path: Path, note: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The note is none, or the cluster does not answer."""
    with cluster(tmp_path, note or "") as config:
        arguments = ["--database", url, "--kubeconfig", config, "verify"]
        if note:
            with pytest.raises(SystemExit) as raised:
                main(arguments)
    if not note:
        with pytest.raises(SystemExit) as raised:
            main(arguments)
    assert raised.value.code == NOT_CHECKED
    assert "the newest record cannot be read from the cluster" in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_is_named(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--database", url, "--kubeconfig", f"{tmp_path}/none", "verify"])
    assert raised.value.code == NOT_CHECKED
    assert "name it with --head" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["statement", "--month", "2026"], "'2026' is no month: write it like 2026-11"),
        (["verify", "--head", "3"], "'3' is no head of the audit"),
        (["statement"], "--month"),
    ],
)
def test_what_cannot_be_read_is_named(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert complaint in capsys.readouterr().err


def test_a_database_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    arguments = ["--database", f"sqlite:///{tmp_path}/none.db", "statement", "--month", "2026-11"]
    with pytest.raises(SystemExit, match="start `python -m ledger`"):
        main(arguments)


def test_the_database_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEDE_LEDGER_DATABASE", "postgresql://host/db")
    assert parser().parse_args([]).database == "postgresql://host/db"
    monkeypatch.delenv("CEDE_LEDGER_DATABASE")
    assert parser().parse_args([]).database == "sqlite:///ledger.db"


def test_a_history_of_days_for_others(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--database", url, "history", "--days", "7"])
    history = parse_history(capsys.readouterr().out)
    assert [(day.team, day.used) for day in history.days] == [
        ("research", Decimal("0.066667")),
        ("vision", 0),
    ]


@pytest.mark.parametrize("days", ["0", "-1", "many", "3661"])
def test_a_number_of_days_that_is_none_is_refused(
    url: str, capsys: pytest.CaptureFixture[str], days: str
) -> None:
    with pytest.raises(SystemExit):
        main(["--database", url, "history", f"--days={days}"])
    assert "is no number of days from 1 to 3660" in capsys.readouterr().err
