"""PURE. Records that each name the one before by its hash, so that no change of them stays hidden.

Who knows the newest hash from elsewhere also detects that the newest records are missing.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256

from cede.api.objects import Json

FIRST = "0" * 64
"""In place of the hash before the first record."""


@dataclass(frozen=True, slots=True)
class Head:
    """The number and hash of a record, as somebody noted them outside of the database."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


def parse_head(text: str) -> Head:
    """The reverse of `str`. Raises ValueError."""
    number, _, digest = text.strip().partition(":")
    if not number.isdecimal() or len(digest) != len(FIRST):
        raise ValueError(f"{text!r} is no head of the audit: write it like 12:9f86d0…, 64 digits")
    return Head(int(number), digest)


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """What became of an object. The first record has the number 1."""

    number: int
    # RFC 3339
    time: str
    kind: str
    name: str
    # canonical JSON
    content: str
    # the hash of the record before
    previous: str
    hash: str

    @property
    def head(self) -> Head:
        return Head(self.number, self.hash)


def line_of(record: AuditRecord) -> str:
    """The record as a line of JSON. In ASCII, so that no text in it ends the line, and none needs
    an encoding."""
    return json.dumps(asdict(record))


def parse_record(line: str) -> AuditRecord:
    """The reverse of `line_of`. Raises ValueError."""
    try:
        record = AuditRecord(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{line[:80]!r} is no record of the audit: {error}") from error
    texts = (record.time, record.kind, record.name, record.content, record.previous, record.hash)
    if not isinstance(record.number, int) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{line[:80]!r} is no record of the audit: a field has another type")
    return record


def canonical(content: Json) -> str:
    """The same text for equal contents."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def next_record(last: Head | None, time: str, kind: str, name: str, content: str) -> AuditRecord:
    number = last.number + 1 if last else 1
    previous = last.hash if last else FIRST
    digest = _digest(number, time, kind, name, content, previous)
    return AuditRecord(number, time, kind, name, content, previous, digest)


def complaint(records: Iterable[AuditRecord], head: Head | None = None) -> str:
    """What is wrong with the records, which must be all, in order; empty if nothing is.

    With a `head`, the record of this number must be there with this hash.
    """
    last: Head | None = None
    for record in records:
        expected = next_record(last, record.time, record.kind, record.name, record.content)
        if record.number != expected.number:
            return f"record {expected.number} is missing: record {record.number} follows"
        if record.previous != expected.previous:
            return f"record {record.number} does not follow the one before it: one was changed"
        if record.hash != expected.hash:
            return f"record {record.number} was changed: its hash is not that of its content"
        if head and record.number == head.number and record.hash != head.hash:
            return f"record {record.number} is not the one that was noted: all may be rewritten"
        last = record.head
    if head and head.number > (last.number if last else 0):
        present = f"record {last.number} is the last" if last else "there are none"
        return f"records up to {head.number} were noted, but {present}: the newest are missing"
    return ""


def _digest(number: int, time: str, kind: str, name: str, content: str, previous: str) -> str:
    """A list, not a join: no text can pass for two."""
    text = json.dumps([number, time, kind, name, content, previous], ensure_ascii=False)
    return sha256(text.encode()).hexdigest()
