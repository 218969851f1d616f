"""Times the answers of `cede whatif` on a cluster of a given size."""

import time
from collections.abc import Callable

from cede.api.allocation import ComputeAllocation
from cede.api.policy import ClusterPolicy
from scheduler.snapshot.snapshot import RawObjects
from tests.bench.scheduler import pictures
from tests.bench.scheduler.passes import decoded
from tests.bench.scheduler.pictures import GPUS_PER_NODE, NOW, TYPES, Scenario, Size
from tests.builders.pictures import CLASSES, manifest
from whatif.answer import Answer
from whatif.questions import Picture, ask_drain, ask_submit

QUESTIONS: dict[str, Callable[[Picture], Answer]] = {
    "submit": lambda picture: ask_submit(picture, manifest("asked", 4), "team-1"),
    "drain": lambda picture: ask_drain(picture, [picture.objects.nodes[0].metadata.name]),
}


def picture(size: Size, scenario: Scenario) -> Picture:
    """Every team owns what its queue has."""
    fields = decoded(size, scenario)
    fields["allocations"] = [_allocation(team, size) for team in range(size.teams)]
    statuses = pictures.statuses(size, scenario)
    return Picture(RawObjects(**fields, policies=[_policy()], statuses=statuses), NOW)


def _allocation(team: int, size: Size) -> ComputeAllocation:
    quota = {"instanceType": TYPES[team % 2], "accelerators": size.nominal}
    name = f"team-{team}"
    metadata = {"name": name, "uid": f"uid-{name}"}
    return ComputeAllocation.model_validate({"metadata": metadata, "spec": {"quotas": [quota]}})


def _policy() -> ClusterPolicy:
    types = [
        {
            "name": name,
            "nodeLabels": {"node.kubernetes.io/instance-type": name},
            "accelerators": GPUS_PER_NODE,
            "cpu": "192",
            "memory": "2Ti",
        }
        for name in TYPES
    ]
    classes = [{"name": name, "weight": weight} for name, weight in CLASSES.items()]
    spec = {"instanceTypes": types, "priorityClasses": classes, "defaultPriorityClass": "training"}
    return ClusterPolicy.model_validate(
        {"metadata": {"name": "default"}, "spec": spec, "status": {"preemption": "Cede"}}
    )


def measure(size: Size, scenario: Scenario, question: str) -> tuple[float, int]:
    """Seconds until the answer, and how many changes it tells."""
    asked = picture(size, scenario)
    start = time.perf_counter()
    answer = QUESTIONS[question](asked)
    seconds = time.perf_counter() - start
    assert not answer.incomplete, answer.incomplete
    return seconds, len(answer.changes) + len(answer.anyway)
