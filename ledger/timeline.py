"""PURE. What was seen since the last entry, moment by moment, and what was not seen.

All times are microseconds since 1970. Every moment of the calendar is in exactly one span: a clock
that is set back counts no moment twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ledger.claims import ClaimKey
from ledger.usage import Use

SECOND = 1_000_000
MAX_PAUSE = 30 * SECOND
"""Passes are 10 s apart. After a longer pause nobody knows what happened meanwhile."""


@dataclass(frozen=True, slots=True)
class Span:
    """What holds from its beginning to that of the next one."""

    begin: int
    # None: it was not seen
    use: Use | None
    claims: Mapping[ClaimKey, int] = field(default_factory=dict)
    # why it was not seen
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A span with its end."""

    begin: int
    end: int
    span: Span


@dataclass(frozen=True, slots=True)
class Timeline:
    """Time up to `written` is in entries; `noted` is that of the last pass."""

    written: int
    noted: int
    spans: tuple[Span, ...]


def begin(written: int, now: int) -> Timeline:
    """The time since the last entry of an earlier process is a gap."""
    return Timeline(written, max(written, now), (_gap(written, "the ledger did not run"),))


def note(
    timeline: Timeline, use: Use | None, claims: Mapping[ClaimKey, int], now: int, reason: str = ""
) -> Timeline:
    """A pass has seen this; nothing can be seen without `use`, for this reason."""
    span = Span(max(now, timeline.noted), use, claims, reason)
    spans = timeline.spans
    if span.begin - timeline.noted > MAX_PAUSE:
        spans = (*spans, _gap(timeline.noted, "the ledger made no pass"))
    last = spans[-1]
    if (last.use, last.claims, last.reason) != (span.use, span.claims, span.reason):
        spans = (*(span_before for span_before in spans if span_before.begin < span.begin), span)
    return Timeline(timeline.written, span.begin, spans)


def lose(timeline: Timeline, since: int, reason: str) -> Timeline:
    """What was noted from `since` on was no longer confirmed by the server."""
    since = max(since, timeline.written)
    if timeline.spans[-1].use is None and timeline.spans[-1].begin <= since:
        return timeline
    kept = tuple(span for span in timeline.spans if span.begin < since)
    return replace(timeline, spans=(*kept, _gap(since, reason)))


def take(timeline: Timeline, until: int) -> tuple[list[Piece], Timeline]:
    """The pieces up to `until`, and the timeline that is left."""
    until = min(until, timeline.noted)
    if until <= timeline.written:
        return [], timeline
    ends = [span.begin for span in timeline.spans[1:]]
    pieces = []
    left = []
    for span, end in zip(timeline.spans, [*ends, timeline.noted], strict=True):
        start = max(span.begin, timeline.written)
        stop = min(end, until)
        if start < stop:
            pieces.append(Piece(start, stop, span))
        is_last = span is timeline.spans[-1]
        if end > until or is_last:
            left.append(span)
    return pieces, Timeline(until, timeline.noted, tuple(left))


def _gap(since: int, reason: str) -> Span:
    return Span(since, None, reason=reason)
