"""What others wrote is pinned, has a licence that we may use, and comes from where we think."""

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

from deploy import licences
from deploy.sbom import locked
from tests.laws.sources import tracked
from tests.paths import TREE

LOCKS = TREE / "deploy" / "locks"
NVIDIA = ("nvidia-", "cuda-")
"""What torch brings for GPUs, under NVIDIA's own terms. No image of ours holds it, and no file of
ours is made from it."""
TEXT_FILES = (".md", ".py", ".sh", ".yaml", ".toml", "Dockerfile", "Makefile")


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.txt")), ids=lambda lock: str(lock.stem))
def test_every_locked_package_is_pinned_by_hash(lock: Path) -> None:
    packages = list(locked(lock))
    assert packages
    assert not [name for name, _, hashes in packages if not hashes]
    # an address would decide where it comes from
    assert "://" not in lock.read_text()


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.txt")), ids=lambda lock: str(lock.stem))
def test_every_dependency_has_a_licence_that_is_allowed(lock: Path) -> None:
    refused = {}
    for name, _, _ in locked(lock):
        if lock.stem != "controllers" and name.startswith(NVIDIA):
            continue
        try:
            found_licences = licences.of_package(metadata(name))
        except PackageNotFoundError:
            # for another platform, or a tool outside of this environment
            continue
        if not found_licences or not found_licences <= licences.ALLOWED:
            refused[name] = sorted(found_licences)
    assert not refused


def test_the_image_of_the_controllers_holds_nothing_of_nvidia() -> None:
    names = [name for name, _, _ in locked(LOCKS / "controllers.txt")]
    assert not [name for name in names if name.startswith((*NVIDIA, "torch"))]


def test_nobody_is_told_to_install_cede_from_an_index() -> None:
    """The name is not ours there: who takes it would own those who follow."""
    instructions = []
    for path in tracked():
        if not path.endswith(TEXT_FILES) or path == "tests/laws/test_supply.py":
            continue
        text = (TREE / path).read_text()
        if re.search(r"""(pip|uv|pipx) (install|add) (-\S+ )*['"]?cede\b""", text):
            instructions.append(path)
    assert not instructions


def test_set_up_and_images_install_only_what_is_locked() -> None:
    """A wheel of our own, and this repository, have nothing to be locked."""
    unlocked = []
    for path in ("deploy/local/setup.sh", "deploy/Dockerfile"):
        text = (TREE / path).read_text().replace("\\\n", " ")
        for line in text.splitlines():
            if "pip" in line and " install " in line and not line.lstrip().startswith("#"):
                is_ours = "--no-deps" in line
                if not is_ours and "--require-hashes" not in line:
                    unlocked.append(f"{path}: {line.strip()}")
    assert not unlocked
