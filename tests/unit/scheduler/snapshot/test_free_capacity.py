"""What is free on the nodes."""

import msgspec

from cede.api.kueue import Node, Pod
from scheduler.snapshot.free_capacity import read_nodes
from scheduler.snapshot.memory import Kept
from scheduler.snapshot.pod_index import PodIndex
from tests.builders.scheduler import GPU


def node(name: str, ready: str = "True", *, unschedulable: bool = False) -> Node:
    status = {"allocatable": {GPU: "4"}, "conditions": [{"type": "Ready", "status": ready}]}
    spec = {"unschedulable": unschedulable}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": status}, Node)


def pod(phase: str) -> Pod:
    """On node n1."""
    container = {"name": "main", "resources": {"requests": {GPU: 3}}}
    spec = {"nodeName": "n1", "containers": [container]}
    body = {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}
    return msgspec.convert(body, Pod)


def free(nodes: list[Node], pod: Pod) -> list[int]:
    pods = PodIndex()
    pods.update([pod])
    return [room.free[GPU] for room in read_nodes(nodes, pods, Kept())]


def test_only_ready_and_schedulable_nodes_have_free_capacity() -> None:
    nodes = [node("n1"), node("n2", "False"), node("n3", unschedulable=True)]
    assert free(nodes, pod("Running")) == [1]


def test_a_pod_that_has_ended_requests_nothing() -> None:
    assert free([node("n1")], pod("Succeeded")) == [4]
