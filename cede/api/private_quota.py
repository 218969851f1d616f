"""PURE. The note on a ClusterQueue whose quota is changed for a moment: for whom, and what its
quota was."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from cede.api import names
from cede.api.kueue import FlavorQuotas, ResourceGroup
from cede.api.objects import Json
from cede.api.resources import FlavorResource, amount

Amount = str | int | None


@dataclass(frozen=True, slots=True)
class Original:
    """The quota of one resource before the change."""

    flavor: str
    resource: str
    nominal: Amount
    # None: it had no limit
    lending_limit: Amount = None


@dataclass(frozen=True, slots=True)
class PrivateQuota:
    """The note as a value."""

    cession: str
    originals: tuple[Original, ...] = ()

    def text(self) -> str:
        return json.dumps(asdict(self))

    def restored(self, groups: Iterable[Json]) -> list[Json]:
        """The resource groups with the quota as it was."""
        changes = {
            (original.flavor, original.resource): (original.nominal, original.lending_limit)
            for original in self.originals
        }
        return changed_groups(groups, changes)


def parse(text: str) -> PrivateQuota | None:
    """None if there is no note, or if it is not one of ours."""
    try:
        note = json.loads(text or "null")
        originals = tuple(Original(**original) for original in note["originals"])
        for original in originals:
            for value in (original.nominal, original.lending_limit):
                amount(original.resource, value or 0)
        return PrivateQuota(str(note["cession"]), originals)
    except (ValueError, TypeError, KeyError, ArithmeticError):
        return None


def read(queue: Json) -> PrivateQuota | None:
    """The note on a raw ClusterQueue."""
    annotations = queue.get("metadata", {}).get("annotations") or {}
    return parse(annotations.get(names.PRIVATE_QUOTA, ""))


def groups_before(queue: Json) -> list[Json]:
    """The resource groups of a raw ClusterQueue, as they are without private quota."""
    groups: list[Json] = queue["spec"]["resourceGroups"]
    note = read(queue)
    return note.restored(groups) if note else groups


def originals_of(queue: Json) -> tuple[Original, ...]:
    note = read(queue)
    return note.originals if note else ()


def changed_groups(
    groups: Iterable[Json], changes: Mapping[FlavorResource, tuple[Amount, Amount]]
) -> list[Json]:
    """The resource groups with these (nominal quotas, lending limits)."""
    return [_changed_group(group, changes) for group in groups]


def _changed_group(group: Json, changes: Mapping[FlavorResource, tuple[Amount, Amount]]) -> Json:
    return group | {"flavors": [_changed_flavor(flavor, changes) for flavor in group["flavors"]]}


def _changed_flavor(flavor: Json, changes: Mapping[FlavorResource, tuple[Amount, Amount]]) -> Json:
    changed = list[Json]()
    for resource in flavor["resources"]:
        entry = dict(resource)
        if (flavor["name"], entry["name"]) in changes:
            entry["nominalQuota"], limit = changes[flavor["name"], entry["name"]]
            entry["lendingLimit"] = limit
        changed.append(_without_none(entry))
    return flavor | {"resources": changed}


def as_json(groups: Iterable[ResourceGroup]) -> list[Json]:
    """The resource groups as the API has them."""
    return [_group(group) for group in groups]


def _group(group: ResourceGroup) -> Json:
    flavors = [_flavor(flavor) for flavor in group.flavors]
    return {"coveredResources": list(group.coveredResources), "flavors": flavors}


def _flavor(flavor: FlavorQuotas) -> Json:
    resources = [_without_none(asdict(resource)) for resource in flavor.resources]
    return {"name": flavor.name, "resources": resources}


def _without_none(entry: Json) -> Json:
    return {name: value for name, value in entry.items() if value is not None}
