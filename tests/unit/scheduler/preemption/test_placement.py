"""Nobody gives for pods that would find no room: what is released lies on the right nodes."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from cede.api.resources import Resources
from scheduler.preemption.preemption_plan import PreemptionPlan
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.snapshot.free_capacity import NodeRoom
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from tests.builders.plans import preemption_plans
from tests.builders.scheduler import (
    GPU,
    KEY,
    NOW,
    admitted,
    cohort_quota,
    gpus,
    pending,
    queue,
    snapshot,
)

WORLDS = 300
MANY_WORLDS = 10_000


def whole_node(pods: int = 1) -> PendingWorkload:
    """Its pods need eight accelerators on one node."""
    return pending(pod_sets=(PodSetRequest("main", pods, Resources({GPU: 8})),))


def spread(name: str, *nodes: str, age_s: float = 1000) -> AdmittedWorkload:
    """A job that is not elastic, with one pod of one accelerator on each of the nodes named."""
    job = admitted(name, size=len(nodes), allowed_sizes=(), reserved_since=NOW - age_s)
    places = dict(enumerate(nodes))
    requested = {node: Resources({GPU: pods}) for node, pods in Counter(nodes).items()}
    return replace(job, requested_per_node=requested, node_of_index=places)


def full_nodes(*jobs: AdmittedWorkload, workload: PendingWorkload) -> Snapshot:
    """Five nodes without any room. The team of the jobs borrows eight."""
    nodes = tuple(NodeRoom(name, {}, Resources({GPU: 0})) for name in "abcde")
    used = sum(job.size for job in jobs)
    quota = cohort_quota(queue("vision", 8), queue("research", used - 8, used=used))
    return replace(snapshot(quota, admitted=jobs, pending=[workload]), nodes=nodes)


def test_where_nobody_knows_the_places_of_pods_no_claim_is_refused_for_them() -> None:
    """Such as pods that have no node yet."""
    job = replace(spread("set", *"a" * 8), requested_per_node={}, node_of_index={})
    (plan,) = preemption_plans(full_nodes(job, workload=whole_node()))
    assert [target.job.name for target in plan.targets] == ["set"]


def test_the_job_whose_pods_share_a_node_gives() -> None:
    """Not the youngest: no pod of eight would find room where it has its pods."""
    jobs = (spread("young", *"aabbccdd", age_s=100), spread("packed", *"eeeeeeee"))
    (plan,) = preemption_plans(full_nodes(*jobs, workload=whole_node()))
    assert [target.job.name for target in plan.targets] == ["packed"]


def test_an_elastic_job_shrinks_if_its_highest_indexes_share_a_node() -> None:
    job = replace(spread("gpt", *"abcdeeeeeeee"), allowed_sizes=(4, 12))
    (plan,) = preemption_plans(full_nodes(job, workload=whole_node()))
    assert [target.size for target in plan.targets] == [4]


def test_an_elastic_job_is_stopped_if_the_node_holds_its_lowest_indexes() -> None:
    """A shrink would empty the wrong nodes."""
    job = replace(spread("gpt", *"eeeeeeeeabcd"), allowed_sizes=(4, 12))
    (plan,) = preemption_plans(full_nodes(job, workload=whole_node()))
    assert [target.size for target in plan.targets] == [0]


def test_without_a_node_for_its_pods_nobody_gives() -> None:
    (plan,) = preemption_plans(full_nodes(spread("wide", *"aabbccdd"), workload=whole_node()))
    assert plan.targets == ()
    assert "no node" in plan.why


@pytest.mark.parametrize(("place", "stops"), [("a", []), ("b", ["jobset"])])
def test_a_job_whose_pods_differ_leaves_what_they_request_on_each_node(
    place: str, stops: list[str]
) -> None:
    """Its driver needs no accelerator and sits on `a`, its worker of eight on the other node. The
    mean of both, four, would be room for a pod of four on `a`."""
    job = replace(
        admitted("jobset", size=2, allowed_sizes=(), reserved_since=NOW - 1000),
        per_pod=gpus(4),
        usage=gpus(8),
        requested_per_node={"a": Resources({"cpu": 1}), "b": Resources({GPU: 8})},
    )
    workload = pending(pod_sets=(PodSetRequest("main", 1, Resources({GPU: 4})),))
    nodes = tuple(NodeRoom(name, {"type": name}, Resources({GPU: 0})) for name in "ab")
    quota = cohort_quota(queue("vision", 8), queue("research", 0, used=8))
    current = snapshot(quota, admitted=[job], pending=[workload])
    current = replace(current, nodes=tuple(node for node in nodes if node.name == place))
    (plan,) = preemption_plans(current)
    assert [target.job.name for target in plan.targets] == stops


# --- random clusters ------------------------------------------------------------------------------
def fragmented(random: Random) -> Snapshot:
    """Nodes of eight accelerators; jobs of pods of 1, 2 or 4 wherever there was room, most of them
    elastic; and a pending job of one to three pods of 1 to 8."""
    free = [8] * random.randint(1, 6)
    jobs = list[AdmittedWorkload]()
    for number in range(random.randint(1, 8)):
        size = random.choice([1, 2, 4])
        places = list[str]()
        for _ in range(random.randint(1, 8)):
            node = random.randrange(len(free))
            if free[node] >= size:
                free[node] -= size
                places.append(str(node))
        if places:
            jobs.append(_job(str(number), places, size, elastic=random.random() < 0.6))
    used = sum(job.usage[KEY] for job in jobs)
    nominal = random.randint(0, used)
    total = 8 * len(free)
    queues = (queue("vision", total - nominal), queue("research", nominal, used=used))
    pods = PodSetRequest(
        "main", random.randint(1, 3), Resources({GPU: random.choice([1, 2, 4, 8])})
    )
    nodes = tuple(NodeRoom(str(i), {}, Resources({GPU: room})) for i, room in enumerate(free))
    made = snapshot(cohort_quota(*queues), admitted=jobs, pending=[pending(pod_sets=(pods,))])
    return replace(made, nodes=nodes)


def _job(name: str, places: list[str], per_pod: int, *, elastic: bool) -> AdmittedWorkload:
    allowed = tuple(range(1, len(places) + 1)) if elastic else ()
    return replace(
        admitted(name, size=len(places), allowed_sizes=allowed),
        usage=gpus(per_pod * len(places)),
        per_pod=gpus(per_pod),
        requested_per_node={
            node: Resources({GPU: per_pod * pods}) for node, pods in Counter(places).items()
        },
        node_of_index=dict(enumerate(places)),
    )


def room_after(current: Snapshot, plan: PreemptionPlan) -> list[int]:
    """What is free on each node once the targets have given, counted pod by pod."""
    free = {node.name: node.free[GPU] for node in current.nodes}
    for target in plan.targets:
        for index, node in target.job.node_of_index.items():
            if index >= target.size:
                free[node] += target.job.per_pod[KEY]
    return list(free.values())


def check_fragmented(seed: int) -> bool:
    """Whether somebody gave."""
    current = fragmented(Random(seed))  # noqa: S311
    gave = False
    for plan in preemption_plans(current):
        (pods,) = plan.preemptor.workload.pod_sets
        if plan.targets:
            gave = True
            room = room_after(current, plan)
            assert sum(free // pods.per_pod[GPU] for free in room) >= pods.count, seed
    return gave


def test_in_fragmented_clusters_the_pods_of_every_preemptor_find_room() -> None:
    gave = sum(check_fragmented(seed) for seed in range(WORLDS))
    assert gave > WORLDS / 10


@pytest.mark.slow
def test_in_many_fragmented_clusters_the_pods_of_every_preemptor_find_room() -> None:
    for seed in range(MANY_WORLDS):
        check_fragmented(seed)
