"""The files that the laws are about."""

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.paths import TREE

PACKAGES = ("cede", "webhook", "scheduler", "quota_controller", "elastic_runtime", "whatif")
PROJECT: dict[str, Any] = tomllib.loads((TREE / "pyproject.toml").read_text())


def sources(*folders: str) -> list[Path]:
    """The Python files below these folders."""
    return sorted(path for folder in folders for path in (TREE / folder).rglob("*.py"))


def all_sources() -> list[Path]:
    return sources(*PACKAGES, "deploy", "tests", "examples")


def name(path: Path) -> str:
    """A path relative to the repository."""
    return path.relative_to(TREE).as_posix()


def module(path: Path) -> str:
    """`scheduler/plan.py` → `scheduler.plan`; a package's `__init__.py` is the package."""
    return name(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def docstring(path: Path) -> str:
    return ast.get_docstring(tree_of(path)) or ""


@cache
def tracked() -> tuple[str, ...]:
    """Every file that git keeps or would keep; in a tree without git, every file not hidden."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=TREE, text=True, capture_output=True, check=False)
    names = listing.stdout.splitlines() if listing.returncode == 0 else list(_visible())
    return tuple(sorted(path for path in names if (TREE / path).is_file()))


def _visible() -> Iterator[str]:
    for path in TREE.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(TREE).parts)
        if not hidden and "__pycache__" not in path.parts:
            yield name(path)
