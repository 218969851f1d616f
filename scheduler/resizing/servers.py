"""PURE. Servers that have ceded replicas get them back.

A new replica is a pending pod, and Kueue admits it like any other. So replicas come back into idle
quota, and into what the team owns: there a pending pod claims.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence

from cede.api.policy import PolicySpec
from scheduler.quota.cohort import CohortQuota
from scheduler.resizing.growth import (
    Place,
    keys_of,
    places,
    pods_in_quota,
    uses_none_of,
    wanted_by_pending,
)
from scheduler.server_actions import ScaleServer, scale
from scheduler.snapshot.node_room import Placement
from scheduler.snapshot.servers import Server
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload


def grow_servers(
    snapshot: Snapshot,
    policy: PolicySpec,
    now: float,
    *,
    promised: Collection[str] = (),
    growing: Collection[str] = (),
    busy_queues: Collection[str] = (),
) -> Iterator[ScaleServer]:
    """One server in each flavor: what the next one finds is known in the next pass.

    `promised` are flavors of open Cessions, `busy_queues` the queues of their preemptors, `growing`
    the uids of jobs that grow in this pass.
    """
    jobs = [job for job in snapshot.elastic if job.is_growing or job.job_uid in growing]
    taken: set[Place] = {place for job in jobs for place in places(snapshot.quota, job)}
    placement = Placement(snapshot.nodes, policy.instanceTypes)
    wanted = None
    for server in snapshot.servers:
        if _has_no_claim(server):
            yield _as_wanted(server)
            continue
        if not _may_grow(server, snapshot, policy, now):
            continue
        pod = server.pods[0]
        own = places(snapshot.quota, pod)
        if taken & own or not uses_none_of(pod, promised):
            continue
        wanted = wanted_by_pending(snapshot) if wanted is None else wanted
        replicas = _largest(snapshot, placement, server, claims=pod.queue not in busy_queues)
        if replicas > server.replicas and not wanted & keys_of(snapshot.quota, pod):
            taken |= own
            why = f"it gets back {replicas - server.replicas} of the replicas that it ceded"
            yield scale(server, replicas, why)


def give_back(servers: Sequence[Server]) -> Iterator[ScaleServer]:
    """All of them, at once: nothing is taken any more."""
    for server in servers:
        if server.is_ceded:
            yield scale(server, max(server.replicas, server.desired_size), "nothing is taken")


def _has_no_claim(server: Server) -> bool:
    """Whether it has all that it ceded, or was scaled below its sizes by its user."""
    is_whole = server.desired_size <= server.replicas
    return server.is_ceded and (is_whole or server.replicas < server.smallest_size)


def _as_wanted(server: Server) -> ScaleServer:
    """The replicas that it has are those that its user wants."""
    return ScaleServer(
        server=server.id,
        uid=server.uid,
        version=server.version,
        replicas=server.replicas,
        desired_size=server.replicas,
        shrinks=False,
        why="it has ceded nothing any more",
    )


def _may_grow(server: Server, snapshot: Snapshot, policy: PolicySpec, now: float) -> bool:
    if not server.is_ceded or not server.pods or not server.has_all_pods:
        return False
    is_managed = snapshot.quota.queues[server.pods[0].queue].managed
    cooldown_s = policy.preemption.growCooldownSeconds
    return is_managed and now - server.shrunk_at >= cooldown_s


def _largest(snapshot: Snapshot, placement: Placement, server: Server, *, claims: bool) -> int:
    """As many replicas as idle quota and nodes have room for; if that is none, as the team owns."""
    pod = server.pods[0]
    missing = server.desired_size - server.replicas
    more = pods_in_quota(snapshot.quota, pod.queue, pod.quota_for(pod.size))
    if more:
        more = min(more, placement.count_pods(pod.per_pod) // pod.size)
    elif claims:
        more = _owned(snapshot.quota, pod, missing)
    return server.replicas + min(missing, more)


def _owned(quota: CohortQuota, pod: AdmittedWorkload, missing: int) -> int:
    """How many more such replicas are within the team's own quota."""

    def exceeds(count: int) -> bool:
        return not quota.owns_with(pod.queue, pod.quota_for(pod.size * count))

    return bisect_left(range(1, missing + 1), True, key=exceeds)
