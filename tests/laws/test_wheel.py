"""The same sources make the same wheel, byte for byte."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.laws.sources import PROJECT, tracked
from tests.paths import TREE

INPUTS = ("pyproject.toml", "README.md", "LICENSE")


def build(folder: Path, umask: int, modified: int) -> bytes:
    """The wheel of a copy in this folder, as pip builds it. `modified`: of all files, in Unix
    seconds."""
    roots = tuple(
        f"{name}/" for name in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    )
    for path in tracked():
        if path in INPUTS or path.startswith(roots):
            copy = folder / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TREE / path, copy)
            copy.chmod(0o666 & ~umask)
            os.utime(copy, (modified, modified))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(command, cwd=folder, umask=umask, capture_output=True, check=True)
    (wheel,) = (folder / "dist").glob("cede-*.whl")
    return wheel.read_bytes()


@pytest.mark.slow
def test_folder_umask_and_dates_change_nothing_of_the_wheel(tmp_path: Path) -> None:
    first = build(tmp_path / "one", 0o022, 1_000_000_000)
    assert first == build(tmp_path / "another" / "place", 0o077, 1_700_000_000)
