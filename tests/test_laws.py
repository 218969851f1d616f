"""What import-linter cannot see, and that it passes: the house is as its map says."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import TREE

PACKAGES = ("cede", "webhook", "scheduler", "quota_controller", "elastic_runtime")
PROJECT = tomllib.loads((TREE / "pyproject.toml").read_text())
# lines of a file
LONGEST = 300


def sources(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (TREE / package).rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(TREE).as_posix()


def tracked() -> list[str]:
    """Every file that git keeps; in a tree without git, every file that is not hidden."""
    done = subprocess.run(
        ["git", "ls-files"], cwd=TREE, text=True, capture_output=True, check=False
    )
    if done.returncode == 0 and done.stdout:
        return done.stdout.splitlines()
    return [
        name(path)
        for path in TREE.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.parts)
    ]


def test_the_import_laws_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [str(program), "--no-cache"], cwd=TREE, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", ["cede", "cede/api", "cede/kube", "elastic_runtime"])
def test_a_package_opens_with_a_docstring_and_nothing_else(package: str) -> None:
    """It runs when any module below it is imported, and the linter draws no line for that."""
    module = ast.parse((TREE / package / "__init__.py").read_text())
    assert ast.get_docstring(module)
    assert len(module.body) == 1


def test_what_the_command_needs_is_what_the_controllers_are_tested_with() -> None:
    cli = set(PROJECT["project"]["optional-dependencies"]["cli"])
    assert cli <= set(PROJECT["dependency-groups"]["controllers"])


def test_the_wheel_requires_nothing() -> None:
    assert PROJECT["project"]["dependencies"] == []


def test_the_wheel_holds_the_command_and_the_runtime_and_no_controller() -> None:
    """As hatchling will build it: these two folders, nothing put in by force, no path rewritten."""
    build = PROJECT["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"] == {"packages": ["cede", "elastic_runtime"]}
    assert set(build) == {"dev-mode-dirs", "targets"}
    assert set(build["targets"]) == {"wheel", "sdist"}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_looked_at_by_the_linter(package: str) -> None:
    assert package in PROJECT["tool"]["importlinter"]["root_packages"]


@pytest.mark.parametrize("path", sources(*PACKAGES, "deploy", "tests", "examples"), ids=name)
def test_a_file_has_one_subject(path: Path) -> None:
    length = len(path.read_text().splitlines())
    assert length <= LONGEST, (
        f"{name(path)} has {length} lines: past {LONGEST} it has two subjects, give each a file"
    )


DOORS = {
    "cede/cli.py": "the command",
    "elastic_runtime/child.py": "hands its environment on to a rank",
    "elastic_runtime/signalled.py": (
        "the door of a command that is none of ours, which gets the rest of it"
    ),
    "elastic_runtime/session.py": "the door of a rank: what the parent put there for it",
}
INSIDE = [
    path for path in sources(*PACKAGES) if path.name != "__main__.py" and name(path) not in DOORS
]


@pytest.mark.parametrize("path", INSIDE, ids=name)
def test_the_environment_is_read_at_the_door_only(path: Path) -> None:
    """In `__main__.py` and the few others named in DOORS."""
    nodes = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.expr | ast.stmt)
    ]
    reads = [node.lineno for node in nodes if _reads_environment(node)]
    assert not reads, (
        f"{name(path)} reads the environment in line {reads[0]}: read it in __main__.py and pass "
        f"it on"
    )


def _reads_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and (node.value.id, node.attr) in {
            ("os", "environ"),
            ("os", "getenv"),
            ("sys", "argv"),
        }
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and any(
            alias.name in ("environ", "getenv") for alias in node.names
        )
    return False


@pytest.mark.parametrize("path", sources(*PACKAGES), ids=name)
def test_a_module_opens_with_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), (
        f"{name(path)} has no docstring: say in a sentence what it is for"
    )


# --- the map --------------------------------------------------------------------------------------
def readme_map() -> list[tuple[int, str]]:
    """(depth, name) of each entry in the README's map: the first code block under `## Map`, drawn
    as `tree` draws."""
    found = re.search(
        r"^## Map\n.*?^```[a-z]*\n(.*?)^```",
        (TREE / "README.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert found, "README.md has no `## Map` with a code block under it"
    entries = list[tuple[int, str]]()
    for row in found[1].splitlines():
        drawn = re.match(r"^((?:│   |    )*)(?:├── |└── )(\S+)", row)
        # a line across, between two floors
        if drawn and not drawn[2].startswith("─"):
            entries.append((len(drawn[1]) // 4, drawn[2].rstrip("/,")))
    return entries


def mapped() -> Iterator[str]:
    """The paths on the map."""
    above = list[str]()
    for depth, entry in readme_map():
        above = [*above[:depth], entry]
        yield "/".join(above)


def test_what_the_map_names_is_there() -> None:
    missing = [path for path in mapped() if not (TREE / path).exists()]
    assert not missing, f"the README's map names what is not there: {', '.join(missing)}"


def test_what_is_there_at_the_top_is_on_the_map() -> None:
    top = {path.partition("/")[0] for path in tracked()}
    shown = {entry.partition("/")[0] for depth, entry in readme_map() if depth == 0}
    missing = sorted(entry for entry in top - shown if not entry.startswith("."))
    assert not missing, f"the README's map leaves out {', '.join(missing)}"


def named_beside_rules() -> set[str]:
    """The test files that the README names beside its rules, in the last column of the tables under
    `## Every rule, and its test`."""
    found = re.search(
        r"^## Every rule, and its test\n(.*?)^## ",
        (TREE / "README.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert found, "README.md has no `## Every rule, and its test`"
    cells = [
        row.rstrip("| ").rpartition("|")[2]
        for row in found[1].splitlines()
        if row.startswith("|") and "---" not in row
    ]
    words = {word.strip() for cell in cells for word in cell.split(",")} - {"tests"}
    return {
        f"tests/integration/test_{word[2:-2]}.py"
        if word.startswith("**")
        else f"tests/test_{word}.py"
        for word in words
    }


def test_every_rule_names_a_test_that_is_there() -> None:
    found = named_beside_rules()
    missing = sorted(path for path in found if path not in tracked())
    assert found
    assert not missing, f"the README names tests that are not there: {', '.join(missing)}"


def test_every_test_of_governance_has_a_rule() -> None:
    left = sorted(
        path
        for path in tracked()
        if path.startswith("tests/integration/test_governance_")
        and path not in named_beside_rules()
    )
    assert not left, f"the README's rules leave out {', '.join(left)}"
