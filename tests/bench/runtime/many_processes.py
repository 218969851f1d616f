"""A job of hundreds of processes on one machine: `python -m tests.bench.runtime.many_processes`.

`[--pods N ...] [--seconds LIMIT] [--log FILE] [-o json]`

Every pod is an agent and a rank of their own, which import torch and connect to each other over
gloo, as on many machines. The job starts, is asked for one pod less, for half of its pods and for
all again, and loses a rank and then its coordinator with its pod. All figures are of the job's own
journal. Where the time is over or something fails, the rest is missing and said so.
"""

import argparse
import os
import platform
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from elastic_runtime import contract
from elastic_runtime.agent.settings import PORTS
from elastic_runtime.contract import State, Status
from tests.bench.runtime import process_costs, table
from tests.bench.runtime.job_course import Change, Course, rows
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import TooLong, children, descendants, kill, until
from tests.bench.runtime.table import Row

PODS = (64, 256)
# Of one job, its journal not counted.
LIMIT_S = 300.0
# Width of the job's layers.
WIDTH = 64
# Of an agent and a rank that have imported torch: for the check before the start.
POD_BYTES = 350 << 20
# The training is watched for so long.
STEADY_S = 10.0
# Steps after a change, before the next one.
STEPS = 5


class ManyProcesses(Ours):
    """Our job; `limit_s`: in all, from its start."""

    def __init__(self, pods: int, limit_s: float) -> None:
        super().__init__(
            pods,
            BENCH_WIDTH=str(WIDTH),
            BENCH_MICRO_BATCHES=str(pods),
            # A rank that sees a GPU might hold memory there.
            CUDA_VISIBLE_DEVICES="",
        )
        # Without it a local job counts on no other pods.
        self.env[contract.SIZES_ENV] = f"1,{pods}"
        self._end = time.monotonic() + limit_s

    def call(self, method: str, path: str, body: bytes = b"") -> Status:
        try:
            return super().call(method, path, body)
        except OSError:
            # Pod 0 is lost, or does not run yet. Any other pod passes the request on.
            self.port = int((self.directory / PORTS / "1").read_text())
            return super().call(method, path, body)

    def agents(self) -> list[int]:
        return [int(pid) for pid in (self.directory / "pids").read_text().split()]

    def until(self, probe: Callable[[Status], bool], what: str) -> Status:
        """Raises TooLong when the job has ended, or its time is over."""

        def probed() -> Status | None:
            if self.processes[0].poll() is not None:
                raise TooLong(f"{what}: the job has ended")
            status = self.status()
            return status if status and probe(status) else None

        return until(probed, self._end - time.monotonic(), what)

    def trains(self, size: int, after: int = -1) -> Status:
        """When it has made `STEPS` steps at this size, in a generation after `after`."""
        what = f"{STEPS} steps of {size} pods"

        def is_training(status: Status) -> bool:
            is_new = status.generation > after and status.size == size
            return is_new and status.state == State.TRAINING

        first = self.until(is_training, what)
        return self.until(lambda now: is_training(now) and now.step >= first.step + STEPS, what)

    def kill_pod(self, pod: int) -> None:
        """As the end of its container does: the agent and all below it."""
        agent = self.agents()[pod]
        for pid in (agent, *descendants(agent)):
            kill(pid)

    def end(self) -> None:
        """Nothing runs any more; the journal is there until the context ends."""
        for pid in [*descendants(self.processes[0].pid), self.processes[0].pid]:
            kill(pid)


def drive(job: ManyProcesses, course: Course) -> None:
    """All changes, one after the other. Raises TooLong; `course` has what happened before."""
    pods = course.pods

    def begin(name: str, size: int, *, is_fault: bool = False) -> None:
        print(f"# {pods} pods: {name}", file=sys.stderr, flush=True)
        course.changes.append(Change(name, time.time(), size, is_fault))

    generation = job.trains(pods).generation
    measure(job, course)
    for name, size in (
        ("shrink by one", pods - 1),
        ("growth by one", pods),
        ("shrink to half", pods // 2),
        ("growth from half", pods),
    ):
        begin(name, size)
        job.resize(size)
        generation = job.trains(size, generation).generation
    begin("a rank is killed", pods - 1, is_fault=True)
    kill(job.rank_of(pods // 2))
    # The survivors train on; then the rank is back.
    job.until(lambda status: status.generation > generation, "the next generation")
    generation = job.trains(pods, generation).generation
    begin("the pod of the coordinator is killed", pods - 1, is_fault=True)
    job.kill_pod(0)
    job.trains(pods - 1, generation)


def measure(job: ManyProcesses, course: Course) -> None:
    """What the job costs while all pods train."""
    agents = job.agents()
    ranks = [rank for agent in agents for rank in children(agent)]
    groups = (agents[:1], agents, ranks)
    before = [process_costs.cpu_s(group) for group in groups]
    began = time.time()
    time.sleep(STEADY_S)
    course.steady = began, time.time()
    used = [process_costs.cpu_s(group) for group in groups]
    took_s = course.steady[1] - began
    course.cpu = [(after - first) / took_s for first, after in zip(before, used, strict=True)]
    course.agents = process_costs.costs_of(agents)
    course.ranks = process_costs.costs_of(ranks)


def missing(pods: int) -> str:
    """What this machine lacks for so many pods; empty if nothing."""
    needed, available = pods * POD_BYTES, process_costs.available_bytes()
    if needed > available:
        return (
            f"{pods} pods need {needed / 1e9:.0f} GB of memory, and {available / 1e9:.0f} GB are "
            "free: give a smaller --pods"
        )
    # A rank has a connection to every other one, and is in several generations for a moment.
    files, (_, most) = 4 * pods + 200, resource.getrlimit(resource.RLIMIT_NOFILE)
    if files > most:
        return f"a rank of {pods} opens {files} files, and {most} are allowed: raise `ulimit -Hn`"
    return ""


def run(pods: int, limit_s: float, log: Path | None) -> list[Row]:
    """The rows of one job."""
    course = Course(pods, time.time())
    print(f"# {pods} pods: start", file=sys.stderr, flush=True)
    with ManyProcesses(pods, limit_s) as job:
        try:
            drive(job, course)
        except (TooLong, OSError, ValueError) as error:
            # What was measured before is printed in any case.
            output = (job.folder / "out-0.txt").read_text(errors="replace")
            course.failure = f"ended early: {error}"
            print(f"# {pods} pods: {error}: {output[-4000:]}", file=sys.stderr)
        job.end()
        if log:
            log.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(job.folder / "out-0.txt", log / f"job-of-{pods}.txt")
        return rows(course, job.log)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.runtime.many_processes", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--pods", type=int, nargs="+", default=PODS, help="of each job, in turn")
    parser.add_argument("--seconds", type=float, default=LIMIT_S, help="limit of one job")
    parser.add_argument("--log", type=Path, help="a folder for the output of the jobs")
    parser.add_argument("-o", dest="output", choices=["table", "json"], default="table")
    args = parser.parse_args()
    if min(args.pods) < 4:
        parser.error("a job of fewer than 4 pods cannot lose what this one loses: raise --pods")
    # SIGTERM unwinds the stack, so that the processes we started end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for pods in args.pods:
        if reason := missing(pods):
            parser.error(reason)
    facts: dict[str, object] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "load_before": os.getloadavg(),
    }
    measured = list[Row]()
    for pods in args.pods:
        measured += run(pods, args.seconds, args.log)
    print(table.document(measured, facts) if args.output == "json" else table.as_text(measured))
    complete = all(row.ours and row.met is not False for row in measured)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
