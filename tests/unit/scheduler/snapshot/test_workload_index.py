"""The Workloads are sorted by what they are, whatever they were before."""

from cede.api.kueue import Workload
from scheduler.snapshot.workload_index import WorkloadIndex
from tests.builders.kueue_objects import workload

QUEUE = ("research", "default")


def kinds(index: WorkloadIndex) -> tuple[list[str], list[str], list[str]]:
    """The names of those with quota, those that wait, and the uids of those that have finished."""
    waiting = index.waiting.get(QUEUE, {})
    with_quota = sorted(name for _, name in index.with_quota)
    return with_quota, sorted(name for _, name in waiting), sorted(index.finished.values())


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
    assert QUEUE not in index.waiting


def test_a_new_version_leaves_one_of_it() -> None:
    index = WorkloadIndex()
    stays = workload("b", 1)
    index.update([workload("a", 1), stays])
    index.update([workload("a", 2), stays])
    assert kinds(index) == ([], ["a", "b"], [])
    newest, _ = index.waiting[QUEUE]["research", "a"]
    assert newest.spec.podSets[0].count == 2
