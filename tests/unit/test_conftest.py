"""How tests are divided among the workers of pytest-xdist, also after a test has ended one."""

from types import SimpleNamespace

import pytest

from tests.conftest import OneWorkerForTheCluster

PROCESSES = [f"tests/processes/test_stop.py::test_{number}" for number in range(9)]
FILES = [f"tests/unit/test_{name}.py::test_{number}" for name in "abcd" for number in range(3)]
CLUSTER = [f"tests/e2e/test_{name}.py::test_{number}" for name in "ab" for number in range(3)]


class Worker:
    """Begins a test when it has the next one, or when it is told that none comes."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw")
        self.indexes: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.indexes += indexes

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def is_ready(self) -> bool:
        return len(self.indexes) >= (1 if self.shutting_down else 2)


class Session:
    """Two workers, as `pytest -n 2` has them. A worker that a test ends is replaced."""

    def __init__(self, tests: list[str]) -> None:
        option = SimpleNamespace(loadscopereorder=True)
        config = SimpleNamespace(getvalue=lambda _: ["2*popen"], option=option)
        self.scheduler = OneWorkerForTheCluster(config, None)
        self.tests = tests
        self.workers: list[Worker] = []
        self.add(2)

    def add(self, count: int) -> None:
        workers = [Worker() for _ in range(count)]
        self.workers += workers
        for worker in workers:
            self.scheduler.add_node(worker)
        for worker in workers:
            self.scheduler.add_node_collection(worker, self.tests)
        self.scheduler.schedule()

    def run(self, fatal: set[str]) -> list[str]:
        """The tests that began, in order, until no worker can go on. Those that are `fatal` end
        their worker."""
        begun = list[str]()
        while ready := [worker for worker in self.workers if worker.is_ready]:
            worker = min(ready, key=lambda worker: len(worker.indexes))
            index = worker.indexes.pop(0)
            begun.append(self.tests[index])
            if begun[-1] in fatal:
                self.workers.remove(worker)
                assert self.scheduler.remove_node(worker) == begun[-1]
                self.add(1)
            else:
                self.scheduler.mark_test_complete(worker, index)
            # xdist/dsession.py, loop_once
            if self.scheduler.tests_finished:
                for other in self.workers:
                    other.shutdown()
        return begun


@pytest.mark.parametrize(
    ("tests", "fatal"),
    [
        pytest.param(PROCESSES, set(), id="no test ends a worker"),
        pytest.param(PROCESSES, {PROCESSES[4]}, id="one of single tests"),
        pytest.param(PROCESSES, {PROCESSES[2], PROCESSES[3], PROCESSES[8]}, id="several of them"),
        pytest.param(FILES, {FILES[4], FILES[9]}, id="one in a file"),
        pytest.param(CLUSTER + FILES, {CLUSTER[1], CLUSTER[5]}, id="one of the cluster"),
        pytest.param(CLUSTER + FILES, {FILES[0], FILES[11]}, id="one beside the cluster"),
    ],
)
def test_every_test_begins_once_also_after_one_has_ended_its_worker(
    tests: list[str], fatal: set[str]
) -> None:
    assert sorted(Session(tests).run(fatal)) == sorted(tests)


def test_a_worker_that_still_collects_is_given_nothing() -> None:
    session = Session(PROCESSES)
    session.scheduler.add_node(collecting := Worker())
    assert session.scheduler.remove_node(session.workers[0]) == PROCESSES[0]
    assert collecting.indexes == []


def test_the_tests_of_the_cluster_are_one_workers() -> None:
    first, second = Session(CLUSTER + FILES).workers
    assert first.indexes == list(range(len(CLUSTER)))
    assert min(second.indexes) >= len(CLUSTER)
