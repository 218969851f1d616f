"""PURE. Servers: Deployments and LeaderWorkerSets with allowed sizes. Each of their replicas has a
Workload of its own: a pod of a Deployment, or a group of pods of a LeaderWorkerSet.

A replica drains when its server is given one less, and just this one is deleted: its pods get
SIGTERM and their grace period, and none is made in their place. A Deployment loses the pod that we
mark, a LeaderWorkerSet its last group.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cede.api import durations, names, sizes
from cede.api.objects import DEPLOYMENTS, LEADER_WORKER_SETS, Key, Kind, unix_or_zero
from cede.api.servers import Deployment, LeaderWorkerSet
from scheduler.snapshot.workloads import AdmittedWorkload, ServerId

YOUNGER_S = 0.001
"""By how much a group of a LeaderWorkerSet counts as younger than the one before it, at least."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and its replicas that have quota and stay."""

    kind: Kind
    key: Key
    uid: str
    version: str
    replicas: int
    smallest_size: int
    # as many as its user wants; its replicas unless it has ceded some
    desired_size: int
    is_ceded: bool
    grace_s: float
    # Unix seconds of the last shrink; 0.0 if there was none
    shrunk_at: float
    # pods, the oldest first, or groups by their index
    pods: tuple[AdmittedWorkload, ...]

    @property
    def id(self) -> ServerId:
        return self.kind, self.key

    @property
    def may_drain(self) -> bool:
        """Whether the replica is deleted that we choose. Of a Deployment pods go first that are not
        ready, and those of another ReplicaSet; of a LeaderWorkerSet the groups with the highest
        indexes, also if others have no quota. Not while some have yet to be deleted."""
        if self.kind == LEADER_WORKER_SETS:
            is_known = [pod.group_index for pod in self.pods] == [*range(len(self.pods))]
        else:
            is_known = len({pod.replica_set for pod in self.pods}) == 1
        return is_known and self._are_ready and len(self.pods) <= self.replicas

    def would_lose(self, replicas: Collection[str]) -> bool:
        """Whether it loses just these, by their identities, if it has so many less."""
        last = {pod.identity for pod in self.pods[len(self.pods) - len(replicas) :]}
        return self.kind != LEADER_WORKER_SETS or last == {*replicas}

    @property
    def has_all_pods(self) -> bool:
        """Whether all replicas have quota and are ready."""
        return self._are_ready and len(self.pods) == self.replicas

    @property
    def _are_ready(self) -> bool:
        return all(pod.ready_pods >= pod.size for pod in self.pods)


def read_servers(
    deployments: Iterable[Deployment],
    leader_worker_sets: Iterable[LeaderWorkerSet],
    admitted: Sequence[AdmittedWorkload],
) -> tuple[Server, ...]:
    """By name. One whose sizes cannot be read is none: the webhook refuses such."""
    made = [_read(DEPLOYMENTS, deployment) for deployment in deployments]
    made += [_read(LEADER_WORKER_SETS, item) for item in leader_worker_sets]
    read = [server for server in made if server]
    if not read:
        return ()
    pods = defaultdict[ServerId, list[AdmittedWorkload]](list)
    for job in admitted:
        if job.server and job.active and not job.is_evicting and not job.is_ending:
            pods[job.server].append(job)
    servers = (replace(server, pods=_in_order(server.kind, pods[server.id])) for server in read)
    return tuple(sorted(servers, key=lambda server: (server.key, server.kind.plural)))


def _read(kind: Kind, item: Deployment | LeaderWorkerSet) -> Server | None:
    metadata = item.metadata
    notes = metadata.annotations
    try:
        allowed = sizes.parse(notes.get(names.SIZES, ""))
    except ValueError:
        return None
    replicas = item.spec.replicas
    is_ceded = metadata.labels.get(names.SERVER) == names.CEDED
    noted = sizes.parse_one(notes.get(names.DESIRED_SIZE, "")) if is_ceded else None
    if metadata.deletionTimestamp:
        return None
    return Server(
        kind=kind,
        key=metadata.key,
        uid=metadata.uid,
        version=metadata.resourceVersion,
        replicas=replicas,
        smallest_size=allowed[0],
        desired_size=replicas if noted is None else min(noted, sizes.MAX_SIZE),
        is_ceded=is_ceded,
        grace_s=durations.parse_or_zero(notes.get(names.GRACE, "")),
        shrunk_at=unix_or_zero(notes.get(names.SHRUNK_AT, "")),
        pods=(),
    )


def _in_order(kind: Kind, pods: Iterable[AdmittedWorkload]) -> tuple[AdmittedWorkload, ...]:
    """A group counts as younger than those before it, so that it gives before them."""
    if kind != LEADER_WORKER_SETS:
        return tuple(sorted(pods, key=lambda pod: (pod.started, pod.key)))
    groups = list[AdmittedWorkload]()
    for group in sorted(pods, key=lambda pod: (pod.group_index, pod.key)):
        least = groups[-1].started + YOUNGER_S if groups else group.started
        groups.append(replace(group, started=max(group.started, least)))
    return tuple(groups)


def with_drains(
    admitted: Sequence[AdmittedWorkload], servers: Iterable[Server]
) -> tuple[AdmittedWorkload, ...]:
    """The replicas beyond the smallest size of each server drain: the youngest, or the last."""
    draining = dict(_draining(servers))
    if not draining:
        return tuple(admitted)
    return tuple(draining.get(job.uid, job) for job in admitted)


def _draining(servers: Iterable[Server]) -> Iterator[tuple[str, AdmittedWorkload]]:
    for server in servers:
        for pod in server.pods[server.smallest_size :] if server.may_drain else ():
            yield (
                pod.uid,
                replace(
                    pod,
                    drains=True,
                    allowed_sizes=(0, pod.size),
                    desired_size=pod.size,
                    parallelism=pod.size,
                    grace_s=server.grace_s,
                ),
            )


def by_id(servers: Iterable[Server]) -> Mapping[ServerId, Server]:
    return {server.id: server for server in servers}
