"""`python -m scheduler simulate`."""

import gzip
import json
import sys
from pathlib import Path

import pytest

from scheduler import __main__ as scheduler_main

TEAMS = "team,quota\nvision,4\nresearch,4\n"
TRACE = "submit,duration,accelerators,team\n0,7200,8,research\n3600,1800,4,vision\n"


def simulate(monkeypatch: pytest.MonkeyPatch, folder: Path, *flags: str) -> None:
    """Run it as from a shell, in the folder."""
    monkeypatch.chdir(folder)
    arguments = ["scheduler", "simulate", "trace.csv", "--teams", "teams.csv", *flags]
    monkeypatch.setattr(sys, "argv", arguments)
    scheduler_main.main()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "teams.csv").write_text(TEAMS)
    (tmp_path / "trace.csv").write_text(TRACE)
    return tmp_path


def test_it_prints_a_table_of_three_ways(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(monkeypatch, folder)
    text = capsys.readouterr().out
    assert "stock Kueue  Cede  private partitions" in text
    assert "trace.csv: 2 jobs of 2 teams" in text


def test_json_and_a_picture(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(monkeypatch, folder, "-o", "json", "--elastic", "1", "--picture", "p.svg")
    data = json.loads(capsys.readouterr().out)
    assert [result["way"] for result in data["results"]] == [
        "stock Kueue",
        "Cede",
        "private partitions",
    ]
    assert data["elastic_jobs"] == 2
    assert (folder / "p.svg").read_text().startswith("<svg")


def test_the_same_seed_gives_the_same_figures(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = list[str]()
    for _ in range(2):
        simulate(monkeypatch, folder, "--seed", "3", "--days", "0.1")
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_a_compressed_trace_is_read(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "t.csv.gz").write_bytes(gzip.compress(TRACE.encode()))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["s", "simulate", "t.csv.gz", "--teams", "teams.csv"])
    scheduler_main.main()
    assert "2 jobs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("trace.csv", TRACE + "x,1,1,vision\n", "trace.csv:4: submit is 'x'"),
        ("teams.csv", "team,quota\nvision,many\n", "teams.csv:2: quota is 'many'"),
    ],
)
def test_a_wrong_file_ends_it_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, folder: Path, file: str, text: str, complaint: str
) -> None:
    (folder / file).write_text(text)
    with pytest.raises(SystemExit) as raised:
        simulate(monkeypatch, folder)
    assert str(raised.value).startswith(complaint)


def test_a_missing_file_and_a_window_without_jobs_are_named(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    with pytest.raises(SystemExit, match=r"--from is 9000: the last job of trace\.csv is at 3600"):
        simulate(monkeypatch, folder, "--from", "9000")
    (folder / "teams.csv").unlink()
    with pytest.raises(SystemExit, match=r"teams\.csv"):
        simulate(monkeypatch, folder)


@pytest.mark.parametrize("flags", [("--elastic", "1.5"), ("--days", "-1"), ("--days", "inf")])
def test_flags_out_of_range_are_refused(
    monkeypatch: pytest.MonkeyPatch, folder: Path, flags: tuple[str, str]
) -> None:
    with pytest.raises(SystemExit):
        simulate(monkeypatch, folder, *flags)
