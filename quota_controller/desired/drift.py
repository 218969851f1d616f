"""PURE. A live object against what we say of it: what differs, who changed it, and in which words
that is told."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cede.api.objects import Json
from cede.api.resources import amount

Path = tuple[str | int, ...]
_AMOUNTS = {"nominalQuota", "borrowingLimit", "lendingLimit", "weight"}
_NOTHING = object()
MOST_SAID = 4
"""Differences told one by one; the others are counted."""


@dataclass(frozen=True)
class Difference:
    """A field that is not as we say."""

    path: Path
    live: Any
    ours: Any

    def in_words(self, *, secret: bool = False) -> str:
        where = "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path
        ).lstrip(".")
        return (
            f"{where} was changed"
            if secret
            else f"{where} was {_short(self.live)}, is {_short(self.ours)} again"
        )


def says(live: object, ours: object) -> bool:
    """Whether the live value already says what ours says."""
    return next(differences(live, ours), None) is None


def differences(
    live: object, ours: object, path: Path = (), *, exact: bool = False
) -> Iterator[Difference]:
    """Where the live value does not say what ours says.

    In a map others may add; a list is wholly ours, so inside one nothing may be added. Amounts are
    compared as amounts:
    the server writes `1` for `1000m`.
    """
    if isinstance(ours, Mapping) and isinstance(live, Mapping):
        for key, value in ours.items():
            found = live.get(key, _NOTHING)
            if found != value:
                yield from differences(found, value, (*path, key), exact=exact)
        if exact:
            yield from (
                Difference((*path, key), live[key], _NOTHING) for key in live if key not in ours
            )
    elif isinstance(ours, list) and isinstance(live, list) and len(ours) == len(live):
        for at, (one, other) in enumerate(zip(live, ours, strict=True)):
            yield from differences(one, other, (*path, at), exact=True)
    elif live != ours and not _same_amount(live, ours, path):
        yield Difference(path, live, ours)


def _same_amount(live: object, ours: object, path: Path) -> bool:
    named = (
        path
        and path[-1] in _AMOUNTS
        and isinstance(live, str | int)
        and isinstance(ours, str | int)
    )
    return bool(named) and amount("cpu", live) == amount("cpu", ours)  # type: ignore[arg-type]


def lowers(live: Json | None, ours: Json) -> bool:
    """Whether ours gives less of some quota than the live object: such are written first, so that
    no sum ever says too much."""
    before = _nominal(live or {})
    after = _nominal(ours)
    return any(value > after.get(key, 0) for key, value in before.items())


def _nominal(queue: Json) -> dict[tuple[str, str], int]:
    groups = (queue.get("spec") or {}).get("resourceGroups") or []
    return {
        (flavor["name"], resource["name"]): amount("cpu", resource.get("nominalQuota", 0))
        for group in groups
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }


# --- who ------------------------------------------------------------------------------------------
def manager_of(live: Json, path: Path) -> str:
    """The field manager that wrote the field last, as the server keeps it; empty when it does not
    tell."""
    owners = [
        entry
        for entry in live["metadata"].get("managedFields") or []
        if _holds(entry.get("fieldsV1") or {}, path, live)
    ]
    return (
        str(max(owners, key=lambda entry: entry.get("time") or "").get("manager", ""))
        if owners
        else ""
    )


def _holds(fields: Json, path: Path, live: Any) -> bool:
    """Whether this set of fields has the path, or a whole above it. Entries of a list go by its
    keys or values, not by place."""
    for step in path:
        if not fields:
            return True
        if isinstance(step, int):
            inside = [
                sub
                for name, sub in fields.items()
                if name.startswith("k:") and _is_entry(name, live, step)
            ]
            if not inside:
                return False
            fields = inside[0]
            live = live[step]
        elif (name := f"f:{step}") in fields:
            fields = fields[name]
            live = live.get(step) if isinstance(live, Mapping) else None
        else:
            return False
    return True


def _is_entry(name: str, live: Any, place: int) -> bool:
    keys = json.loads(name.removeprefix("k:"))
    return isinstance(live, list) and place < len(live) and keys.items() <= live[place].items()


# --- words ----------------------------------------------------------------------------------------
def edits(live: Json, ours: Json, said: Json | None, *, manager: str) -> list[Difference]:
    """What somebody else has changed: all that differs from what we said last, or, if that is not
    known, what is another's."""
    found = list(differences(live, said or ours))
    return (
        found if said else [one for one in found if manager_of(live, one.path) not in ("", manager)]
    )


def in_words(
    live: Json, changed: Iterable[Difference], *, manager: str, secret: bool = False
) -> str:
    """`changed by kubectl-edit: spec.stopPolicy was Hold, is None again`."""
    changed = list(changed)
    others = sorted(
        {who for one in changed if (who := manager_of(live, one.path)) not in ("", manager)}
    )
    more = f", and {len(changed) - MOST_SAID} more" if len(changed) > MOST_SAID else ""
    listed = ", ".join(one.in_words(secret=secret) for one in changed[:MOST_SAID])
    author = f" by {', '.join(others)}" if others else ""
    return f"changed{author}: {listed}{more}"


def _short(value: Any) -> str:
    if value is _NOTHING:
        return "absent"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
