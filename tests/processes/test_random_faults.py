"""Resize after resize, with a rank killed now and then: nothing is lost, and nothing piles up in a
process that lives through all of it.

The suite's form is short. The long one, of sizes 1 to 8:  CEDE_RESIZES=500 pytest
tests/processes/test_random_faults.py -s
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

pytestmark = pytest.mark.processes
RESIZES = int(os.environ.get("CEDE_RESIZES", "10"))
LARGEST = 8 if RESIZES > 50 else 3
SEED = 5
MEGABYTE = 1 << 20

# a loss near 0 could not be compared
SAVING = SCRIPT.replace("journal=", "save_every=7, journal=").replace("lr=1e-4", "lr=1e-5")


@dataclass(frozen=True)
class Held:
    """What a process holds."""

    # kind → how many
    descriptors: dict[str, int]
    threads: int
    processes: int
    # MB, resident
    memory: float

    @classmethod
    def of(cls, pid: int) -> "Held":
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
    def least(cls, seen: Sequence["Held"]) -> "Held":
        """What it holds when least is under way: connections come and go, and groups that were
        dropped close on threads."""
        return cls(
            min((one.descriptors for one in seen), key=lambda by_kind: sum(by_kind.values())),
            min(one.threads for one in seen),
            min(one.processes for one in seen),
            min(one.memory for one in seen),
        )

    @property
    def opened(self) -> int:
        return sum(self.descriptors.values())


def descriptors(pid: int) -> dict[str, int]:
    found = Counter[str]()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        # closed meanwhile
        with suppress(FileNotFoundError):
            found[re.sub(r"\d+", "", os.readlink(path))] += 1
    return dict(found)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, SAVING)
    job.arguments = (str(job.steps), "0.005")
    yield job
    job.kill()


def test_many_resizes_and_kills_lose_nothing_and_leave_nothing(
    job: Job, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(SEED)  # noqa: S311  the same resizes every time
    job.start(*range(LARGEST))
    job.trains(LARGEST, beyond=1)

    def held() -> list[Held]:
        """By those that live through all of it, at the largest size: the parents of all pods, and
        rank 0."""
        job.resize(LARGEST)
        seen: list[list[Held]] = []
        for _ in range(10):
            job.trains(LARGEST, beyond=1)
            seen.append(
                [
                    Held.of(pid)
                    for pid in [
                        *(pod.pid for pod in job.pods.values()),
                        children(job.pods[0].pid)[0],
                    ]
                ]
            )
        return [Held.least(of) for of in zip(*seen, strict=True)]

    began = time.monotonic()
    kills = 0
    first = list[Held]()
    for count in range(RESIZES):
        if count == min(50, RESIZES // 2):
            first = held()
        size = chance.randint(1, LARGEST)
        before = job.resize(size)
        # at any moment of the resize, or after it
        if size > 1 and chance.random() < 0.2:
            kills += 1
            if chance.random() < 0.5:
                job.trains(size, beyond=0)
            if (index := chance.randrange(1, size)) in job.pods and children(job.pods[index].pid):
                job.kill_rank(index)
        assert job.trains(size, beyond=1).step > before.step
    last = held()
    print(
        f"{RESIZES} resizes, {kills} kills in {time.monotonic() - began:.0f} s; pod 0's parent "
        f"{first[0]} then {last[0]}; "
        f"its rank {first[-1]} then {last[-1]}"
    )
    for a, b in zip(first, last, strict=True):
        assert (b.processes, b.threads <= a.threads + 1, b.opened <= a.opened + 4) == (
            a.processes,
            True,
            True,
        ), (a, b)
        assert b.memory < a.memory + 16, (a, b)
    job.stop()
    assert [path.name for path in (job.directory / "save").glob(".*")] == []
    saved = restore.newest_intact(job.directory / "save")
    committed = check_exactly_once(
        job, partial(undisturbed_losses, tmp_path_factory.mktemp("undisturbed"), SAVING, [])
    )
    assert saved
    assert saved.step == committed
