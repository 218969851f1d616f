"""PURE. What a plan may ask for of servers: that a pod drains, and that replicas change."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cede.api import names
from cede.api.objects import DEPLOYMENTS, Json, Key, rfc3339
from scheduler.snapshot.servers import Server, by_id
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import ServerId

DELETED_FIRST = "-1"
"""Of POD_DELETION_COST: other pods have 0."""


@dataclass(frozen=True, slots=True)
class DrainPod:
    """Mark a pod as the one that its server loses with the next replica. `scaled_down` then takes
    the replica away. A group of a LeaderWorkerSet needs no mark: the last one goes."""

    job: Key
    job_uid: str
    server: ServerId
    why: str

    @property
    def needs_mark(self) -> bool:
        kind, _ = self.server
        return kind == DEPLOYMENTS

    @property
    def log_fields(self) -> dict[str, object]:
        return {"pod": "/".join(self.job), "why": self.why}

    @property
    def patch(self) -> Json:
        cost = {names.POD_DELETION_COST: DELETED_FIRST}
        return {"metadata": {"uid": self.job_uid, "annotations": cost}}


@dataclass(frozen=True, slots=True)
class ScaleServer:
    """Set the replicas of a server, if it still has the version planned on. With fewer than
    `desired_size` it has ceded, and is held to them."""

    server: ServerId
    uid: str
    version: str
    replicas: int
    desired_size: int
    # note the time of the shrink, from which the cooldown of growth counts
    shrinks: bool
    why: str

    @property
    def log_fields(self) -> dict[str, object]:
        _, key = self.server
        return {"server": "/".join(key), "replicas": self.replicas, "why": self.why}

    def patch(self, now: float) -> Json:
        """The number and the notes in one write: nobody scales up meanwhile."""
        is_whole = self.replicas >= self.desired_size
        notes: dict[str, str | None] = {
            names.DESIRED_SIZE: None if is_whole else str(self.desired_size)
        }
        if self.shrinks or is_whole:
            notes[names.SHRUNK_AT] = None if is_whole else rfc3339(now)
        metadata: Json = {
            "resourceVersion": self.version,
            "labels": {names.SERVER: names.WHOLE if is_whole else names.CEDED},
            "annotations": notes,
        }
        return {"metadata": metadata, "spec": {"replicas": self.replicas}}


def scale(server: Server, replicas: int, why: str, *, shrinks: bool = False) -> ScaleServer:
    return ScaleServer(
        server=server.id,
        uid=server.uid,
        version=server.version,
        replicas=replicas,
        desired_size=server.desired_size,
        shrinks=shrinks,
        why=why,
    )


def scaled_down(actions: Iterable[object], snapshot: Snapshot) -> Iterator[ScaleServer]:
    """Each server loses one replica for each of its pods that drain, and those that still wait for
    quota: the waiting ones would be deleted first. One that would lose other groups than those that
    drain keeps its replicas."""
    servers: Mapping[ServerId, Server] = by_id(snapshot.servers)
    # by the uid of the pod: one may drain for two reasons
    drains = defaultdict[ServerId, dict[str, DrainPod]](dict)
    for action in actions:
        if isinstance(action, DrainPod):
            drains[action.server].setdefault(action.job_uid, action)
    for server_id, pods in drains.items():
        server = servers[server_id]
        if server.would_lose(pods):
            why = next(iter(pods.values())).why
            yield scale(server, len(server.pods) - len(pods), why, shrinks=True)
