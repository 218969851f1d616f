"""The ported scripts: how much changed, that both forms run, and that the elastic one loses nothing when its job changes size."""

import difflib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.elastic_job import Job, check_exactly_once, free_port

TREE = Path(__file__).resolve().parents[1]
PORTING = TREE / "examples" / "porting"
GUIDE = TREE / "docs" / "runtime.md"
PORTED = ("loader", "streaming", "torchrun", "trainer")
STEPS, MICRO_BATCHES = 120, 8
ARGUMENTS = ("--steps", str(STEPS), "--out", "log")


def changed(name: str) -> tuple[int, int]:
    """Lines that go and lines that come, from the ordinary script to the elastic one; empty lines do not count."""
    before, after = ((PORTING / f"{name}{form}.py").read_text().splitlines() for form in ("_before", ""))
    lines = [line for line in difflib.unified_diff(before, after, n=0) if line[1:].strip() and not line.startswith(("---", "+++"))]
    return sum(line.startswith("-") for line in lines), sum(line.startswith("+") for line in lines)


def test_the_guide_says_how_many_lines_change() -> None:
    rows = re.findall(r"^\| \[(\w+)_before\.py\].*\| −(\d+) \+(\d+) \|$", GUIDE.read_text(), re.MULTILINE)
    assert {name: (int(gone), int(come)) for name, gone, come in rows} == {name: changed(name) for name in PORTED}


def test_the_readme_says_between_how_few_and_how_many() -> None:
    gone, come = zip(*map(changed, PORTED), strict=True)
    said = re.search(r"\((\d+) to (\d+) new lines each, (\d+) to\s(\d+) old ones gone\)", (TREE / "README.md").read_text())
    assert said
    assert [int(number) for number in said.groups()] == [min(come), max(come), min(gone), max(gone)]


def lay_out(directory: Path, name: str, seconds: float = 0) -> Path:
    """The script as `train.py`, and the data beside it; every sample takes `seconds` to read."""
    shutil.copy(PORTING / f"{name}.py", directory / "train.py")
    data = (PORTING / "made_up.py").read_text()
    slow, times = re.subn(r"^( +)(return self\.|values = )", rf"\1__import__('time').sleep({seconds})\n\1\2", data, flags=re.MULTILINE)
    assert times == 2
    (directory / "made_up.py").write_text(slow)
    return directory


def run_plainly(directory: Path, steps: int = STEPS) -> Job:
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    job = Job(directory, (directory / "train.py").read_text(), arguments=ARGUMENTS)
    command = [sys.executable, "train.py", *ARGUMENTS, "--steps", str(steps)]
    done = subprocess.run(command, cwd=directory, env=job.env | alone, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return job


@pytest.mark.processes
@pytest.mark.parametrize("name", PORTED)
def test_the_ordinary_script_runs_as_it_is(tmp_path: Path, name: str) -> None:
    run_plainly(lay_out(tmp_path, f"{name}_before"), steps=50)
    assert [path.name for path in (tmp_path / "log").iterdir()]


@pytest.mark.processes
@pytest.mark.parametrize("name", PORTED)
def test_the_elastic_script_trains_through_a_resize_as_if_there_were_none(tmp_path: Path, name: str) -> None:
    for place in ("plain", "job"):
        (tmp_path / place).mkdir()
    plain = run_plainly(lay_out(tmp_path / "plain", name))
    losses = {line["step"]: line["loss"] for line in plain.lines("steps-*")}
    lay_out(tmp_path / "job", name, seconds=0.003)
    job = Job(tmp_path / "job", (PORTING / f"{name}.py").read_text(), arguments=ARGUMENTS)
    try:
        job.start(0, 1)
        job.trains(2)
        job.resize(1)
        job.trains(1)
        job.resize(2)
        assert [pod.wait(60) for pod in job.pods.values()] == [0, 0], job.said()
    finally:
        job.kill()
    assert check_exactly_once(job, lambda _: [losses[step] for step in range(1, STEPS + 1)], MICRO_BATCHES) == STEPS
    sizes = {line["step"]: line["size"] for line in job.lines("steps-*")}
    assert set(sizes.values()) == {1, 2}
    assert os.listdir(tmp_path / "job" / "log" / "save")
