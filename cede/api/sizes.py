"""PURE. The grammar of allowed sizes: `2-8`, `2-8/2` (with a step), `1,2,4,8`."""

import re
from bisect import bisect_right
from collections.abc import Sequence

MAX_SIZE = 4096
# characters; enough for every list of sizes
MAX_LENGTH = 8 * MAX_SIZE
_MAX_SHOWN = 60
_NUMBER = "([0-9]{1,9})"
_ONE = re.compile("[0-9]{1,8}")
_RANGE = re.compile(f"{_NUMBER}-{_NUMBER}(?:/{_NUMBER})?")
_LIST = re.compile(f"{_NUMBER}(?:,{_NUMBER})*")
CURE = "write it like 2-8, 2-8/2 or 1,2,4,8"


def parse(text: str) -> tuple[int, ...]:
    """The allowed sizes, ascending.

    Raises ValueError that says what is wrong and how to write it.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"{text[:20] + '…'!r} is {len(text)} characters long: {CURE}")
    text = "".join(part.strip() for part in re.split("([-/,])", text))
    shown = repr(text if len(text) <= _MAX_SHOWN else f"{text[:20]}…")
    if match := _RANGE.fullmatch(text):
        sizes = _range(int(match[1]), int(match[2]), int(match[3] or 1), shown)
    elif _LIST.fullmatch(text):
        sizes = tuple(sorted({int(part) for part in text.split(",")}))
    else:
        raise ValueError(f"{shown} is no list of sizes: {CURE}")
    if sizes[-1] > MAX_SIZE:
        raise ValueError(f"{shown} goes up to {sizes[-1]}: at most {MAX_SIZE} pods are supported")
    if sizes[0] < 1:
        raise ValueError(
            f"{shown} holds size 0, which would complete the job: the smallest size is 1"
        )
    return sizes


def _range(low: int, high: int, step: int, shown: str) -> tuple[int, ...]:
    if low > high:
        raise ValueError(f"{shown} runs from {low} down to {high}: put the smaller size first")
    if step < 1:
        raise ValueError(f"{shown} has step 0: {CURE}")
    if high > MAX_SIZE:
        raise ValueError(f"{shown} goes up to {high}: at most {MAX_SIZE} pods are supported")
    return tuple(range(low, high + 1, step))


def parse_one(text: str) -> int | None:
    """The size in a note such as `cede.dev/desired-size`; None when `text` is not a number.

    The size need not be among the allowed ones.
    """
    return int(text) if _ONE.fullmatch(text) else None


def largest_within(sizes: Sequence[int], limit: int) -> int | None:
    """The largest allowed size up to `limit`; None when even the smallest is larger.

    `sizes` are ascending.
    """
    count = bisect_right(sizes, limit)
    return sizes[count - 1] if count else None


def describe(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))
