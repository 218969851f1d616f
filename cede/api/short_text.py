"""PURE. Texts that fit into the field that records them."""

from collections.abc import Sequence


def cut(text: str, limit: int) -> str:
    """The text, or its first characters and an ellipsis: at most `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def listed(items: Sequence[str], limit: int) -> str:
    """The items with commas: as many as fit into `limit` characters, and how many more there
    are."""
    text = ", ".join(items)
    if len(text) <= limit:
        return text
    shown = 0
    used = len(f" and {len(items)} more")
    while used + len(items[shown]) + 2 <= limit:
        used += len(items[shown]) + 2
        shown += 1
    return cut(f"{', '.join(items[:shown])} and {len(items) - shown} more".lstrip(), limit)
