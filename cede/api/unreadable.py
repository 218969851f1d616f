"""PURE. Which objects a controller cannot read, as it notes it in its Lease."""

from collections.abc import Iterable
from dataclasses import dataclass

from cede.api.short_text import cut

MAX_FIRST = 300


@dataclass(frozen=True, slots=True)
class UnreadableObjects:
    count: int = 0
    # the kind and name of one of them, and why it cannot be read
    first: str = ""

    @property
    def note(self) -> str:
        """The annotation; empty if all can be read."""
        return f"{self.count}: {self.first}" if self.count else ""


def count_unreadable(reasons: Iterable[str]) -> UnreadableObjects:
    """`reasons`: why each object cannot be read. The first of them is named."""
    texts = list(reasons)
    if not texts:
        return ALL_READABLE
    # pydantic writes lines
    return UnreadableObjects(len(texts), cut(" ".join(texts[0].split()), MAX_FIRST))


def parse(note: str) -> UnreadableObjects:
    """Another text than a note says nothing."""
    count, _, first = note.partition(": ")
    if not count.isdecimal():
        return ALL_READABLE
    return UnreadableObjects(int(count), cut(first, MAX_FIRST))


ALL_READABLE = UnreadableObjects()
