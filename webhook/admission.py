"""PURE. One admission request as a value."""

from dataclasses import dataclass, field

from cede.api.names import SCHEDULER, SYSTEM_NAMESPACE
from cede.api.objects import Json
from webhook.team import Team

SCHEDULER_USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{SCHEDULER}"
"""The only user whose change of `parallelism` is a resize. Everybody else changes the desired
size."""


@dataclass(frozen=True)
class AdmissionRequest:
    """An object that `user` wants to store. `old` is None when the object is created."""

    object: Json
    old: Json | None = None
    user: str = ""
    team: Team = field(default_factory=Team)
