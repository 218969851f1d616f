"""Many resizes, with a rank killed now and then: nothing is lost, and no process leaks.

The long form, of sizes 1 to 8: CEDE_RESIZES=500 pytest tests/processes/test_random_faults.py -s
"""

import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from elastic_runtime.checkpointing import restore
from tests.harness.local_job import SCRIPT, Job, check_exactly_once, children, undisturbed_losses
from tests.marks import LONG

pytestmark = [pytest.mark.processes, LONG]
RESIZES = int(os.environ.get("CEDE_RESIZES", "10"))
LARGEST = 8 if RESIZES > 50 else 3
SEED = 5
MEGABYTE = 1 << 20

# A loss near 0 could not be compared.
SAVING = SCRIPT.replace("journal=", "save_every=7, journal=").replace("lr=1e-4", "lr=1e-5")


@dataclass(frozen=True)
class Usage:
    """What a process uses."""

    # Kind → how many.
    descriptors: dict[str, int]
    threads: int
    processes: int
    # Resident.
    memory_mb: float

    @classmethod
    def measure(cls, pid: int) -> "Usage":
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        return cls(
            descriptors(pid),
            int(status["Threads"]),
            len(children(pid)),
            int(status["VmRSS"].split()[0]) * 1024 / MEGABYTE,
        )

    @classmethod
    def minimum(cls, usages: Sequence["Usage"]) -> "Usage":
        """Connections come and go, and dropped groups close on threads: the least is compared."""
        return cls(
            min((usage.descriptors for usage in usages), key=lambda kinds: sum(kinds.values())),
            min(usage.threads for usage in usages),
            min(usage.processes for usage in usages),
            min(usage.memory_mb for usage in usages),
        )

    @property
    def opened(self) -> int:
        return sum(self.descriptors.values())


def descriptors(pid: int) -> dict[str, int]:
    counts = Counter[str]()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        # It may be closed meanwhile.
        with suppress(FileNotFoundError):
            counts[re.sub(r"\d+", "", os.readlink(path))] += 1
    return dict(counts)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SAVING)
    job.arguments = (str(job.steps), "0.005")
    yield job
    job.kill()


def measure_usage(job: Job) -> list[Usage]:
    """Of the processes that live through the whole test, the agents of all pods and rank 0, when
    the job has its largest size."""
    job.resize(LARGEST)
    samples: list[list[Usage]] = []
    for _ in range(10):
        job.trains(LARGEST, beyond=1)
        pids = [*(pod.pid for pod in job.pods.values()), children(job.pods[0].pid)[0]]
        samples.append([Usage.measure(pid) for pid in pids])
    return [Usage.minimum(usages) for usages in zip(*samples, strict=True)]


def check_no_leak(before: Sequence[Usage], after: Sequence[Usage]) -> None:
    for old, new in zip(before, after, strict=True):
        assert new.processes == old.processes, (old, new)
        assert new.threads <= old.threads + 1, (old, new)
        assert new.opened <= old.opened + 4, (old, new)
        assert new.memory_mb < old.memory_mb + 16, (old, new)


def resize_randomly(job: Job, chance: random.Random) -> bool:
    """To a random size; sometimes a rank is killed in the middle or afterwards: then True."""
    size = chance.randint(1, LARGEST)
    before = job.resize(size)
    is_kill = size > 1 and chance.random() < 0.2
    if is_kill:
        if chance.random() < 0.5:
            job.trains(size, beyond=0)
        index = chance.randrange(1, size)
        if index in job.pods and children(job.pods[index].pid):
            job.kill_rank(index)
    assert job.trains(size, beyond=1).step > before.step
    return is_kill


def test_many_resizes_and_kills_lose_nothing_and_leak_nothing(
    job: Job, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # The same resizes every time.
    chance = random.Random(SEED)  # noqa: S311
    job.start(*range(LARGEST))
    job.trains(LARGEST, beyond=1)
    began = time.monotonic()
    kills = 0
    first = list[Usage]()
    for count in range(RESIZES):
        if count == min(50, RESIZES // 2):
            first = measure_usage(job)
        kills += resize_randomly(job, chance)
    last = measure_usage(job)
    print(
        f"{RESIZES} resizes, {kills} kills in {time.monotonic() - began:.0f} s; agent of pod 0: "
        f"{first[0]} then {last[0]}; its rank: {first[-1]} then {last[-1]}"
    )
    check_no_leak(first, last)
    job.stop()
    assert [path.name for path in (job.directory / "save").glob(".*")] == []
    newest = restore.newest_intact(job.directory / "save")
    committed = check_exactly_once(
        job, partial(undisturbed_losses, tmp_path_factory.mktemp("undisturbed"), SAVING, [])
    )
    assert newest
    assert newest.step == committed
