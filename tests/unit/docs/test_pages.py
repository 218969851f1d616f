"""Links lead somewhere, the README is short, and tables name tests that exist."""

import re
from pathlib import Path

import pytest

from cede.api.allocation import AllocationSpec
from cede.api.instance_type import InstanceType
from cede.api.policy import PolicySpec, Preemption
from cede.api.team_security import TeamSecurity
from elastic_runtime.agent.metrics import Tally, format_job, format_pod
from elastic_runtime.contract import Status
from tests.laws.sources import tracked
from tests.paths import TREE
from tests.unit.docs.pages import BLOCK, DOCS, blocks, name, pages

README = TREE / "README.md"
MAX_PICTURE_BYTES = 200_000
PICTURES = {".svg": b"<svg", ".png": b"\x89PNG"}
"""What the file of a drawing, and of a screenshot, has in it."""
MAX_GLOSSARY = 10
PARTS_OF_THE_POLICY = {"`preemption`", "`security`"}


def prose(page: Path) -> str:
    return BLOCK.sub("", page.read_text())


# --- links ----------------------------------------------------------------------------------------
def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def links(page: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [link for link in targets if not link.startswith(("http://", "https://"))]


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link}, which does not exist"
        if anchor:
            assert anchor in anchors(target), f"{name(page)} links to {link}: no such heading"


def test_every_page_is_reached_from_the_index() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    missing = [name(page) for page in DOCS.glob("*.md") if page not in linked | {index}]
    assert not missing, f"docs/index.md does not link to {', '.join(missing)}"


# --- the README -----------------------------------------------------------------------------------
def test_the_readme_is_short() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 130
    assert len(text.split()) <= 900
    assert "shields.io" not in text


@pytest.mark.parametrize("picture", sorted((DOCS / "images").iterdir()), ids=name)
def test_a_picture_is_small_and_described(picture: Path) -> None:
    assert PICTURES[picture.suffix] in picture.read_bytes()
    assert picture.stat().st_size <= MAX_PICTURE_BYTES
    described = any(
        re.search(rf"!\[.+\]\(\S*{picture.name}\)", page.read_text()) for page in pages()
    )
    assert described, f"no page shows {picture.name} with a description"


# --- rules and glossary ---------------------------------------------------------------------------
def named_tests() -> set[str]:
    cells = re.findall(r"`([a-z0-9_/]+\.py)`", (DOCS / "rules.md").read_text())
    return {f"tests/{path}" for path in cells}


def test_every_rule_names_a_test_that_exists() -> None:
    rows = re.findall(r"^\|(?! ?-)(.*)\|$", (DOCS / "rules.md").read_text(), re.MULTILINE)
    without = [row for row in rows if ".py`" not in row and not row.strip().endswith("tests")]
    assert not without, f"rules without a test: {without}"
    missing = sorted(path for path in named_tests() if not (TREE / path).exists())
    assert not missing, f"docs/rules.md names {', '.join(missing)}"


def test_every_test_of_governance_has_a_rule() -> None:
    tests = {path for path in tracked() if path.startswith("tests/integration/test_governance_")}
    assert not tests - named_tests(), "docs/rules.md leaves out tests"


def test_every_test_that_a_page_names_exists() -> None:
    paths = {
        (name(page), path)
        for page in pages()
        if page.name not in ("CHANGELOG.md", "0010-folders-show-the-design.md")
        for path in re.findall(r"`(tests/[\w/]+(?:\.py)?)`", page.read_text())
    }
    missing = [f"{page}: {path}" for page, path in sorted(paths) if not (TREE / path).exists()]
    assert not missing


def test_the_glossary_has_at_most_ten_words_and_each_is_used() -> None:
    page = DOCS / "glossary.md"
    words = re.findall(r"^\| ([^|]+?) \|", page.read_text(), re.MULTILINE)[1:]
    words = [word for word in words if not set(word) <= {"-"}]
    assert 0 < len(words) <= MAX_GLOSSARY
    text = " ".join(other.read_text().lower() for other in pages() if other != page)
    assert not [word for word in words if word.lower() not in text]


def test_every_module_in_a_diagram_exists() -> None:
    modules = {path.rpartition("/")[2] for path in tracked()}
    named = {
        module
        for block in blocks("mermaid")
        for module in re.findall(r"[\w/]+\.py", block.text)
        if module.rpartition("/")[2] not in modules
    }
    assert not named, f"diagrams name modules that do not exist: {named}"


# --- tables of fields and metrics -----------------------------------------------------------------
def test_the_table_of_metrics_is_complete() -> None:
    text = format_job(Status(), Tally()) + format_pod(0, 0, 0, slowest_answer_s=0, own_s=0)
    existing = set(re.findall(r"^(elastic_runtime_\w+)", text, re.MULTILINE))
    page = (DOCS / "runtime-reference.md").read_text()
    assert set(re.findall(r"^\| `(elastic_runtime_\w+)`", page, re.MULTILINE)) == existing


def test_the_tables_of_the_admin_guide_have_every_field() -> None:
    page = (DOCS / "admin-guide.md").read_text()
    fields = {f"`{name}`" for name in PolicySpec.model_fields} - PARTS_OF_THE_POLICY
    fields |= {f"`preemption.{name}`" for name in Preemption.model_fields}
    fields |= {f"`security.{name}`" for name in TeamSecurity.model_fields}
    fields |= {f"`{name}`" for name in InstanceType.model_fields}
    fields |= {f"`{name}`" for name in AllocationSpec.model_fields if name != "sharing"}
    assert not [field for field in sorted(fields) if field not in page]


def test_the_admin_guide_shows_the_defaults_of_preemption() -> None:
    page = (DOCS / "admin-guide.md").read_text()
    rows = re.findall(r"^\| `preemption\.(\w+)` \|.*\| (\d+) \|$", page, re.MULTILINE)
    defaults = {key: field.default for key, field in Preemption.model_fields.items()}
    assert {key: int(value) for key, value in rows} == defaults
