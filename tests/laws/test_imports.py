"""The import laws hold, and they are about the modules that they should be about."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from cede.dashboard.static_files import StaticFiles
from tests.laws.sources import (
    PACKAGES,
    PROJECT,
    docstring,
    module,
    name,
    sources,
    tree_of,
)
from tests.paths import TREE

PURITY = "Decisions are pure"
PROGRAMS = "cede/programs/"
ASKED = ("whatif", "webhook", "scheduler", "quota_controller")
"""The program that predicts, and the components that it asks."""
PAGE_FILES = "cede/dashboard/static/"
SHELLS = "No decision imports a shell"


def contract(title: str) -> dict[str, Any]:
    contracts: list[dict[str, Any]] = PROJECT["tool"]["importlinter"]["contracts"]
    return next(entry for entry in contracts if entry["name"] == title)


def test_the_import_laws_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [str(program), "--no-cache"], cwd=TREE, text=True, capture_output=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_the_linter_knows_every_package(package: str) -> None:
    assert package in PROJECT["tool"]["importlinter"]["root_packages"]


# --- pure modules ---------------------------------------------------------------------------------
def ignored_shells(title: str) -> set[str]:
    """The modules whose imports the contract leaves out."""
    ignored = [line.split(" -> ") for line in contract(title).get("ignore_imports", [])]
    return {importer for importer, imported in ignored if imported == "**"}


def under_the_law() -> set[str]:
    """The modules below the contract's sources, without packages and without the shells."""
    roots = contract(PURITY)["source_modules"]
    below = tuple(f"{root}." for root in roots)
    modules = [module(path) for path in sources(*PACKAGES) if path.name != "__init__.py"]
    lawful = {path for path in modules if path in roots or path.startswith(below)}
    return lawful - ignored_shells(PURITY)


def test_a_module_says_pure_if_and_only_if_it_is_under_the_law() -> None:
    """Its docstring begins with `PURE. `; the law is the contract in pyproject.toml."""
    modules = [path for path in sources(*PACKAGES) if path.name != "__init__.py"]
    claimed = {module(path) for path in modules if docstring(path).startswith("PURE. ")}
    assert claimed - under_the_law() == set(), "say PURE and are not under the law"
    assert under_the_law() - claimed == set(), "are under the law and do not say PURE"


def test_both_laws_of_purity_name_the_same_shells() -> None:
    shells = ignored_shells(PURITY)
    assert shells
    assert shells == ignored_shells(SHELLS)
    assert shells == set(contract(SHELLS)["forbidden_modules"])
    assert set(contract(PURITY)["forbidden_modules"]) >= {"cede.kube", "torch", "os", "time"}


# --- packages -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "package",
    [
        *("cede", "cede/api", "cede/kube", "cede/commands", "cede/dashboard"),
        *("elastic_runtime", "elastic_runtime/agent"),
    ],
)
def test_importing_a_package_imports_nothing_else(package: str) -> None:
    """Its `__init__.py` runs when any module below is imported, and the linter does not see that.
    `sys`, `typing` and `importlib` may be imported, and what only the type checker looks at."""
    path = TREE / package / "__init__.py"
    assert docstring(path)
    imported = {
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in tree_of(path).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= {"sys", "typing", "importlib"}, f"{name(path)} imports {imported}"


def test_the_tests_of_the_runtime_run_where_nothing_of_the_controllers_is_installed() -> None:
    """`make test-pythons` and `make test-oldest`: deploy/locks/pythons.txt and oldest.txt."""
    paths = sources("tests/processes", "tests/unit/elastic_runtime")
    imported = {package for path in paths for package in _imported_packages(path)}
    ours = {"elastic_runtime", "tests", "pytest", "hypothesis", "torch", "numpy"}
    assert imported - set(sys.stdlib_module_names) <= ours


def _imported_packages(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            yield str(node.module).partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)


def test_what_the_command_requires_is_in_the_environment_of_the_tests() -> None:
    """And the image of the controllers has nothing that only the command needs."""
    cli = set(PROJECT["project"]["optional-dependencies"]["cli"])
    groups = PROJECT["dependency-groups"]
    controllers = set(groups["controllers"])
    assert cli <= controllers | {entry for entry in groups["dev"] if isinstance(entry, str)}
    own = {requirement.partition(">")[0] for requirement in cli - controllers}
    assert own == {"rich", "typer"}
    assert not own & {requirement.partition(">")[0] for requirement in controllers}


def test_the_wheel_requires_nothing() -> None:
    assert PROJECT["project"]["dependencies"] == []


def test_the_wheel_has_the_files_of_the_page_and_the_program_that_predicts(tmp_path: Path) -> None:
    """Built with hatchling, as pip would; what git keeps of them is in it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=TREE, text=True, capture_output=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("cede-*.whl")
    names = ZipFile(wheel).namelist()
    assert StaticFiles().names == {
        name.removeprefix(PAGE_FILES) for name in names if name.startswith(PAGE_FILES)
    }
    programs = {name.removeprefix(PROGRAMS) for name in names if name.startswith(PROGRAMS)}
    assert programs == {
        str(path.relative_to(TREE)) for folder in ASKED for path in (TREE / folder).rglob("*.py")
    }
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "cede",
        "elastic_runtime",
    }


def test_the_wheel_puts_no_controller_beside_the_command_and_the_runtime() -> None:
    """Others own these names: what predicts is in a folder of the command, which only its process
    has on its path."""
    build = PROJECT["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    assert wheel["only-include"] == ["cede", "elastic_runtime", *ASKED]
    assert wheel["sources"] == {folder: f"{PROGRAMS}{folder}" for folder in ASKED}
    assert set(build) == {"dev-mode-dirs", "targets"}
    assert set(build["targets"]) == {"wheel", "sdist"}
