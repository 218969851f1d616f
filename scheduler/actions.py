"""What a plan may ask for; the controller performs it. Pure."""

from dataclasses import dataclass

from cede.api.cession import Cession, CessionStatus
from cede.api.objects import Key


@dataclass(frozen=True, slots=True)
class Open:
    """Write a new Cession."""

    cession: Cession


@dataclass(frozen=True, slots=True)
class Record:
    """Say in a Cession what happened."""

    name: str
    status: CessionStatus


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove a Cession that was kept long enough."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Queueing:
    """Give a ClusterQueue a queueing strategy."""

    queue: str
    strategy: str
    version: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Tell a job's runtime the size wanted. A level: it may be said again."""

    job: Key
    job_uid: str
    address: str
    size: int
    cession: str
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Resize:
    """Set a Job's parallelism and completions, if it is still the version planned on."""

    job: Key
    job_uid: str
    version: str
    size: int
    # note the time, for the snooze
    shrunk: bool
    why: str


@dataclass(frozen=True, slots=True)
class Activate:
    """Make a Workload active, or inactive: then Kueue stops it."""

    workload: Key
    active: bool
    why: str


@dataclass(frozen=True, slots=True)
class Tell:
    """An event on a Job."""

    job: Key
    job_uid: str
    reason: str
    note: str


Act = Open | Record | Forget | Queueing | Ask | Resize | Activate | Tell
