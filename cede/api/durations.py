"""PURE. The grammar of durations in annotations: `90s`, `5m`, `1h`."""

import re

_DURATION = re.compile(r"(\d+)([smh])")
_ADMITTED = re.compile(r"[1-9]\d{0,6}[smh]")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_MAX_SHOWN = 40
_MAX_NUMBER = 1e9
"""Larger numbers count as this one: a float of 309 digits is infinite."""


def parse(text: str) -> int:
    """Whole seconds, at least 1. Raises ValueError that says how to write a duration.

    This is the grammar that admission enforces.
    """
    if not _ADMITTED.fullmatch(text.strip()):
        shown = text if len(text) <= _MAX_SHOWN else text[:20] + "…"
        raise ValueError(f"{shown!r} is not a duration: write it like 90s, 5m or 1h")
    return int(parse_or_zero(text))


def parse_or_zero(text: str) -> float:
    """Seconds, or 0.0 when `text` is not a duration.

    For objects that may have passed admission while the webhook did not answer: a number of any
    length is accepted, also 0.
    """
    match = _DURATION.fullmatch(text.strip())
    return min(float(match[1]), _MAX_NUMBER) * _SECONDS[match[2]] if match else 0.0


def describe(seconds: float) -> str:
    """For people: `45 s`, `12 min`, `3 h`, `2 d`. A negative duration is `0 s`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
