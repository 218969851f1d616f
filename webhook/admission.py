"""One admission as a value: who asks for what, for which team; and how to read and fill an object
of any shape."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cede.api.names import GPU, SCHEDULER, SYSTEM_NAMESPACE
from cede.api.objects import Json
from cede.api.resources import Resources

SCHEDULER_USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{SCHEDULER}"
"""The only one whose change of parallelism is a resize and not a desired size."""


@dataclass(frozen=True)
class Team:
    """What a namespace's team may use, as the admin has said it; empty where the admin has said
    nothing."""

    name: str = ""
    # priority class → weight
    classes: Mapping[str, int] = field(default_factory=dict)
    default_class: str = ""
    # the highest class allowed
    ceiling: str = ""
    # names of its LocalQueues
    queues: frozenset[str] = frozenset()
    # resource names, of whole ones and of their partitions
    accelerators: frozenset[str] = frozenset({GPU})
    # instance type → what jobs can have of its largest node
    nodes: Mapping[str, Resources] = field(default_factory=dict)
    grace_s: int = 60
    max_grace_s: int = 600

    @property
    def allowed(self) -> list[str]:
        """The classes its jobs may name, the most important first. Under a ceiling that is no class
        (any more), the least only."""
        weights = self.classes.values()
        top = (
            self.classes.get(self.ceiling, min(weights, default=0))
            if self.ceiling
            else max(weights, default=0)
        )
        return sorted(
            (name for name in self.classes if self.classes[name] <= top),
            key=lambda n: (-self.classes[n], n),
        )


@dataclass(frozen=True)
class Asked:
    """One admission: who asks, for which team, for what. `old` is None when the object is new."""

    object: Json
    old: Json | None = None
    user: str = ""
    team: Team = field(default_factory=Team)


def table(value: object, *path: str) -> Json:
    """The mapping at `path`; an empty one where there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def entries(value: Json, name: str) -> list[Json]:
    """The mappings in the list called `name`; none where there is no list."""
    found = value.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def annotation(job: Json | None, name: str) -> str:
    return str(table(job, "metadata", "annotations").get(name, ""))


def label(job: Json | None, name: str) -> str:
    return str(table(job, "metadata", "labels").get(name, ""))


def kind_of(job: Json) -> tuple[str, str]:
    """(group, kind)."""
    return str(job.get("apiVersion", "")).rpartition("/")[0], str(job.get("kind", ""))


def inside(value: Json, *path: str) -> Json:
    """The mapping at `path` of `value`, made where there is none."""
    for step in path:
        found = value.get(step)
        if not isinstance(found, dict):
            found = value[step] = {}
        value = found
    return value


def is_accelerator(resource: str, team: Team) -> bool:
    """Whether it is one by the policy, whole or a partition, or by NVIDIA's own names."""
    return (
        resource in team.accelerators or resource == GPU or resource.startswith("nvidia.com/mig-")
    )
