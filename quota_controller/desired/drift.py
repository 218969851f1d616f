"""PURE. A live object compared with the desired one: what differs, and who changed it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cede.api.objects import Json
from cede.api.resources import amount

Path = tuple[str | int, ...]
_AMOUNT_FIELDS = {"nominalQuota", "borrowingLimit", "lendingLimit", "weight"}
_LIMITS: Path = ("spec", "hard")
"""Of a ResourceQuota."""
_ABSENT = object()
MAX_LISTED_DIFFERENCES = 4
"""A sentence lists this many differences and counts the others."""
_MAX_VALUE_LENGTH = 60


@dataclass(frozen=True)
class Difference:
    """A field whose live value is not the desired one."""

    path: Path
    live: Any
    desired: Any

    def describe(self, *, secret: bool = False) -> str:
        """`spec.stopPolicy was Hold, is None again`; of a Secret without the values."""
        steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path]
        field = "".join(steps).lstrip(".")
        if secret:
            return f"{field} was changed"
        return f"{field} was {_abbreviate(self.live)}, is {_abbreviate(self.desired)} again"


def matches(live: object, desired: object) -> bool:
    """Whether the live value has everything that the desired one has."""
    return next(differences(live, desired), None) is None


def differences(
    live: object, desired: object, path: Path = (), *, exact: bool = False
) -> Iterator[Difference]:
    """The fields where the live value is not the desired one.

    Others may add keys to a map. A list is all ours: nothing may be added to it or inside of it
    (`exact`). Amounts are compared by value, because the API server writes `1` for `1000m`.
    """
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        for key, desired_value in desired.items():
            live_value = live.get(key, _ABSENT)
            if live_value != desired_value:
                yield from differences(live_value, desired_value, (*path, key), exact=exact)
        if exact:
            for key in live:
                if key not in desired:
                    yield Difference((*path, key), live[key], _ABSENT)
    elif isinstance(desired, list) and isinstance(live, list) and len(desired) == len(live):
        for index, (live_item, desired_item) in enumerate(zip(live, desired, strict=True)):
            yield from differences(live_item, desired_item, (*path, index), exact=True)
    elif live != desired and not _is_same_amount(live, desired, path):
        yield Difference(path, live, desired)


def _is_same_amount(live: object, desired: object, path: Path) -> bool:
    if not path or (path[-1] not in _AMOUNT_FIELDS and path[:-1] != _LIMITS):
        return False
    if not isinstance(live, str | int) or not isinstance(desired, str | int):
        return False
    return amount("cpu", live) == amount("cpu", desired)


def lowers_quota(live: Json | None, desired: Json) -> bool:
    """Whether the desired object has less of some nominal quota than the live one.

    Such objects are written first, so that the sum of all quotas never exceeds the capacity.
    """
    before = _nominal_quotas(live or {})
    after = _nominal_quotas(desired)
    return any(value > after.get(key, 0) for key, value in before.items())


def _nominal_quotas(queue: Json) -> dict[tuple[str, str], int]:
    """(flavor, resource) → nominal quota of a ClusterQueue or Cohort."""
    groups = (queue.get("spec") or {}).get("resourceGroups") or []
    return {
        (flavor["name"], resource["name"]): amount("cpu", resource.get("nominalQuota", 0))
        for group in groups
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }


# --- the author of a change -----------------------------------------------------------------------
def last_manager(live: Json, path: Path) -> str:
    """The field manager that wrote the field last; empty when managedFields do not contain it."""
    entries = [
        entry
        for entry in live["metadata"].get("managedFields") or []
        if _covers(entry.get("fieldsV1") or {}, path, live)
    ]
    if not entries:
        return ""
    newest = max(entries, key=lambda entry: entry.get("time") or "")
    return str(newest.get("manager", ""))


def _covers(fields: Json, path: Path, live: Any) -> bool:
    """Whether a `fieldsV1` set contains the path or a parent of it.

    It names the items of a list by their keys or values and not by position, so items are looked
    up in the live object.
    """
    for step in path:
        if not fields:
            return True
        if isinstance(step, int):
            name = next((name for name in fields if _is_item(name, live, step)), None)
            if name is None:
                return False
            live = live[step]
        else:
            name = f"f:{step}"
            if name not in fields:
                return False
            live = live.get(step) if isinstance(live, Mapping) else None
        fields = fields[name]
    return True


def _is_item(name: str, live: Any, index: int) -> bool:
    """Whether `k:{"name":"x"}` names the item at this index of the live list."""
    if not name.startswith("k:") or not isinstance(live, list) or index >= len(live):
        return False
    keys = json.loads(name.removeprefix("k:"))
    return bool(keys.items() <= live[index].items())


# --- edits by others ------------------------------------------------------------------------------
def foreign_edits(
    live: Json, desired: Json, last_applied: Json | None, *, manager: str
) -> list[Difference]:
    """What somebody other than `manager` changed in the object.

    That is every difference from what `manager` applied last. If this is not known, it is every
    difference from the desired object in a field that another manager wrote.
    """
    if last_applied:
        return list(differences(live, last_applied))
    return [
        difference
        for difference in differences(live, desired)
        if last_manager(live, difference.path) not in ("", manager)
    ]


def describe_edits(
    live: Json, edits: Iterable[Difference], *, manager: str, secret: bool = False
) -> str:
    """`changed by kubectl-edit: spec.stopPolicy was Hold, is None again`."""
    edits = list(edits)
    managers = {last_manager(live, edit.path) for edit in edits}
    authors = sorted(managers - {"", manager})
    by_authors = f" by {', '.join(authors)}" if authors else ""
    listed = ", ".join(edit.describe(secret=secret) for edit in edits[:MAX_LISTED_DIFFERENCES])
    hidden = len(edits) - MAX_LISTED_DIFFERENCES
    more = f", and {hidden} more" if hidden > 0 else ""
    return f"changed{by_authors}: {listed}{more}"


def _abbreviate(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) <= _MAX_VALUE_LENGTH:
        return text
    return f"{text[: _MAX_VALUE_LENGTH - 3]}..."
