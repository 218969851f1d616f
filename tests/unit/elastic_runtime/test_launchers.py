"""A script that another launcher starts several times is refused, with the right command."""

import os
import subprocess
import sys

import pytest

from elastic_runtime.launchers import launcher_mistakes
from tests.builders.sessions import small_session
from tests.paths import TREE

COMMAND = "start `python -m elastic_runtime --local 4 train.py` on this machine"


@pytest.mark.parametrize(
    ("environment", "launcher"),
    [
        ({"RANK": "0", "WORLD_SIZE": "4"}, "torchrun"),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}, "srun"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"}, "mpirun"),
        ({"PMI_RANK": "0", "PMI_SIZE": "4"}, "mpirun"),
    ],
)
def test_copies_of_a_script_are_refused(environment: dict[str, str], launcher: str) -> None:
    [mistake] = launcher_mistakes(environment, "train.py")
    assert mistake.startswith(f"{launcher} has started 4 copies of this script")
    assert COMMAND in mistake
    assert "\n" not in mistake


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="no launcher"),
        pytest.param({"RANK": "0", "WORLD_SIZE": "1"}, id="a single process"),
        pytest.param({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, id="a batch script, runs once"),
        pytest.param({"WORLD_SIZE": "4"}, id="a batch script that exports what it computed"),
        pytest.param({"RANK": "0", "WORLD_SIZE": "many"}, id="a variable of somebody else's"),
    ],
)
def test_a_single_process_is_a_job_of_one(environment: dict[str, str]) -> None:
    assert list(launcher_mistakes(environment, "train.py")) == []


def test_a_session_refuses_to_be_one_of_several_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="torchrun has started 2 copies of this script"):
        small_session()


@pytest.mark.parametrize("words", [["--local", "2", "train.py"], ["train.py"]])
def test_the_command_refuses_to_be_one_of_several_copies(words: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "elastic_runtime", *words],
        env=os.environ | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"},
        cwd=TREE,
        text=True,
        capture_output=True,
    )
    assert result.returncode == 2
    assert "srun has started 2 copies of this script" in result.stderr.splitlines()[-1]
