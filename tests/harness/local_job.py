"""A job of real processes on this machine, for tests to resize, kill and stop; and what must hold
of it afterwards."""

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
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_server
from elastic_runtime.contract import SizeRequest, State, Status
from tests.paths import TREE

KEY = b"0" * 64
FOREVER = 1_000_000
LOST = """
import os, signal
from pathlib import Path

def lost(name):
    '''The process is lost, once, when a file of this name asks for it.'''
    try:
        Path(name).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
"""
SCRIPT = """
import sys, time, torch
from elastic_runtime import Session
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


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Job:
    """Pods as processes of this machine; each can be killed and started again.

    `script` runs in `directory` as `train.py STEPS SECONDS`: until which step, and how long a
    micro-batch shall take at least;
    or with `arguments` in their place.
    """

    def __init__(
        self,
        directory: Path,
        script: str,
        steps: int = FOREVER,
        smallest: int = 1,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self.arguments = arguments
        self.directory, self.script, self.steps, self.port = directory, script, steps, free_port()
        (directory / "train.py").write_text(script)
        (directory / "key").write_bytes(KEY)
        # in place of the script
        self.command: list[str] = []
        self.pods: dict[int, subprocess.Popen[bytes]] = {}
        self.env = os.environ | {
            contract.JOB_ENV: "test",
            contract.JOB_UID_ENV: "uid",
            contract.KEY_FILE_ENV: str(directory / "key"),
            contract.PORT_ENV: str(self.port),
            contract.SIZES_ENV: f"{smallest},8",
            contract.GRACE_ENV: "20",
            "CEDE_LOCAL": "127.0.0.1",
            "PYTHONPATH": str(TREE),
            "OMP_NUM_THREADS": "1",
        }

    def start(self, *indexes: int) -> None:
        script = self.command or ["train.py", *(self.arguments or (str(self.steps), "0.02"))]
        for index in indexes:
            with open(self.directory / f"pod-{index}.txt", "ab") as out:
                self.pods[index] = subprocess.Popen(
                    [sys.executable, "-m", "elastic_runtime", *script],
                    cwd=self.directory,
                    env=self.env | {contract.INDEX_ENV: str(index)},
                    stdout=out,
                    stderr=out,
                )

    def kill_rank(self, index: int) -> None:
        os.kill(children(self.pods[index].pid)[0], signal.SIGKILL)

    def kill_pod(self, index: int) -> None:
        for pid in [self.pods[index].pid, *children(self.pods[index].pid)]:
            os.kill(pid, signal.SIGKILL)
        self.pods[index].wait()

    def call(self, method: str, path: str, body: bytes = b"", key: bytes = KEY) -> Status:
        return contract.decode_status(
            asyncio.run(control_server.call("127.0.0.1", self.port, key, "uid", method, path, body))
        )

    def figures(self) -> dict[str, float]:
        """What pod 0 says at /metrics, to anybody."""
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as reply:
            lines = (
                line.rsplit(" ", 1)
                for line in reply.read().decode().splitlines()
                if not line.startswith("#")
            )
            return {name.removeprefix("elastic_runtime_"): float(value) for name, value in lines}

    def resize(self, size: int) -> Status:
        return self.call(
            "PUT", contract.SIZE_PATH, contract.encode(SizeRequest(size, cession="c1"))
        )

    def until(self, true: Callable[[Status], bool], seconds: float = 40) -> Status:
        """The first status that `true` holds for."""
        end = time.monotonic() + seconds
        status = Status()
        while time.monotonic() < end:
            try:
                status = self.call("GET", contract.STATUS_PATH)
                if true(status):
                    return status
            except OSError:
                # pod 0 is not up
                pass
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s; last: {status}\n{self.said()}")

    def trains(self, size: int, beyond: int = 3) -> Status:
        """Until it trains at `size`, and `beyond` steps more."""
        first = self.until(lambda s: s.state == State.TRAINING and s.size == size)
        return self.until(
            lambda s: s.state == State.TRAINING and s.size == size and s.step >= first.step + beyond
        )

    def goes_on(self, before: Status, size: int) -> Status:
        """Until it trains at `size` in a later generation."""
        self.until(lambda s: s.generation > before.generation and s.step > before.step)
        return self.trains(size)

    def stop(self) -> list[int]:
        """SIGTERM to all; their exit codes."""
        for pod in self.pods.values():
            pod.terminate()
        return [pod.wait(20) for pod in self.pods.values()]

    def said(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-3000:]}"
            for path in sorted(self.directory.glob("pod-*.txt"))
        )

    def lines(self, files: str) -> Iterator[dict[str, Any]]:
        for path in self.directory.glob(f"log/{files}.jsonl"):
            yield from (
                json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")
            )

    def kill(self) -> None:
        """Whatever still runs."""
        for index, pod in self.pods.items():
            if pod.poll() is None:
                self.kill_pod(index)


def undisturbed_losses(
    directory: Path, script: str, known: list[float], steps: int, least: int = 600
) -> list[float]:
    """The losses of at least the first `steps` steps of the same script, run plainly; `known` holds
    what was found before."""
    if steps > len(known):
        job = Job(directory, script, steps := max(steps, least))
        subprocess.run(
            [sys.executable, "train.py", str(steps), "0"], cwd=directory, env=job.env, check=True
        )
        found = {line["step"]: line["loss"] for line in job.lines("steps-*")}
        known[:] = [found[step] for step in range(1, max(found) + 1)]
    return known


def check_exactly_once(
    job: Job, undisturbed: Callable[[int], list[float]], micro_batches: int = 10
) -> int:
    """Every step committed in one generation, by whom each micro-batch was used once, with the
    undisturbed run's loss; how many."""
    committed: dict[int, set[int]] = {}
    losses: dict[int, float] = {}
    for line in job.lines("steps-*"):
        committed.setdefault(line["step"], set()).add(line["generation"])
        losses[line["step"]] = line["loss"]
    last = max(committed)
    assert sorted(committed) == list(range(1, last + 1))
    assert {step: of for step, of in committed.items() if len(of) > 1} == {}
    used = Counter(
        (line["step"], line["micro_batch"])
        for line in job.lines("samples-*")
        if line["generation"] in committed.get(line["step"], ())
    )
    assert used == {
        (step, number): 1 for step in range(1, last + 1) for number in range(micro_batches)
    }
    for step, expected in enumerate(undisturbed(last)[:last], 1):
        assert losses[step] == pytest.approx(expected, rel=1e-6), f"step {step}"
    return last
