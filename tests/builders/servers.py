"""The server `chat` of research: a Deployment of 2 to 4 replicas with one accelerator each, or a
LeaderWorkerSet of groups with two."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from cede.api import names
from cede.api.cession import Cession
from cede.api.objects import Json
from cede.api.servers import Deployment, LeaderWorkerSet
from scheduler.snapshot.servers import read_servers, with_drains
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from tests.builders.scheduler import NOW, admitted, snapshot

CHAT = ("research", "chat")


def pod(
    index: int,
    *,
    deployment: str = "chat",
    replica_set: str = "chat-1",
    ready: bool = True,
    is_ending: bool = False,
    active: bool = True,
) -> AdmittedWorkload:
    """The one with the highest index is the youngest."""
    name = f"{deployment}-{index}"
    made = admitted(
        name,
        size=1,
        allowed_sizes=(),
        started=NOW - 1000 + index,
        ready_pods=int(ready),
        addresses=(),
        active=active,
    )
    return replace(
        made, deployment=deployment, replica_set=replica_set, is_ending=is_ending, parallelism=0
    )


def pods(count: int) -> list[AdmittedWorkload]:
    return [pod(index) for index in range(count)]


def group(index: int, *, ready: int = 2, active: bool = True) -> AdmittedWorkload:
    """Two pods of the LeaderWorkerSet. All of its groups were admitted at the same time."""
    made = admitted(
        f"chat-{index}",
        size=2,
        allowed_sizes=(),
        started=NOW - 1000,
        ready_pods=ready,
        addresses=(),
        active=active,
    )
    return replace(made, leader_worker_set="chat", group_index=index, parallelism=0)


def groups(count: int) -> list[AdmittedWorkload]:
    return [group(index) for index in range(count)]


def leader_worker_set(
    replicas: int = 4, sizes: str = "2-4", *, desired: int | None = None
) -> LeaderWorkerSet:
    chat = deployment(replicas, sizes, desired=desired)
    return LeaderWorkerSet(chat.metadata, chat.spec)


def deployment(
    replicas: int = 4, sizes: str = "2-4", *, desired: int | None = None, shrunk_at: str = ""
) -> Deployment:
    """With a desired number it has ceded."""
    notes = {names.SIZES: sizes, names.GRACE: "20s"}
    labels = {names.SERVER: names.WHOLE}
    if desired is not None:
        labels = {names.SERVER: names.CEDED}
        notes |= {names.DESIRED_SIZE: str(desired)}
        notes |= {names.SHRUNK_AT: shrunk_at} if shrunk_at else {}
    namespace, name = CHAT
    metadata: Json = {
        "name": name,
        "namespace": namespace,
        "uid": "uid-chat",
        "resourceVersion": "5",
        "labels": labels,
        "annotations": notes,
    }
    return msgspec.convert({"metadata": metadata, "spec": {"replicas": replicas}}, Deployment)


def serving(
    chat: Deployment | LeaderWorkerSet,
    running: Sequence[AdmittedWorkload],
    *,
    others: Sequence[AdmittedWorkload] = (),
    pending: Sequence[PendingWorkload] = (),
    cessions: Sequence[Cession] = (),
) -> Snapshot:
    """As the scheduler sees them."""
    jobs = (*running, *others)
    deployments = [chat] if isinstance(chat, Deployment) else []
    sets = [chat] if isinstance(chat, LeaderWorkerSet) else []
    servers = read_servers(deployments, sets, jobs)
    current = snapshot(admitted=with_drains(jobs, servers), pending=pending, cessions=cessions)
    return replace(current, servers=servers)
