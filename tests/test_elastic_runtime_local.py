"""Real processes, real torch, on this machine: whatever happens to a job, its steps, samples and losses are those of an undisturbed run."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elastic_runtime import contract, control
from elastic_runtime.contract import SizeRequest, State, Status

pytestmark = pytest.mark.processes

SCRIPT = """
import sys, time, torch
from elastic_runtime.session import Session
torch.set_num_threads(1)
torch.manual_seed(0)
data, noise = torch.randn(97, 64), torch.randn(97, 8)  # (samples, width)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
session = Session(model, optimizer, samples=97, micro_batches=10, micro_batch_size=3, checkpoint="save", journal="log")
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))  # a step that takes its time
        step.backward((model(data[batch.indices]) - noise[batch.indices]).square().mean())
"""
MICRO_BATCHES, KEY = 10, b"0" * 64
FOREVER = 1_000_000


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Job:
    """Pods as processes of this machine; each can be killed and started again."""

    def __init__(self, directory: Path, steps: int = FOREVER, smallest: int = 1) -> None:
        self.directory, self.steps, self.port = directory, steps, free_port()
        (directory / "train.py").write_text(SCRIPT)
        (directory / "key").write_bytes(KEY)
        self.pods: dict[int, subprocess.Popen[bytes]] = {}
        self.env = os.environ | {
            contract.JOB_ENV: "test", contract.JOB_UID_ENV: "uid", contract.KEY_FILE_ENV: str(directory / "key"),
            contract.PORT_ENV: str(self.port), contract.SIZES_ENV: f"{smallest},8", contract.GRACE_ENV: "20", "CEDE_LOCAL": "127.0.0.1",
            "PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1",
        }  # fmt: skip

    def start(self, *indexes: int) -> None:
        for index in indexes:
            with open(self.directory / f"pod-{index}.txt", "ab") as out:
                self.pods[index] = subprocess.Popen(
                    [sys.executable, "-m", "elastic_runtime", "train.py", str(self.steps), "0.02"],
                    cwd=self.directory, env=self.env | {contract.INDEX_ENV: str(index)}, stdout=out, stderr=out,
                )  # fmt: skip

    def kill_rank(self, index: int) -> None:
        os.kill(children(self.pods[index].pid)[0], signal.SIGKILL)

    def kill_pod(self, index: int) -> None:
        for pid in [self.pods[index].pid, *children(self.pods[index].pid)]:
            os.kill(pid, signal.SIGKILL)
        self.pods[index].wait()

    def call(self, method: str, path: str, body: bytes = b"", key: bytes = KEY) -> Status:
        return contract.decode_status(asyncio.run(control.call("127.0.0.1", self.port, key, "uid", method, path, body)))

    def resize(self, size: int) -> Status:
        return self.call("PUT", contract.SIZE_PATH, contract.encode(SizeRequest(size, cession="c1")))

    def until(self, true: Callable[[Status], bool], seconds: float = 40) -> Status:
        """The first status that `true` holds for."""
        end, status = time.monotonic() + seconds, Status()
        while time.monotonic() < end:
            try:
                status = self.call("GET", contract.STATUS_PATH)
                if true(status):
                    return status
            except OSError:
                pass  # pod 0 is not up
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s; last: {status}\n{self.said()}")

    def trains(self, size: int, beyond: int = 3) -> Status:
        """Until it trains at `size`, and `beyond` steps more."""
        first = self.until(lambda s: s.state == State.TRAINING and s.size == size)
        return self.until(lambda s: s.state == State.TRAINING and s.size == size and s.step >= first.step + beyond)

    def stop(self) -> list[int]:
        """SIGTERM to all; their exit codes."""
        for pod in self.pods.values():
            pod.terminate()
        return [pod.wait(20) for pod in self.pods.values()]

    def said(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.directory.glob("pod-*.txt")))

    def lines(self, files: str) -> Iterator[dict[str, Any]]:
        for path in self.directory.glob(f"log/{files}.jsonl"):
            yield from (json.loads(line) for line in path.read_text().splitlines() if line.endswith("}"))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path)
    yield job
    for pod in job.pods.values():
        if pod.poll() is None:
            for pid in [pod.pid, *children(pod.pid)]:
                os.kill(pid, signal.SIGKILL)
            pod.wait()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[float]]:
    """The losses of the first steps of the same script, run plainly."""
    return partial(_losses, tmp_path_factory.mktemp("undisturbed"), [])


def _losses(directory: Path, known: list[float], steps: int) -> list[float]:
    if steps > len(known):
        job = Job(directory, steps := max(steps, 600))
        subprocess.run([sys.executable, "train.py", str(steps), "0"], cwd=directory, env=job.env, check=True)
        found = {line["step"]: line["loss"] for line in job.lines("steps-*")}
        known[:] = [found[step] for step in range(1, max(found) + 1)]
    return known


def check_exactly_once(job: Job, undisturbed: Callable[[int], list[float]]) -> int:
    """Every step committed in one generation, by whom each micro-batch was used once, with the undisturbed run's loss; how many."""
    committed: dict[int, set[int]] = {}
    losses: dict[int, float] = {}
    for line in job.lines("steps-*"):
        committed.setdefault(line["step"], set()).add(line["generation"])
        losses[line["step"]] = line["loss"]
    last = max(committed)
    assert sorted(committed) == list(range(1, last + 1))
    assert {step: of for step, of in committed.items() if len(of) > 1} == {}
    used = Counter(
        (line["step"], line["micro_batch"]) for line in job.lines("samples-*") if line["generation"] in committed.get(line["step"], ())
    )
    assert used == {(step, number): 1 for step in range(1, last + 1) for number in range(MICRO_BATCHES)}
    for step, expected in enumerate(undisturbed(last)[:last], 1):
        assert losses[step] == pytest.approx(expected, rel=1e-6), f"step {step}"
    return last


