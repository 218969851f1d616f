"""The map in docs/architecture.md is the tree: it names what is there, and all of it."""

import re
from dataclasses import dataclass

from tests.laws.sources import PACKAGES, tracked
from tests.paths import TREE

INDENT = 2


@dataclass(frozen=True)
class Entry:
    path: str
    is_folder: bool
    purpose: str


def parse(text: str) -> list[Entry]:
    """The lines of a map: two spaces deeper is below; `name/  what it is for`."""
    entries = list[Entry]()
    parents = list[str]()
    for line in filter(str.strip, text.splitlines()):
        depth = (len(line) - len(line.lstrip())) // INDENT
        entry, _, purpose = line.strip().partition(" ")
        parents = [*parents[:depth], entry.rstrip("/")]
        entries.append(Entry("/".join(parents), entry.endswith("/"), purpose.strip()))
    return entries


def the_map() -> list[Entry]:
    """Every `text` block below the heading `## Map` of docs/architecture.md."""
    page = (TREE / "docs" / "architecture.md").read_text()
    section = re.search(r"^## Map\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section, "docs/architecture.md has no `## Map`"
    blocks = re.findall(r"^```text\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)
    return [entry for block in blocks for entry in parse(block)]


def missing_from(entries: list[Entry], files: tuple[str, ...]) -> list[str]:
    """The files that no entry names and no folder without entries of its own stands for."""
    named = {entry.path for entry in entries}
    parents = {entry.path.rpartition("/")[0] for entry in entries}
    uniform = {entry.path for entry in entries if entry.is_folder and entry.path not in parents}
    below_uniform = tuple(f"{folder}/" for folder in uniform)
    return [
        path
        for path in files
        if path not in named
        and not path.startswith(below_uniform)
        and not (path.endswith("/__init__.py") and path.removesuffix("/__init__.py") in named)
    ]


def test_the_parser_reads_folders_and_files() -> None:
    entries = parse("a/     all of it\n  b.py   one\n  c/     many\nd.md   last\n")
    assert [entry.path for entry in entries] == ["a", "a/b.py", "a/c", "d.md"]
    files = ("a/__init__.py", "a/b.py", "a/c/x.py", "a/new.py", "d.md", "e.md")
    assert missing_from(entries, files) == ["a/new.py", "e.md"]


def test_what_the_map_names_exists() -> None:
    missing = [entry.path for entry in the_map() if not (TREE / entry.path).exists()]
    assert not missing, f"docs/architecture.md names what does not exist: {', '.join(missing)}"


def test_what_exists_is_on_the_map() -> None:
    missing = missing_from(the_map(), tracked())
    assert not missing, f"docs/architecture.md leaves out {', '.join(missing)}"


def test_every_entry_says_what_it_is_for_and_stands_once() -> None:
    paths = [entry.path for entry in the_map()]
    assert sorted(set(paths)) == sorted(paths)
    assert not [entry.path for entry in the_map() if not entry.purpose]


def test_no_folder_stands_for_the_modules_of_a_package() -> None:
    """Each module of a package is named by itself."""
    named = {entry.path for entry in the_map()}
    packages = tuple(f"{package}/" for package in PACKAGES)
    missing = [
        path
        for path in tracked()
        if path.startswith(packages) and not path.endswith("__init__.py") and path not in named
    ]
    assert not missing, f"docs/architecture.md leaves out {', '.join(missing)}"
