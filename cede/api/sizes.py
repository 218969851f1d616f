"""The grammar of allowed sizes: `2-8`, `2-8/2` (step), `1,2,4,8`."""

import re
from collections.abc import Sequence

MAX_SIZE = 4096
# characters; every size by itself is shorter
MAX_LENGTH = 8 * MAX_SIZE
_NUMBER = "([0-9]{1,9})"
_ONE = re.compile("[0-9]{1,8}")
_RANGE = re.compile(f"{_NUMBER}-{_NUMBER}(?:/{_NUMBER})?")
_LIST = re.compile(f"{_NUMBER}(?:,{_NUMBER})*")
CURE = "write it like 2-8, 2-8/2 or 1,2,4,8"


def parse(text: str) -> tuple[int, ...]:
    """The allowed sizes, ascending. Raises ValueError that says what is wrong and how to write
    it."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"{text[:20] + '…'!r} is {len(text)} characters long: {CURE}")
    text = "".join(part.strip() for part in re.split("([-/,])", text))
    shown = repr(text if len(text) <= 60 else f"{text[:20]}…")
    if found := _RANGE.fullmatch(text):
        low = int(found[1])
        high = int(found[2])
        step = int(found[3] or 1)
        if low > high:
            raise ValueError(f"{shown} runs from {low} down to {high}: put the smaller size first")
        if step < 1:
            raise ValueError(f"{shown} has step 0: {CURE}")
        if high > MAX_SIZE:
            raise ValueError(f"{shown} goes up to {high}: at most {MAX_SIZE} pods are supported")
        sizes = tuple(range(low, high + 1, step))
    elif _LIST.fullmatch(text):
        sizes = tuple(sorted({int(part) for part in text.split(",")}))
        if sizes[-1] > MAX_SIZE:
            raise ValueError(
                f"{shown} goes up to {sizes[-1]}: at most {MAX_SIZE} pods are supported"
            )
    else:
        raise ValueError(f"{shown} is no list of sizes: {CURE}")
    if sizes[0] < 1:
        raise ValueError(
            f"{shown} holds size 0, which would complete the job: the smallest size is 1"
        )
    return sizes


def parse_one(text: str) -> int | None:
    """The size in a note such as `cede.dev/desired-size`; None when `text` is not a number.

    The size need not be among the allowed ones.
    """
    return int(text) if _ONE.fullmatch(text) else None


def largest_within(sizes: Sequence[int], limit: int) -> int | None:
    """The largest allowed size within `limit`; None when even the smallest is too large."""
    return max((size for size in sizes if size <= limit), default=None)


def describe(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))
