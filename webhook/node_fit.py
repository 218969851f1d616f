"""A pod that no node could ever hold is refused at once: Kueue would let it wait for ever."""

from collections.abc import Iterator

from cede.api.kueue import Container, PodSpec
from cede.api.objects import Json
from cede.api.pods import pod_requests
from cede.api.resources import Resources, amount, describe_amount, describe_amounts
from webhook.admission import Team, entries, is_accelerator, kind_of, table
from webhook.kinds import TRAIN_JOB, templates

# characters of a quantity
LONGEST = 64
CURE = "ask for less in each pod, and for more pods"


def too_large(job: Json, team: Team) -> Iterator[str]:
    """A complaint for each pod template that asks for more than a whole node of any instance type
    has for jobs.

    Silent while one type's figures are not known. What is no accelerator and no type counts, like
    storage, is not judged.
    """
    if not team.nodes or any(not _counts(holds) for holds in team.nodes.values()):
        return
    for where, asks in requests(job):
        if any(_holds(holds, asks, team) for holds in team.nodes.values()):
            continue
        yield f"{where} asks for {_trouble(asks, team)}"


def requests(job: Json) -> Iterator[tuple[str, Resources]]:
    """(where, what one pod asks for) of each pod template that can be understood; what cannot, the
    API server refuses."""
    for where, pods in templates(job):
        if (asks := asked_in(table(pods, "spec"))) is not None:
            yield ".".join(filter(None, (where, "spec"))), asks
    if (
        kind_of(job) == TRAIN_JOB
        and (each := _asked(table(job, "spec", "trainer", "resourcesPerNode"))) is not None
    ):
        yield "spec.trainer.resourcesPerNode", pod_requests(PodSpec((Container(resources=each),)))


def asked_in(pod: Json) -> Resources | None:
    """What a pod of any shape asks of its node; None where a quantity is none."""
    lists: list[tuple[Container, ...]] = []
    for name in ("containers", "initContainers"):
        found = [(each, _asked(table(each, "resources"))) for each in entries(pod, name)]
        if any(said is None for _, said in found):
            return None
        lists.append(
            tuple(
                Container(resources=said or {}, restartPolicy=str(each.get("restartPolicy", "")))
                for each, said in found
            )
        )
    whole = _asked(table(pod, "resources"))
    overhead = _asked({"requests": table(pod, "overhead")})
    if whole is None or overhead is None:
        return None
    asks = pod_requests(PodSpec(lists[0], lists[1], overhead["requests"]))
    # KEP-2837: what the pod as a whole says comes before its containers
    pod_level = pod_requests(PodSpec((Container(resources=whole),)))
    return Resources(
        {name: pod_level.get(name, asks[name]) for name in asks.keys() | pod_level.keys()}
    )


def _asked(resources: Json) -> dict[str, dict[str, str | int]] | None:
    out: dict[str, dict[str, str | int]] = {}
    for name in ("limits", "requests"):
        out[name] = {
            str(resource): _text(value) for resource, value in table(resources, name).items()
        }
        try:
            for resource, value in out[name].items():
                amount(resource, value)
        except ValueError:
            return None
    return out


def _text(value: object) -> str:
    """The quantity; nothing, which is none, where it is of no sane length: to read it would take
    for ever."""
    text = str(value) if isinstance(value, str | int | float) else ""
    return text if len(text) <= LONGEST else ""


# --- what nodes have ------------------------------------------------------------------------------
def _counts(holds: Resources) -> bool:
    """Whether anything is known of the type: declared figures are 0 until somebody says them."""
    return any(value > 0 for value in holds.values())


def _judged(asks: Resources, team: Team) -> Resources:
    """Accelerators, and whatever else a type counts."""
    known = {name for holds in team.nodes.values() for name in holds}
    return Resources(
        {
            name: value
            for name, value in asks.items()
            if value > 0 and (name in known or is_accelerator(name, team))
        }
    )


def _has(holds: Resources, name: str, team: Team) -> int | None:
    """None: not known. A node without CPU or memory is none, so 0 there means that nobody has said
    it."""
    return holds[name] or (0 if is_accelerator(name, team) else None)


def _holds(holds: Resources, asks: Resources, team: Team) -> bool:
    has = {name: _has(holds, name, team) for name in asks}
    return all(
        most is None or asks[name] <= most
        for name, most in has.items()
        if name in _judged(asks, team)
    )


def _trouble(asks: Resources, team: Team) -> str:
    """What is too much, the most a node has, and the cure."""
    judged = _judged(asks, team)
    parts = []
    # accelerators first
    for name in sorted(judged, key=lambda name: ("/" not in name, name)):
        each = {kind: _has(holds, name, team) for kind, holds in team.nodes.items()}
        if any(most is None or judged[name] <= most for most in each.values()):
            continue
        kind, most = max(
            ((kind, most or 0) for kind, most in each.items()), key=lambda pair: pair[1]
        )
        had = (
            f"the largest node here has {_one(name, most)} ({kind})"
            if most
            else "no node here has any"
        )
        parts.append(f"{_one(name, judged[name])} in one pod, and {had}")
    if not parts:
        nodes = "; ".join(
            f"{kind} has {describe_amounts(holds)}" for kind, holds in list(team.nodes.items())[:4]
        )
        return (
            f"{describe_amounts(judged)} in one pod, and no node here has all of that at once "
            f"({nodes}): {CURE}"
        )
    offered = sorted(
        {
            name
            for holds in team.nodes.values()
            for name in holds
            if is_accelerator(name, team) and holds[name]
        }
    )
    absent = all(part.endswith("has any") for part in parts)
    cure = f"ask for {' or '.join(offered)}" if absent and offered else CURE
    return f"{', and '.join(parts)}: {cure}"


def _one(name: str, value: int) -> str:
    return describe_amount(name, value)
