"""A job of real processes on this machine, which tests resize, kill and stop.

Also the checks that must hold of its journal afterwards.
"""

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_client
from elastic_runtime.agent.settings import LAUNCHER_ENV, PORTS
from elastic_runtime.contract import SizeRequest, State, Status
from tests.fakes.agents import always
from tests.paths import TREE

KEY = b"0" * 64
FOREVER = 1_000_000
# A frozen pod does not answer: another one is asked then.
CALL_TIMEOUT_S = 2.0
SCRIPTS = TREE / "tests" / "processes" / "scripts"
LOST = (SCRIPTS / "lost.py").read_text()
SCRIPT = (SCRIPTS / "train.py").read_text()


def free_port() -> int:
    """A port below those that the kernel gives to sockets that name none, and below NodePorts.

    One of the kernel's might be given to the job's own pod 1 before pod 0 has taken it.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    highest = min(lowest, 30_000)
    while True:
        # Not `random`: parallel tests may have one seed.
        port = highest - 1 - secrets.randbelow(highest // 3)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Job:
    """Pods as processes of this machine; each can be killed and started again.

    `script` runs in `directory` as `train.py STEPS SECONDS`, or with `arguments` instead: until
    which step, and how long a micro-batch takes at least.
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
        self.directory = directory
        self.script = script
        self.steps = steps
        self.port = free_port()
        (directory / "train.py").write_text(script)
        (directory / "key").write_bytes(KEY)
        # that signs calls to it
        self.key = KEY
        # Runs instead of the script.
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
        env = self.env | {LAUNCHER_ENV: str(os.getpid())}
        for index in indexes:
            with open(self.directory / f"pod-{index}.txt", "ab") as output:
                self.pods[index] = subprocess.Popen(
                    [sys.executable, "-m", "elastic_runtime", *script],
                    cwd=self.directory,
                    env=env | {contract.INDEX_ENV: str(index)},
                    stdout=output,
                    stderr=output,
                )

    def kill_rank(self, index: int) -> None:
        os.kill(children(self.pods[index].pid)[0], signal.SIGKILL)

    def kill_pod(self, index: int) -> None:
        """With what its workers have started, as the end of a container does."""
        workers = children(self.pods[index].pid)
        os.kill(self.pods[index].pid, signal.SIGKILL)
        for worker in workers:
            with suppress(ProcessLookupError):
                # Each leads a group of its own.
                os.killpg(worker, signal.SIGKILL)
        self.pods[index].wait()

    def call(self, method: str, path: str, body: bytes = b"", key: bytes | None = None) -> Status:
        """The answer of pod 0, or of the first other pod that answers.

        If none does, raises control_client.Refused of one that refuses, or OSError.
        """
        errors = list[OSError | control_client.Refused]()
        for port in [self.port_of(index) for index in sorted(self.pods)] or [self.port]:
            try:
                return self._call_port(port, method, path, body, key or self.key)
            except (OSError, control_client.Refused) as error:
                errors.append(error)
        refusals = [error for error in errors if isinstance(error, control_client.Refused)]
        raise [*refusals, *errors][0]

    def _call_port(self, port: int, method: str, path: str, body: bytes, key: bytes) -> Status:
        call = control_client.call(
            "127.0.0.1", port, always(key), "uid", method, path, body, timeout_s=CALL_TIMEOUT_S
        )
        return contract.decode_status(asyncio.run(call))

    def port_of(self, index: int) -> int:
        """The control port of a pod; that of pod 0 is known before it runs."""
        with suppress(OSError):
            return int((self.directory / PORTS / str(index)).read_text())
        return self.port

    def metrics(self) -> dict[str, float]:
        """The metrics that pod 0 publishes, without the prefix of their names."""
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

    def until(self, condition: Callable[[Status], bool], seconds: float = 120) -> Status:
        """The first status for which `condition` is true. Raises AssertionError after `seconds`."""
        end = time.monotonic() + seconds
        status = Status()
        while time.monotonic() < end:
            try:
                status = self.call("GET", contract.STATUS_PATH)
                if condition(status):
                    return status
            except OSError:
                # No pod runs yet.
                pass
            except control_client.Refused as refused:
                # No coordinator is known, or the one that is known does not answer.
                if refused.status < 500:
                    raise
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s; last: {status}\n{self.output()}")

    def trains(self, size: int, beyond: int = 3) -> Status:
        """Waits until it trains at `size`, and for `beyond` more steps."""
        first = self.until(lambda s: s.state == State.TRAINING and s.size == size)
        return self.until(
            lambda s: s.state == State.TRAINING and s.size == size and s.step >= first.step + beyond
        )

    def resumes(self, before: Status, size: int) -> Status:
        """Waits until it trains at `size` in a later generation."""
        self.until(lambda s: s.generation > before.generation and s.step > before.step)
        return self.trains(size)

    def stop(self) -> list[int]:
        """Sends SIGTERM to all pods; returns their exit codes."""
        for pod in self.pods.values():
            pod.terminate()
        return [pod.wait(60) for pod in self.pods.values()]

    def output(self) -> str:
        """The end of what every pod wrote."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-3000:]}"
            for path in sorted(self.directory.glob("pod-*.txt"))
        )

    def lines(self, files: str) -> Iterator[dict[str, Any]]:
        """The complete lines of the journal's files that match, decoded."""
        for path in self.directory.glob(f"log/{files}.jsonl"):
            yield from (
                json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")
            )

    def kill(self) -> None:
        """Kills every pod that still runs."""
        for index, pod in self.pods.items():
            if pod.poll() is None:
                self.kill_pod(index)


def undisturbed_losses(
    directory: Path, script: str, known: list[float], steps: int, least: int = 600
) -> list[float]:
    """The losses of at least the first `steps` steps of the same script, run without an agent.

    `known` caches the losses of earlier calls.
    """
    if steps > len(known):
        job = Job(directory, script, steps := max(steps, least))
        subprocess.run(
            [sys.executable, "train.py", str(steps), "0"], cwd=directory, env=job.env, check=True
        )
        losses = {line["step"]: line["loss"] for line in job.lines("steps-*")}
        known[:] = [losses[step] for step in range(1, max(losses) + 1)]
    return known


def check_exactly_once(
    job: Job, undisturbed: Callable[[int], list[float]], micro_batches: int = 10
) -> int:
    """Every step was committed in one generation, used each micro-batch once, and has the
    undisturbed run's loss. Returns the number of steps."""
    committed: dict[int, set[int]] = {}
    losses: dict[int, float] = {}
    for line in job.lines("steps-*"):
        committed.setdefault(line["step"], set()).add(line["generation"])
        losses[line["step"]] = line["loss"]
    last = max(committed)
    assert sorted(committed) == list(range(1, last + 1))
    assert {step: eras for step, eras in committed.items() if len(eras) > 1} == {}
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


def moves_between_strategies(job: Job, undisturbed: Callable[[int], list[float]]) -> None:
    """A sharded job is saved, trains replicated at another size, and then sharded again."""
    sharded = job.env["STRATEGY"]
    last = 0
    for strategy, indexes in ((sharded, (0, 1)), ("replicated", (0, 1, 2)), (sharded, (0,))):
        job.env["STRATEGY"] = strategy
        job.start(*indexes)
        assert job.trains(len(indexes)).step > last
        job.stop()
        last = check_exactly_once(job, undisturbed)
