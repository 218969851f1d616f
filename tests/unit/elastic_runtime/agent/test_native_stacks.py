"""The native stacks of a worker: of py-spy, or none."""

import os
import shutil
from pathlib import Path

import pytest

from elastic_runtime.agent import native_stacks


@pytest.fixture
def py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A py-spy that is the only program of this name in PATH, once it is written."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert not shutil.which("py-spy")
    return tmp_path / "py-spy"


def write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


async def test_py_spy_is_asked_for_native_frames(py_spy: Path) -> None:
    write(py_spy, 'echo "$@"')
    assert await native_stacks.py_spy_dump(7) == "dump --nonblocking --native --pid 7\n"


@pytest.mark.usefixtures("py_spy")
async def test_without_py_spy_there_are_none() -> None:
    assert await native_stacks.py_spy_dump(os.getpid()) == ""


async def test_a_py_spy_that_hangs_is_not_waited_for(
    py_spy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_stacks, "PY_SPY_TIMEOUT_S", 0.05)
    write(py_spy, "exec sleep 60")
    assert await native_stacks.py_spy_dump(7) == ""
