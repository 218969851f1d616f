"""Whether pods find room on nodes: a pod of eight accelerators needs them on one node."""

from dataclasses import replace

import pytest

from cede.api.instance_type import InstanceType
from cede.api.resources import Resources
from scheduler.preemption.preemptors import ClaimKind, Preemptor
from scheduler.preemption.seats import Seats, jobs_on_useful_nodes, leaving, make_seats
from scheduler.quota.pod_sets import PodSetRequest
from scheduler.snapshot.free_capacity import NodeRoom
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import FLAVOR, GPU, admitted, gpus, pending


def pods(count: int, per_pod: int) -> PodSetRequest:
    return PodSetRequest(f"of-{per_pod}", count, Resources({GPU: per_pod}))


def node(name: str, free: int, **labels: str) -> NodeRoom:
    return NodeRoom(name, labels, Resources({GPU: free}))


def preemptor(*pod_sets: PodSetRequest, kind: ClaimKind = ClaimKind.OWN_QUOTA) -> Preemptor:
    total = sum(pods.count * pods.per_pod[GPU] for pods in pod_sets)
    return Preemptor(pending(pod_sets=pod_sets), gpus(total), gpus(total), kind=kind)


def seats(free: list[int], *pod_sets: PodSetRequest) -> Seats:
    made = make_seats(preemptor(*pod_sets), [node(str(i), n) for i, n in enumerate(free)], ())
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("free", "pod_sets", "expected"),
    [
        pytest.param([4, 4], [pods(1, 8)], False, id="eight on two nodes seat no pod of eight"),
        pytest.param([8, 0], [pods(1, 8)], True, id="eight on one node do"),
        pytest.param([3, 5], [pods(4, 2)], False, id="odd rests seat nobody"),
        pytest.param([8, 2], [pods(1, 8), pods(2, 1)], True, id="the largest first"),
        pytest.param([8, 1], [pods(2, 1), pods(1, 8)], False, id="whatever their order"),
        pytest.param([-4, 8], [pods(2, 4)], True, id="a node that is overfull is full"),
    ],
)
def test_seats(free: list[int], pod_sets: list[PodSetRequest], expected: bool) -> None:
    assert seats(free, *pod_sets).are_enough is expected


def test_a_pod_that_leaves_makes_room_and_takes_it_back() -> None:
    one_pod = seats([6], pods(1, 8))
    one_pod.release("0", {GPU: 2})
    assert one_pod.are_enough
    one_pod.release("0", {GPU: 1}, -1)
    assert not one_pod.are_enough
    one_pod.release("elsewhere", {GPU: 9})
    assert not one_pod.are_enough


def test_only_nodes_of_the_flavor_count() -> None:
    nodes = [node("a", 8, pool="a100"), node("h", 8, pool="h100")]
    types = [InstanceType(name=FLAVOR, nodeLabels={"pool": "a100"}, accelerator=GPU)]
    made = make_seats(preemptor(pods(2, 8)), nodes, types)
    assert made is not None
    assert not made.are_enough


def test_without_nodes_or_pods_nothing_is_known() -> None:
    assert make_seats(preemptor(pods(1, 1)), [], ()) is None
    assert make_seats(preemptor(), [node("a", 1)], ()) is None


def test_a_job_that_grows_needs_room_for_its_new_pods_only() -> None:
    grows = replace(preemptor(pods(4, 2), kind=ClaimKind.GROWTH), request=gpus(2))
    made = make_seats(grows, [node("a", 2)], ())
    assert made is not None
    assert made.are_enough


# --- what jobs leave free -------------------------------------------------------------------------
ON_NODES = replace(
    admitted(size=3),
    requested_per_node={"a": {GPU: 2}, "b": {GPU: 1}},
    node_of_index={0: "a", 1: "b", 2: "a"},
)


@pytest.mark.parametrize(
    ("size", "expected"), [(3, {}), (2, {"a": 1}), (1, {"a": 1, "b": 1}), (0, {"a": 2, "b": 1})]
)
def test_the_highest_indexes_leave_first(size: int, expected: dict[str, int]) -> None:
    assert leaving(ON_NODES, size) == {node: {GPU: pods} for node, pods in expected.items()}


def on(name: str, *nodes: str) -> AdmittedWorkload:
    requested = {node: {GPU: 1} for node in nodes}
    return replace(admitted(name, size=len(nodes)), requested_per_node=requested)


def test_jobs_that_hold_the_nodes_that_are_needed() -> None:
    """Where `c` leaves, a pod of two finds room. Where `a` leaves, none does."""
    jobs = [on("a", "n0", "n1"), on("c", "n2")]
    nodes = [node("n0", 0), node("n1", 0), node("n2", 1)]
    made = make_seats(preemptor(pods(1, 2)), nodes, ())
    assert made is not None
    assert [job.name for job in jobs_on_useful_nodes(made, jobs)] == ["c"]


def test_the_largest_pods_are_counted_whatever_their_order() -> None:
    assert seats([8, 4], pods(2, 1), pods(2, 8)).lacking == 1


def test_a_copy_changes_alone() -> None:
    original = seats([6], pods(1, 8))
    twin = original.copy()
    twin.release("0", {GPU: 2})
    assert twin.are_enough
    assert not original.are_enough
