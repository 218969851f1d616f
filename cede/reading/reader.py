"""Reads the objects that a report needs, as far as the user may."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from cede.api import job_progress, kueue, names, objects
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.job_progress import Progress, ProgressConfigMap
from cede.api.objects import Key, Kind
from cede.api.policy import ClusterPolicy
from cede.causes.queue import KUEUE, KUEUE_NAMESPACE
from cede.causes.snapshot import COMPONENT_BY_LEASE, Deployment, Snapshot
from cede.kube.errors import Forbidden, NotFound, Unreadable
from cede.kube.failures import failure_sentence

if TYPE_CHECKING:
    from cede.kube.client import Client

T = TypeVar("T")


class Reader:
    """Reads one kind after the other, and notes what cannot be read. A strict one raises Forbidden
    at the first kind that the user may not list."""

    def __init__(self, client: "Client", *, strict: bool = False) -> None:
        self.client = client
        self._strict = strict
        self.unreadable = list[Unreadable]()
        # the plurals of the kinds that the user may not list
        self.forbidden = set[str]()
        # those of which some objects were not read, for any reason
        self.incomplete = set[str]()
        # a sentence for each namespace of which not all jobs are noted
        self.left_out = list[str]()

    async def all(
        self, kind: Kind, cls: type[T], *, namespace: str = "", labels: str = "", fields: str = ""
    ) -> list[T]:
        """None of them if the user may not list them."""
        count = len(self.unreadable)
        try:
            items, _ = await self.client.list(
                kind,
                cls,
                namespace=namespace,
                labels=labels,
                fields=fields,
                unreadable=self.unreadable,
            )
        except Forbidden:
            if self._strict:
                raise
            self.forbidden.add(kind.plural)
            self.incomplete.add(kind.plural)
            return []
        if len(self.unreadable) > count:
            self.incomplete.add(kind.plural)
        return items

    def finished(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what could not be read."""
        return replace(
            snapshot,
            unreadable=[failure_sentence(error) for error in self.unreadable],
            incomplete=frozenset(self.incomplete),
        )

    def warnings(self) -> list[str]:
        """A sentence for each object that cannot be read, for each note that is too small, and one
        for all missing rights."""
        sentences = [failure_sentence(error) for error in self.unreadable] + self.left_out
        if self.forbidden:
            listed = ", ".join(sorted(self.forbidden))
            sentences.append(f"you may not list {listed}, so this answer knows less than it could")
        return sentences


async def read_snapshot(client: "Client") -> Snapshot:
    """What `cede status` needs. Raises Forbidden if the user may not read one of the kinds."""
    reader = Reader(client, strict=True)
    return reader.finished(await read_shared(reader))


async def read_shared(reader: Reader) -> Snapshot:
    """What all teams share, and who leads."""
    policies = await reader.all(objects.POLICIES, ClusterPolicy)
    return Snapshot(
        policy=policies[0] if policies else None,
        allocations=await reader.all(objects.ALLOCATIONS, ComputeAllocation),
        cessions=await reader.all(objects.CESSIONS, Cession),
        queues=await reader.all(objects.CLUSTER_QUEUES, kueue.ClusterQueue),
        leases=await read_leases(reader.client),
    )


async def read_around(reader: Reader, namespace: str) -> Snapshot:
    """What explains the jobs of a namespace, or of all if it is empty; without the Workloads."""
    shared = await read_shared(reader)
    classes = await reader.all(objects.PRIORITY_CLASSES, kueue.MetadataOnly)
    return replace(
        shared,
        cohorts=await reader.all(objects.COHORTS, kueue.Cohort),
        local_queues=await reader.all(objects.LOCAL_QUEUES, kueue.LocalQueue, namespace=namespace),
        deployments=await _kueue_deployment(reader.client),
        priority_classes=frozenset(item.metadata.name for item in classes) or None,
        progress=await _read_progress(reader, namespace),
    )


async def _read_progress(reader: Reader, namespace: str) -> dict[str, Progress]:
    """By namespace. Members may write what nobody can read."""
    kind = objects.CONFIG_MAPS
    config_maps = await reader.all(
        kind, ProgressConfigMap, namespace=namespace, fields=job_progress.FIELDS
    )
    result = dict[str, Progress]()
    for config_map in config_maps:
        key = config_map.metadata.key
        if progress := job_progress.read(config_map):
            result[key[0]] = progress
            if sentence := progress.left_out_sentence(key[0]):
                reader.left_out.append(sentence)
        else:
            reader.unreadable.append(unreadable_progress(key))
            reader.incomplete.add(kind.plural)
    return result


def unreadable_progress(key: Key) -> Unreadable:
    place = "/".join(key)
    return Unreadable(f"ConfigMap {place}: {job_progress.KEY} is not what the scheduler notes", key)


async def _kueue_deployment(client: "Client") -> dict[str, Deployment]:
    """Members may not read it. One that is not there may have another name."""
    try:
        deployment = await client.get(objects.DEPLOYMENTS, Deployment, (KUEUE_NAMESPACE, KUEUE))
    except (Forbidden, NotFound):
        return {}
    return {KUEUE: deployment}


async def read_leases(client: "Client") -> dict[str, kueue.Lease | None]:
    """The leases by name; without those that the user may not read, None for a missing one."""
    leases: dict[str, kueue.Lease | None] = {}
    for name in COMPONENT_BY_LEASE:
        key = (names.SYSTEM_NAMESPACE, name)
        try:
            leases[name] = await client.get(objects.LEASES, kueue.Lease, key)
        except NotFound:
            leases[name] = None
        except Forbidden:
            continue
    return leases
