"""The package is copied whole, and two versions that would meet are named."""

import subprocess
import sys
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent.injection import PACKAGE, copy_runtime, other_runtime
from tests.paths import TREE


def names(folder: Path) -> set[Path]:
    return {
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_package_is_copied_whole_and_again(tmp_path: Path) -> None:
    for _ in range(2):
        assert copy_runtime(tmp_path, contract.VERSION) == ""
    copy = tmp_path / PACKAGE.name
    assert names(copy) == names(PACKAGE)


def test_a_job_that_was_admitted_with_another_version_gets_none(tmp_path: Path) -> None:
    admitted = contract.VERSION - 1
    result = subprocess.run(
        [sys.executable, "-m", "elastic_runtime.agent.injection", tmp_path, str(admitted)],
        cwd=TREE,
        text=True,
        capture_output=True,
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert f"has version {contract.VERSION} of the contract" in line
    assert f"admitted with version {admitted}" in line
    assert "Name Cede's image by digest" in line
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    complaint = copy_runtime(tmp_path / "file", contract.VERSION)
    assert complaint.startswith(f"the runtime cannot be copied to {tmp_path}/file: ")


@pytest.mark.parametrize(
    ("version", "is_named"),
    [(contract.VERSION, False), (contract.VERSION + 1, True), (contract.VERSION - 1, True)],
)
def test_another_version_in_the_image_is_named(
    tmp_path: Path, version: int, is_named: bool
) -> None:
    package = tmp_path / PACKAGE.name
    package.mkdir()
    (package / "contract.py").write_text(f'"""A contract."""\n\nVERSION = {version}\n')
    warning = other_runtime([str(PACKAGE.parent), "", "/nowhere", str(tmp_path)])
    assert bool(warning) == is_named
    if is_named:
        assert f"not that of the image in {package}, with version {version}" in warning
