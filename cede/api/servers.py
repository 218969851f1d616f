"""PURE. The kinds of servers, with only the fields that we read, as in the API."""

from dataclasses import dataclass, field

from cede.api.objects import Meta


@dataclass(frozen=True, slots=True)
class ServerSpec:
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Deployment:
    metadata: Meta = field(default_factory=Meta)
    spec: ServerSpec = field(default_factory=ServerSpec)


@dataclass(frozen=True, slots=True)
class LeaderWorkerSet:
    """Its replicas are groups of pods."""

    metadata: Meta = field(default_factory=Meta)
    spec: ServerSpec = field(default_factory=ServerSpec)
