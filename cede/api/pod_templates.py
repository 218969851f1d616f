"""PURE. Pods and their templates, with only the fields that we read, as in the API."""

from dataclasses import dataclass, field

from cede.api.node_selection import Affinity, Toleration
from cede.api.objects import Meta


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """`claims`, of dynamic resource allocation, is left out: it names devices and no amounts."""

    requests: dict[str, str | int] = field(default_factory=dict)
    limits: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Container:
    name: str = ""
    resources: ContainerResources = field(default_factory=ContainerResources)
    # Always: this init container is a sidecar
    restartPolicy: str = ""


@dataclass(frozen=True, slots=True)
class PodSpec:
    containers: tuple[Container, ...] = ()
    initContainers: tuple[Container, ...] = ()
    overhead: dict[str, str | int] = field(default_factory=dict)
    nodeName: str = ""


@dataclass(frozen=True, slots=True)
class TemplateSpec(PodSpec):
    """The spec of pods that do not exist yet, with what decides on which nodes they may run."""

    nodeSelector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTemplate:
    metadata: Meta = field(default_factory=Meta)
    spec: TemplateSpec = field(default_factory=TemplateSpec)
