"""PURE. Nodes that are drained: they take no pods any more, and their pods move."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cede.api.kueue import Pod, Workload
from cede.api.pod_owner import Owner, job_owners, pod_owner
from cede.api.workload_identity import controller, identity
from scheduler.snapshot.read_workloads import has_quota
from whatif.placing import move_pods
from whatif.submission import BadQuestion
from whatif.world import World

MAX_NAMED_NODES = 10


@dataclass(frozen=True)
class Moved:
    """A Workload whose pods were on a drained node."""

    workload: Workload
    pods: int
    # how many of all its pods find no node
    unplaced: int


def check_nodes(world: World, nodes: Collection[str]) -> None:
    """Raises BadQuestion for a node that is not there."""
    known = sorted(node.metadata.name for node in world.rest.nodes)
    for name in nodes:
        if name not in known:
            listed = ", ".join(known[:MAX_NAMED_NODES])
            more = f" and {len(known) - MAX_NAMED_NODES} more" if known[MAX_NAMED_NODES:] else ""
            raise BadQuestion(f"there is no node {name}: name one of {listed or 'none'}{more}")


def drain(world: World, nodes: Collection[str]) -> Sequence[Moved]:
    """The nodes are cordoned, and the pods of Workloads are made again elsewhere. Pods of
    DaemonSets stay; pods that Kueue does not queue are left where they are."""
    world.rest = replace(
        world.rest,
        nodes=tuple(
            replace(node, spec=replace(node.spec, unschedulable=True))
            if node.metadata.name in nodes
            else node
            for node in world.rest.nodes
        ),
    )
    moving = defaultdict[Owner, list[Pod]](list)
    for pod in world.pods.values():
        owner = controller(pod)
        if pod.spec.nodeName in nodes and not (owner and owner.kind == "DaemonSet"):
            moving[pod_owner(pod)].append(pod)
    return list(_moves(world, moving))


def _moves(world: World, moving: Mapping[Owner, Sequence[Pod]]) -> Iterator[Moved]:
    for key in sorted(world.workloads):
        workload = world.workloads[key]
        owners = job_owners(key, identity(workload)) if has_quota(workload) else ()
        pods = [pod for owner in owners for pod in moving.get(owner, ())]
        if pods:
            yield Moved(workload, len(pods), move_pods(world, workload, pods))
