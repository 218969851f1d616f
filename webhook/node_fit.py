"""PURE. Refuses pods that no node could ever run; Kueue would leave them pending."""

from collections.abc import Iterator
from dataclasses import dataclass

from cede.api.objects import Json
from cede.api.pod_templates import Container, ContainerResources, PodSpec
from cede.api.pods import pod_requests
from cede.api.resources import Resources, amount, describe_amount, describe_amounts, quantity
from webhook.json_fields import get_dict, get_dicts, get_group_kind
from webhook.kinds import TRAIN_JOB, get_pod_templates
from webhook.team import Team, is_accelerator

# characters; a longer text is not a quantity, and would take long to parse
MAX_QUANTITY_LENGTH = 64
MAX_TYPES_SHOWN = 4
CURE = "request less per pod and use more pods"


def pod_size_complaints(job: Json, team: Team) -> Iterator[str]:
    """A complaint for each pod template that requests more than a whole node of any type has.

    Without complaints while the nodes of one type are not known. Compares accelerators and the
    resources that some type declares; others, such as storage, are ignored.
    """
    if not team.nodes or not all(_is_known(node) for node in team.nodes.values()):
        return
    for path, requests in get_pod_requests(job):
        compared = _select_compared(requests, team)
        if not any(_fits(compared, node, team) for node in team.nodes.values()):
            yield f"{path} requests {_explain(compared, team)}"


# --- what pods request ----------------------------------------------------------------------------
def get_pod_requests(job: Json) -> Iterator[tuple[str, Resources]]:
    """(field path, requests of one pod) of each pod template.

    Skips a template with a quantity that cannot be parsed: the API server refuses it.
    """
    for path, template in get_pod_templates(job):
        requests = sum_requests(get_dict(template, "spec"))
        if requests is not None:
            yield f"{path}.spec".removeprefix("."), requests
    if get_group_kind(job) == TRAIN_JOB:
        resources = _parse_resources(get_dict(job, "spec", "trainer", "resourcesPerNode"))
        if resources is not None:
            pod = PodSpec((Container(resources=resources),))
            yield "spec.trainer.resourcesPerNode", pod_requests(pod)


def sum_requests(pod: Json) -> Resources | None:
    """What a pod spec of any shape requests of its node; None when a quantity cannot be parsed."""
    containers = _parse_containers(pod, "containers")
    init_containers = _parse_containers(pod, "initContainers")
    overhead = _parse_resources({"requests": get_dict(pod, "overhead")})
    pod_level = _parse_resources(get_dict(pod, "resources"))
    if containers is None or init_containers is None or overhead is None or pod_level is None:
        return None
    by_containers = pod_requests(PodSpec(containers, init_containers, overhead.requests))
    # KEP-2837: requests of the pod as a whole replace the sum of its containers
    by_pod = pod_requests(PodSpec((Container(resources=pod_level),)))
    return Resources({**by_containers, **by_pod})


def _parse_containers(pod: Json, name: str) -> tuple[Container, ...] | None:
    containers = list[Container]()
    for container in get_dicts(pod, name):
        resources = _parse_resources(get_dict(container, "resources"))
        if resources is None:
            return None
        restart_policy = str(container.get("restartPolicy", ""))
        containers.append(Container(resources=resources, restartPolicy=restart_policy))
    return tuple(containers)


def _parse_resources(resources: Json) -> ContainerResources | None:
    """Limits and requests; None when one is not a quantity."""
    parsed: dict[str, dict[str, str | int]] = {}
    for field_name in ("limits", "requests"):
        parsed[field_name] = {
            str(resource): _as_text(value)
            for resource, value in get_dict(resources, field_name).items()
        }
        for resource, text in parsed[field_name].items():
            try:
                amount(resource, text)
            except ValueError:
                return None
    return ContainerResources(parsed["requests"], parsed["limits"])


def _as_text(value: object) -> str:
    """The quantity as text; the empty text, which is not a quantity, for any other value."""
    text = str(value) if isinstance(value, str | int | float) else ""
    return text if len(text) <= MAX_QUANTITY_LENGTH else ""


# --- what nodes have ------------------------------------------------------------------------------
def _is_known(node: Resources) -> bool:
    """All amounts of a type are 0 until the admin declares them or a node of the type appears."""
    return any(value > 0 for value in node.values())


def _select_compared(requests: Resources, team: Team) -> Resources:
    """The requested accelerators, and the resources that some type declares."""
    declared = {resource for node in team.nodes.values() for resource in node}
    return Resources(
        {
            resource: value
            for resource, value in requests.items()
            if value > 0 and (resource in declared or is_accelerator(resource, team))
        }
    )


def _get_available(node: Resources, resource: str, team: Team) -> int | None:
    """The amount on the node; None when it is not known.

    Every node has CPU and memory, so for them 0 means that nobody has declared an amount.
    """
    if node[resource] or is_accelerator(resource, team):
        return node[resource]
    return None


def _fits(requests: Resources, node: Resources, team: Team) -> bool:
    for resource, requested in requests.items():
        available = _get_available(node, resource, team)
        if available is not None and requested > available:
            return False
    return True


# --- the complaint --------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Excess:
    """A resource of which one pod requests more than any node has."""

    resource: str
    requested: int
    # on the node that has most of it
    available: int
    instance_type: str

    def describe(self, value: int) -> str:
        """`value` in a unit for people; exact when rounding would hide the difference."""
        requested = describe_amount(self.resource, self.requested)
        if requested == describe_amount(self.resource, self.available):
            return f"{quantity(self.resource, value)} {self.resource}"
        return describe_amount(self.resource, value)

    def describe_available(self) -> str:
        if not self.available:
            return f"no {self.resource}"
        return f"{self.describe(self.available)} ({self.instance_type})"


def _find_excess(requests: Resources, team: Team) -> list[_Excess]:
    """Accelerators first."""
    excess = list[_Excess]()
    for resource in sorted(requests, key=lambda name: ("/" not in name, name)):
        most = 0
        most_type = ""
        fits_somewhere = False
        for instance_type, node in team.nodes.items():
            available = _get_available(node, resource, team)
            if available is None or requests[resource] <= available:
                fits_somewhere = True
            elif available > most:
                most = available
                most_type = instance_type
        if not fits_somewhere:
            excess.append(_Excess(resource, requests[resource], most, most_type))
    return excess


def _explain(requests: Resources, team: Team) -> str:
    """What is too much, the most that a node has, and the cure."""
    excess = _find_excess(requests, team)
    if not excess:
        shown = list(team.nodes.items())[:MAX_TYPES_SHOWN]
        nodes = "; ".join(f"{name} has {describe_amounts(node)}" for name, node in shown)
        return (
            f"{describe_amounts(requests)} in one pod, but no node has all of that at once "
            f"({nodes}): {CURE}"
        )
    requested = " and ".join(item.describe(item.requested) for item in excess)
    if any(item.available for item in excess):
        available = " and ".join(item.describe_available() for item in excess)
        largest = "largest node has" if len(excess) == 1 else "largest nodes have"
        return f"{requested} in one pod, but the {largest} {available}: {CURE}"
    offered = sorted(
        {
            resource
            for node in team.nodes.values()
            for resource in node
            if is_accelerator(resource, team) and node[resource]
        }
    )
    cure = f"request {' or '.join(offered)} instead" if offered else CURE
    return f"{requested} in one pod, but no node has any: {cure}"
