"""Every module has a test file of its own, or says which other test covers it, and why. Every long
test of the cluster is run by a command."""

import ast
import re
from pathlib import Path

from tests.laws.covered_modules import COVERED_BY
from tests.laws.sources import PACKAGES, name, sources, tracked, tree_of
from tests.paths import TREE

FOLDERS = {"cede/api/": "cede_api/", "cede/kube/": "cede_kube/", "cede/": "cede_cli/"}
"""Folders whose unit tests have another name: a tests/unit/cede would be taken for the package."""


def expected_test(path: str) -> str:
    """`scheduler/plan.py` → `tests/unit/scheduler/test_plan.py`."""
    for folder, unit in FOLDERS.items():
        if path.startswith(folder):
            path = unit + path.removeprefix(folder)
            break
    folder, _, file = path.rpartition("/")
    return f"tests/unit/{folder}/test_{file.removeprefix('__').replace('__.py', '.py')}"


def modules() -> list[str]:
    return [name(path) for path in sources(*PACKAGES) if Path(path).name != "__init__.py"]


def test_the_place_of_a_test_follows_from_its_module() -> None:
    assert expected_test("scheduler/plan.py") == "tests/unit/scheduler/test_plan.py"
    assert expected_test("cede/api/sizes.py") == "tests/unit/cede_api/test_sizes.py"
    assert expected_test("cede/report.py") == "tests/unit/cede_cli/test_report.py"
    assert expected_test("webhook/__main__.py") == "tests/unit/webhook/test_main.py"


def test_every_module_has_a_test_or_says_what_covers_it() -> None:
    files = tracked()
    missing = [
        f"{path}: write {expected_test(path)}, or name the test that covers it in COVERED_BY"
        for path in modules()
        if expected_test(path) not in files and path not in COVERED_BY
    ]
    assert not missing, "\n".join(["", *missing])


def test_the_list_of_covered_modules_is_true() -> None:
    wrong = [
        f"{path} → {test}: the module or the test does not exist, or it has a test of its own"
        for path, (test, _) in COVERED_BY.items()
        if not (TREE / path).exists()
        or not (TREE / test).exists()
        or expected_test(path) in tracked()
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_a_covered_module_gives_a_reason() -> None:
    assert not [path for path, (_, reason) in COVERED_BY.items() if len(reason.split()) < 4]


LONG_MARKS = {"LONG", "in_long", "LONG_FAULTS", "HAS_LONG_FAULTS"}


def has_long_tests(path: Path) -> bool:
    imported = {
        alias.name
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.module == "tests.marks"
        for alias in node.names
    }
    return bool(LONG_MARKS & imported)


def is_run_by(recipe: str, path: Path) -> bool:
    """By its path, or by a part of the name of one of its tests."""
    text = path.read_text()
    parts = re.findall(r" -k (\w+)", recipe)
    return name(path) in recipe.split() or any(part in text for part in parts)


def test_every_file_with_long_tests_of_the_cluster_is_named_in_test_long() -> None:
    makefile = (TREE / "Makefile").read_text()
    recipe = makefile.partition("\ntest-long:")[2].partition("\n\n")[0]
    files = [path for path in sources("tests/integration", "tests/e2e") if has_long_tests(path)]
    assert files
    missing = [
        f"{name(path)}: name it in the Makefile's test-long, which alone runs its long tests"
        for path in files
        if not is_run_by(recipe, path)
    ]
    assert not missing, "\n".join(["", *missing])
