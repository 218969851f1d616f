"""The page about security names tests that exist, and every risk has its reason."""

import ast
import re

from tests.harness.admission import policies
from tests.paths import TREE

PAGE = TREE / "docs" / "security.md"
PATH = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables between this heading and the next of its level."""
    text = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [cells_of(line) for line in lines]


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def names_of_tests(path: str) -> set[str]:
    tree = ast.parse((TREE / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions)}


def test_every_defence_names_a_test_that_exists() -> None:
    defences = [cells for cells in rows("Defences") if cells[0] != "attempt"]
    assert len(defences) > 20
    for cells in defences:
        named = PATH.findall(cells[-1])
        assert named, f"{cells[0]}: no test"
        for path, test in named:
            assert (TREE / path).exists(), path
            assert test in names_of_tests(path), f"{cells[0]}: {path} has no {test or 'test named'}"


def test_every_accepted_risk_has_its_reason() -> None:
    risks = [cells for cells in rows("Accepted risks") if cells[0] != "risk"]
    assert len(risks) > 5
    assert not [cells for cells in risks if len(cells) != 2 or len(cells[1].split()) < 5]


def test_every_admission_policy_is_on_the_page() -> None:
    page = PAGE.read_text()
    for policy in policies():
        assert f"`{policy['metadata']['name']}`" in page


def test_who_finds_a_weakness_is_told_where_to_report_it() -> None:
    assert "Report a vulnerability" in (TREE / ".github" / "SECURITY.md").read_text()
