"""Pages name the versions of Kubernetes and Kueue that `make matrix` and the local cluster have."""

import re
from pathlib import Path

import pytest

from cede.api.support import OLDEST_KUBERNETES, OLDEST_KUEUE, TESTED_KUBERNETES, text_of
from deploy.local.cells import CELLS
from tests.matrix.table import versions
from tests.paths import TREE
from tests.unit.docs.pages import DOCS, name

README = TREE / "README.md"
RECORDS = {"benchmarks.md"}
"""What was measured names the versions that it was measured with."""
PAGES = [README, *(page for page in sorted(DOCS.glob("*.md")) if page.name not in RECORDS)]
NAMED = re.compile(r"\b(Kubernetes|Kueue) (\d+(?:\.\d+)+)")
LIST_OF_KUBERNETES = re.compile(r"Kubernetes ([^|]+?), Kueue")


def known_versions() -> set[tuple[str, str]]:
    """Those of all cells, with and without their patch, and the oldest that Cede works with."""
    pairs = {("Kubernetes", text_of(OLDEST_KUBERNETES)), ("Kueue", text_of(OLDEST_KUEUE))}
    for cell in CELLS.values():
        for product, version in zip(("Kubernetes", "Kueue"), versions(cell), strict=True):
            number = version.removeprefix("v")
            pairs |= {(product, number), (product, number.rpartition(".")[0])}
    return pairs


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_names_only_versions_of_the_matrix(page: Path) -> None:
    unknown = set(NAMED.findall(page.read_text())) - known_versions()
    assert not unknown, f"{name(page)}: deploy/local/cells.py has no {sorted(unknown)}"


def versions_of_kubernetes(line: str) -> list[str]:
    """Those that stand before the version of Kueue."""
    match = LIST_OF_KUBERNETES.search(line)
    assert match, f"no versions of Kubernetes, and then of Kueue: {line}"
    return re.findall(r"\d+(?:\.\d+)+", match[1])


def test_the_readme_says_what_was_tested() -> None:
    line = next(line for line in README.read_text().splitlines() if "Tested with" in line)
    assert versions_of_kubernetes(line) == [text_of(version) for version in TESTED_KUBERNETES]


def test_the_limitations_say_what_was_tested_with_its_patch() -> None:
    lines = (DOCS / "limitations.md").read_text().splitlines()
    line = next(line for line in lines if line.startswith("| versions |"))
    cells = [CELLS[text_of(version)] for version in TESTED_KUBERNETES]
    assert versions_of_kubernetes(line) == [versions(cell)[0].removeprefix("v") for cell in cells]


@pytest.mark.parametrize(
    ("product", "oldest"), [("Kubernetes", OLDEST_KUBERNETES), ("Kueue", OLDEST_KUEUE)]
)
def test_the_requirements_are_the_oldest_versions(product: str, oldest: tuple[int, ...]) -> None:
    assert f"| {product} | {text_of(oldest)} or newer |" in (DOCS / "install.md").read_text()
