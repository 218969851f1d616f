"""PURE. Which container of a pod trains, and how many accelerators it asks for."""

from collections.abc import Mapping

from cede.api.objects import Json
from webhook.json_fields import get_dict, get_dicts
from webhook.team import Team, is_accelerator


def find_training_container(pod: Json, team: Team) -> Json:
    """The first container with accelerators, else the first; empty if there is none."""
    containers = get_dicts(pod, "containers")
    with_accelerators = [item for item in containers if count_accelerators(item, team)]
    return next(iter(with_accelerators or containers), {})


def count_accelerators(container: Json, team: Team) -> int:
    """How many accelerators, or partitions of one, the container requests."""
    resources = get_dict(container, "resources")
    amounts: Mapping[str, object] = get_dict(resources, "requests") | get_dict(resources, "limits")
    counts = [str(amount) for name, amount in amounts.items() if is_accelerator(name, team)]
    return sum(int(count) for count in counts if count.isdecimal() and len(count) < 6)
