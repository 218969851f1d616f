"""Faults that meet other faults, or a resize: whatever is lost, and when, it costs the step in
flight at most."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.contract import State
from tests.harness import local_job
from tests.harness.local_job import Job, check_exactly_once, undisturbed_losses

pytestmark = pytest.mark.processes

LOSES = """
import time
from pathlib import Path
from elastic_runtime.distributed.group import Group

def loses(name, call):
    def wrapped(*args, **more):
        lost("lose-" + name)
        return call(*args, **more)
    return wrapped

def late(self, *words):
    while self.rank == 2 and Path("late").exists():
        Path("forming").touch()
        time.sleep(0.01)  # until the test takes the file away
    return form(self, *words)

Group.send, Group.receive = loses("donor", Group.send), loses("joiner", Group.receive)
form, Group.form = Group.form, late
"""
SCRIPT = local_job.LOST + LOSES + local_job.SCRIPT


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT)
    yield job
    job.kill()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[float]]:
    return partial(undisturbed_losses, tmp_path_factory.mktemp("undisturbed"), SCRIPT, [])


def test_two_lost_at_once_and_a_whole_pod(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2, 3)
    first = job.trains(4)
    job.kill_rank(1)
    job.kill_rank(2)
    second = job.goes_on(first, 4)
    job.kill_pod(3)
    third = job.goes_on(second, 3)
    # the one that coordinates, and a rank of another
    job.kill_pod(0)
    job.kill_rank(1)
    job.start(0)
    # from memory: there was nothing that it could have gone back to
    assert job.goes_on(third, 3).durableStep == 0
    job.stop()
    check_exactly_once(job, undisturbed)


@pytest.mark.parametrize("who", ["donor", "joiner"])
def test_who_is_lost_while_a_joiner_gets_the_state(
    job: Job, undisturbed: Callable[[int], list[float]], who: str
) -> None:
    job.start(0, 1)
    first = job.trains(2)
    asked = job.directory / f"lose-{who}"
    asked.touch()
    job.start(2)
    job.goes_on(first, 3)
    # it was lost, and just then
    assert not asked.exists()
    assert sum(path.read_text().count("rank died") for path in job.directory.glob("pod-*.txt")) == 1
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_size_asked_while_another_is_on_its_way(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    job.trains(2)
    job.resize(3)
    job.start(2)
    job.until(lambda s: s.busy.startswith("training; getting ready"))
    # a shrink while one is about to join
    job.resize(1)
    assert job.until(lambda s: s.ceded(1) and s.size == 1).wanted == 1
    # the parked come back, and the one that waited comes
    job.resize(3)
    # and the reverse, at once
    job.resize(2)
    job.trains(2)
    job.resize(1)
    job.until(lambda s: 1 in s.parked)
    # cancelled after parking
    job.resize(3)
    assert job.trains(3).parked == ()
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_shrink_that_is_asked_while_a_larger_group_forms(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    """All go through the larger one, so that nobody meets others in different places."""
    job.start(0, 1)
    first = job.trains(2)
    (job.directory / "late").touch()
    job.start(2)
    job.until(lambda _: (job.directory / "forming").exists())
    assert job.resize(1).wanted == 1
    (job.directory / "late").unlink()
    assert job.until(lambda s: s.ceded(1) and s.size == 1).generation == first.generation + 2
    job.trains(1)
    job.stop()
    check_exactly_once(job, undisturbed)


def test_pods_of_two_ranks_shrink_grow_and_lose_one(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.env[contract.RANKS_ENV] = "2"
    job.start(0, 1)
    job.trains(2)
    job.resize(1)
    assert job.until(lambda s: s.ceded(1)).parked == (1,)
    job.trains(1)
    job.resize(2)
    before = job.trains(2)
    # its pod's other rank goes with it
    job.kill_rank(1)
    job.goes_on(before, 2)
    assert job.stop() == [contract.EXIT_LEFT_ON_REQUEST, contract.EXIT_LEFT_ON_REQUEST]
    check_exactly_once(job, undisturbed)


def test_figures_of_a_job_add_up_to_its_life(job: Job) -> None:
    began = time.monotonic()
    job.start(0, 1)
    before = job.trains(2)
    job.kill_rank(1)
    job.goes_on(before, 2)
    job.resize(1)
    job.until(lambda s: s.ceded(1) and s.state == State.TRAINING)
    job.trains(1)
    found = job.figures()
    lived = time.monotonic() - began
    assert (
        found["recoveries_total"] >= 1,
        found["resizes_total"] >= 1,
        found["steps_total"] > 6,
    ) == (True, True, True)
    assert found["samples_total"] == found["steps_total"] * 30
    parts = {
        cause: found[f'seconds_total{{cause="{cause}"}}']
        for cause in ("train", "resize", "recover", "save", "wait")
    }
    assert min(parts[cause] for cause in ("train", "resize", "recover", "wait")) > 0
    assert sum(parts.values()) <= lived
    assert found["pod_deaths_total"] == 0
