"""The pages of the documentation and their code blocks."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.paths import TREE

DOCS = TREE / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    top = [TREE / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    template = TREE / ".github" / "pull_request_template.md"
    return [*top, *sorted(DOCS.rglob("*.md")), template]


def name(page: Path) -> str:
    return page.relative_to(TREE).as_posix()


def blocks(*languages: str) -> list[Block]:
    """The code blocks of all pages, in these languages or in all."""
    return [
        Block(name(page), text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for page in pages()
        for text in [page.read_text()]
        for match in BLOCK.finditer(text)
        if not languages or match[1] in languages
    ]


def blocks_of(page: str, *languages: str) -> list[Block]:
    return [block for block in blocks(*languages) if block.page == page]


def before(diff: Block) -> str:
    """The text without the lines that the diff adds."""
    return _lines_of(diff, " -")


def after(diff: Block) -> str:
    return _lines_of(diff, " +")


def _lines_of(diff: Block, kinds: str) -> str:
    lines = diff.text.splitlines()
    return "".join(f"{line[1:]}\n" for line in lines if not line or line[0] in kinds)
