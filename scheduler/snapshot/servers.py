"""PURE. Servers: Deployments with allowed sizes. Each of their pods has a Workload of its own.

A pod drains when its server is given one replica less, and Kubernetes deletes just this pod: it
gets SIGTERM and its grace period, and no pod is made in its place.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cede.api import durations, names, sizes
from cede.api.kueue import Deployment
from cede.api.objects import Key, unix_or_zero
from scheduler.snapshot.workloads import AdmittedWorkload


@dataclass(frozen=True, slots=True)
class Server:
    """A Deployment, and its pods that have quota and stay."""

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
    # the oldest first
    pods: tuple[AdmittedWorkload, ...]

    @property
    def may_drain(self) -> bool:
        """Whether Kubernetes would delete the pod that we choose: it deletes pods first that are
        not ready, and those of another ReplicaSet. Not while it has yet to delete some."""
        is_one_set = len({pod.replica_set for pod in self.pods}) == 1
        return is_one_set and self._are_ready and len(self.pods) <= self.replicas

    @property
    def has_all_pods(self) -> bool:
        """Whether all replicas have quota and are ready."""
        return self._are_ready and len(self.pods) == self.replicas

    @property
    def _are_ready(self) -> bool:
        return all(pod.ready_pods for pod in self.pods)


def read_servers(
    deployments: Iterable[Deployment], admitted: Sequence[AdmittedWorkload]
) -> tuple[Server, ...]:
    """By name. One whose sizes cannot be read is none: the webhook refuses such."""
    read = [server for server in map(_read, deployments) if server]
    if not read:
        return ()
    pods = defaultdict[Key, list[AdmittedWorkload]](list)
    for job in admitted:
        if job.deployment and job.active and not job.is_evicting and not job.is_ending:
            pods[job.key[0], job.deployment].append(job)
    servers = (replace(server, pods=_oldest_first(pods[server.key])) for server in read)
    return tuple(sorted(servers, key=lambda server: server.key))


def _read(deployment: Deployment) -> Server | None:
    metadata = deployment.metadata
    notes = metadata.annotations
    try:
        allowed = sizes.parse(notes.get(names.SIZES, ""))
    except ValueError:
        return None
    replicas = deployment.spec.replicas
    is_ceded = metadata.labels.get(names.SERVER) == names.CEDED
    noted = sizes.parse_one(notes.get(names.DESIRED_SIZE, "")) if is_ceded else None
    if metadata.deletionTimestamp:
        return None
    return Server(
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


def _oldest_first(pods: Iterable[AdmittedWorkload]) -> tuple[AdmittedWorkload, ...]:
    return tuple(sorted(pods, key=lambda pod: (pod.started, pod.key)))


def with_drains(
    admitted: Sequence[AdmittedWorkload], servers: Iterable[Server]
) -> tuple[AdmittedWorkload, ...]:
    """The pods beyond the smallest size of each server drain: the youngest."""
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
                    allowed_sizes=(0, 1),
                    desired_size=1,
                    parallelism=1,
                    grace_s=server.grace_s,
                ),
            )


def by_key(servers: Iterable[Server]) -> Mapping[Key, Server]:
    return {server.key: server for server in servers}
