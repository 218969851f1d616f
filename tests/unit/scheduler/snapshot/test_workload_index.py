"""The Workloads are sorted by what they are, whatever they were before."""

from dataclasses import replace

from cede.api.kueue import Workload
from cede.api.objects import Meta
from scheduler.snapshot.workload_index import WorkloadIndex
from tests.builders.kueue_objects import workload

QUEUE = ("research", "default")


def kinds(index: WorkloadIndex) -> tuple[list[str], list[str], list[str]]:
    """The names of those with quota, those that wait, and the uids of those that have finished."""
    with_quota = [workload.metadata.name for workload, _ in index.admitted("research")]
    waiting = [workload.metadata.name for workload, _ in index.line(QUEUE)]
    return sorted(with_quota), sorted(waiting), sorted(index.finished.values())


def test_a_workload_waits_has_quota_or_has_finished() -> None:
    workloads = [workload("a", 1), workload("b", 1, assigned=1), workload("c", 1, finished=True)]
    index = WorkloadIndex()
    index.update(workloads)
    assert kinds(index) == (["b"], ["a"], ["uid-c"])


def test_what_changes_moves() -> None:
    index = WorkloadIndex()
    for waits in (workload("a", 1), workload("a", 1, assigned=1), workload("a", 1, finished=True)):
        index.update([waits])
    assert kinds(index) == ([], [], ["uid-a"])
    index.update([workload("a", 1)])
    assert kinds(index) == ([], ["a"], [])


def test_what_is_gone_is_forgotten() -> None:
    index = WorkloadIndex()
    index.update([workload("a", 1), workload("b", 1, assigned=1)])
    index.update(list[Workload]())
    assert kinds(index) == ([], [], [])
    assert not index.namespaces
    assert not index.waiting


def test_a_new_version_leaves_one_of_it() -> None:
    index = WorkloadIndex()
    stays = workload("b", 1)
    index.update([workload("a", 1), stays])
    index.update([workload("a", 2), stays])
    assert kinds(index) == ([], ["a", "b"], [])
    counts = {w.metadata.name: w.spec.podSets[0].count for w, _ in index.line(QUEUE)}
    assert counts == {"a": 2, "b": 1}


def test_what_is_asked_for_is_the_same_until_something_in_the_namespace_changes() -> None:
    index = WorkloadIndex()
    workloads = [workload("a", 1), workload("b", 1, assigned=1)]
    elsewhere = replace(workload("c", 1), metadata=Meta(name="c", namespace="vision"))
    index.update(workloads)
    before = index.line(QUEUE), index.admitted("research")
    index.update([*workloads, elsewhere])
    assert index.line(QUEUE) is before[0]
    assert index.admitted("research") is before[1]
    index.update([workload("a", 2), workloads[1], elsewhere])
    assert index.line(QUEUE) is not before[0]


def test_a_slice_comes_with_what_it_replaces_until_it_has_quota() -> None:
    index = WorkloadIndex()
    old = workload("old", 1, assigned=1)
    index.update([old, workload("slice", 2, replaces="old")])
    [(waiting, replaced)] = index.line(QUEUE)
    assert (waiting.metadata.name, replaced) == ("slice", old)
    index.update([old, workload("slice", 2, replaces="old", assigned=2)])
    assert kinds(index) == (["slice"], [], [])
