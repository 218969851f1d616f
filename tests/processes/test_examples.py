"""The ported scripts: how much changed, that both forms run, and that a resize loses nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.local_job import Job, check_exactly_once, free_port
from tests.harness.ported_scripts import (
    DOUBLES,
    PORTING,
    changed,
    counted_changes,
    losses,
    write_slow_data,
)
from tests.marks import in_long
from tests.paths import TREE

SEVERAL = TREE / "tests" / "processes" / "scripts" / "several.py"
PORTED = ("loader", "streaming", "torchrun", "trainer")
STEPS = 120
MICRO_BATCHES = 8
ARGUMENTS = ("--steps", str(STEPS), "--out", "log")


def test_the_porting_page_counts_the_changes() -> None:
    assert counted_changes("porting.md") == {name: changed(name) for name in PORTED}


def test_the_readme_names_the_range_of_new_statements() -> None:
    added = [changed(name)[1] for name in PORTED]
    assert f"{min(added)} to {max(added)} new statements" in (TREE / "README.md").read_text()


@pytest.fixture(scope="module")
def output_of_plain_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every script leaves in its folder when it runs without Cede or alone.

    All run in one process, because importing torch takes long.
    """
    directory = tmp_path_factory.mktemp("plain")
    one_worker = {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    env = os.environ | one_worker | {"PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"}
    scripts = [f"{name}_before:50" for name in PORTED] + [f"{name}:{STEPS}" for name in PORTED]
    command = [sys.executable, str(SEVERAL), str(PORTING), str(directory), *scripts]
    result = subprocess.run(command, env=env, text=True, capture_output=True)
    assert result.returncode == 0, result.stderr
    return directory


@pytest.mark.processes
@pytest.mark.parametrize("name", PORTED)
def test_the_ordinary_script_runs_and_saves(output_of_plain_runs: Path, name: str) -> None:
    files = (output_of_plain_runs / f"{name}_before").iterdir()
    assert [path.suffix for path in files] == [".pt"]


@pytest.mark.processes
@pytest.mark.parametrize("name", [PORTED[0], *in_long(*PORTED[1:])])
def test_a_resize_changes_no_loss_of_the_elastic_script(
    tmp_path: Path, output_of_plain_runs: Path, name: str
) -> None:
    undisturbed = losses(output_of_plain_runs / name)
    write_slow_data(tmp_path)
    job = Job(tmp_path, f"{DOUBLES}\n{(PORTING / f'{name}.py').read_text()}", arguments=ARGUMENTS)
    try:
        job.start(0, 1)
        job.trains(2)
        job.resize(1)
        job.trains(1)
        job.resize(2)
        assert [pod.wait(60) for pod in job.pods.values()] == [0, 0], job.output()
    finally:
        job.kill()
    expected = [undisturbed[step] for step in range(1, STEPS + 1)]
    assert check_exactly_once(job, lambda _: expected, MICRO_BATCHES) == STEPS
    sizes = {line["step"]: line["size"] for line in job.lines("steps-*")}
    assert set(sizes.values()) == {1, 2}
    assert os.listdir(tmp_path / "log" / "save")
