"""`cede audit verify` over real HTTP: what somebody has changed is named."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from cede.api.audit_chain import FIRST, AuditRecord, line_of, next_record
from cede.api.objects import CONFIG_MAPS
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.unit.cede_cli.conftest import Run

KEY = ("cede-system", "cede-ledger")


def records(count: int = 3) -> list[AuditRecord]:
    chain: list[AuditRecord] = []
    for number in range(count):
        head = chain[-1].head if chain else None
        chain.append(next_record(head, "t", "Kind", f"n-{number}", '{"ü":1}'))
    return chain


HEAD = str(records()[-1].head)
ONE_LINE = line_of(records()[0])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    write(path, records())
    return path


def write(path: Path, chain: list[AuditRecord]) -> None:
    write_lines(path, map(line_of, chain))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def note(server: ApiServer, text: str) -> None:
    metadata = {"name": KEY[1], "namespace": KEY[0]}
    server.put(CONFIG_MAPS, {"metadata": metadata | {"annotations": {"cede.dev/audit-head": text}}})


async def test_records_that_the_cluster_noted_are_intact(
    server: ApiServer, cede: Run, file: Path
) -> None:
    note(server, HEAD)
    code, text, _ = await cede("audit", "verify", str(file))
    assert (code, text) == (0, f"ok: 3 records, checked against {HEAD}\n")
    assert server.writes() == []


async def test_a_record_that_is_missing_is_named(server: ApiServer, cede: Run, file: Path) -> None:
    note(server, HEAD)
    write(file, records()[:2])
    code, text, _ = await cede("audit", "verify", str(file), "-o", "json")
    assert code == 1
    assert json.loads(text) == {
        "intact": False,
        "records": 2,
        "noted": HEAD,
        "why": "records up to 3 were noted, but record 2 is the last: the newest are missing",
    }


async def test_a_head_from_a_log_needs_no_cluster(server: ApiServer, cede: Run, file: Path) -> None:
    code, _, _ = await cede("audit", "verify", str(file), "--head", HEAD)
    assert code == 0
    code, text, _ = await cede("audit", "verify", str(file), "--head", f"3:{FIRST}")
    assert (code, text[:15]) == (1, "WRONG: record 3")
    assert server.requests == []


async def test_without_a_note_nothing_is_said_to_be_intact(cede: Run, file: Path) -> None:
    code, text, error = await cede("audit", "verify", str(file))
    assert (code, text) == (1, "")
    assert "has noted no record in the cluster: name one with --head" in error


async def test_without_the_right_to_read_the_note_the_cure_is_named(
    server: ApiServer, cede: Run, file: Path
) -> None:
    server.script("GET", CONFIG_MAPS.path(KEY), refuses(403, "Forbidden"))
    code, _, error = await cede("audit", "verify", str(file))
    assert (code, error.startswith("cede: you are not allowed to do this")) == (1, True)


@pytest.mark.parametrize(
    "line",
    ["no JSON", "[]", "{}", '{"number": 1}', line_of(records(1)[0]).replace("1,", '"1",', 1)],
)
async def test_a_line_that_is_no_record_is_named(cede: Run, file: Path, line: str) -> None:
    write_lines(file, [ONE_LINE, line])
    code, _, error = await cede("audit", "verify", str(file), "--head", HEAD)
    assert code == 2
    assert f"{file}:2: " in error
    assert "is no record of the audit" in error


async def test_a_file_that_is_not_there_is_named(cede: Run, tmp_path: Path) -> None:
    code, _, error = await cede("audit", "verify", f"{tmp_path}/none", "--head", HEAD)
    assert (code, "none cannot be read: " in error) == (2, True)


async def test_a_head_that_is_none_is_bad_input(cede: Run, file: Path) -> None:
    code, _, error = await cede("audit", "verify", str(file), "--head", "3")
    assert (code, "'3' is no head of the audit" in error) == (2, True)