def test_a_job_that_shrinks_and_grows_trains_as_if_it_had_not(job: Job, undisturbed: Callable[[int], list[float]]) -> None:
    job.start(0, 1, 2, 3)
    job.trains(4)
    ranks = [children(job.pods[i].pid) for i in (0, 1)]
    asked = job.resize(2)
    assert (asked.wanted, asked.cession) == (2, "c1")
    shrunk = job.until(lambda s: s.ceded(2) and s.parked == (2, 3) and s.durableStep > 0 and s.pauseSeconds > 0)
    assert (shrunk.size, shrunk.generation > 1, len(shrunk.digest)) == (2, True, 64)
    assert shrunk.stepSeconds > 0
    assert shrunk.loss > 0
    job.trains(2)
    assert job.resize(2).generation == job.trains(2).generation  # level, not event
    job.resize(4)
    job.trains(4)
    assert ranks == [children(job.pods[i].pid) for i in (0, 1)]  # nobody was restarted
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_killed_rank_costs_the_step_in_flight_only(job: Job, undisturbed: Callable[[int], list[float]]) -> None:
    job.start(0, 1, 2)
    first = job.trains(3)
    job.kill_rank(0)  # it leads, and holds the store
    second = job.until(lambda s: s.generation > first.generation and s.step > first.step and s.state == State.TRAINING)
    job.kill_rank(2)
    job.until(lambda s: s.generation > second.generation and s.step > second.step and s.state == State.TRAINING)
    job.trains(3)
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_lost_pod_0_is_replaced_without_the_disk(job: Job, undisturbed: Callable[[int], list[float]]) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    job.resize(3)
    was = job.trains(3)
    job.kill_pod(0)
    job.start(0)
    again = job.trains(3)
    assert again.step > was.step
    assert again.durableStep == 0
    assert (again.wanted, again.cession) == (3, "c1")
    job.resize(2)  # and once more, in the middle of a shrink
    job.kill_pod(0)
    job.start(0)
    assert job.trains(2).step > again.step
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_stopped_job_goes_on_where_it_was_and_ends_well(job: Job, undisturbed: Callable[[int], list[float]]) -> None:
    job.start(0, 1)
    job.trains(2)
    assert job.stop() == [contract.LEFT, contract.LEFT]
    before = check_exactly_once(job, undisturbed)
    job.steps = before + 60
    job.start(0, 1)
    job.until(lambda s: s.durableStep == before)
    job.resize(2)
    job.start(2)  # beyond the wanted size: it waits outside, and ends with the others
    assert [pod.wait(40) for pod in job.pods.values()] == [0, 0, 0]
    assert check_exactly_once(job, undisturbed) == before + 60


def test_size_0_saves_parks_everybody_and_can_be_taken_back(job: Job, undisturbed: Callable[[int], list[float]]) -> None:
    job.start(0, 1)
    job.trains(2)
    job.resize(0)
    stopped = job.until(lambda s: s.ceded(0))
    assert (stopped.state, stopped.size, stopped.parked) == (State.STOPPED, 0, (0, 1))
    assert stopped.durableStep == stopped.step > 0
    job.resize(2)
    assert job.trains(2).step > stopped.step
    job.stop()
    check_exactly_once(job, undisturbed)


def test_a_pod_that_is_told_to_go_leaves_at_the_end_of_a_step(job: Job, undisturbed: Callable[[int], list[float]]) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    job.pods[2].terminate()
    job.trains(2)
    assert job.pods[2].wait(20) == contract.LEFT
    with pytest.raises(control.Refused) as refused:
        job.call("GET", contract.STATUS_PATH, key=b"another")
    assert refused.value.status == 401
    job.stop()
    check_exactly_once(job, undisturbed)


def test_the_command_runs_resizes_and_stops_a_job_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    of = [sys.executable, "-m", "elastic_runtime", "--port", str(free_port())]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}

    def ask(*words: str) -> Status:
        return contract.decode_status(subprocess.run([*of, *words], cwd=tmp_path, env=env, capture_output=True).stdout or b"{}")

    with subprocess.Popen(
        [*of, "--local", "2", "train.py", str(FOREVER), "0.01"], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL
    ) as running:
        try:
            end = time.monotonic() + 30
            while ask("status").size != 2 and time.monotonic() < end:
                time.sleep(0.1)
            assert ask("resize", "1").wanted == 1
            while not ask("status").ceded(1) and time.monotonic() < end:
                time.sleep(0.1)
            assert ask("status").size == 1
        finally:
            running.terminate()
    assert running.returncode == contract.LEFT
