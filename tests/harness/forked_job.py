"""A job whose processes are forks of one that has imported torch and frameworks.

To import them takes 12 s of a core, and a job that is disturbed starts three workers. Pods and
workers are processes as ever, with the same parents, signals and descriptors: only, a fork runs
the program that a new Python would run.
"""

import asyncio
import atexit
import gc
import multiprocessing
import os
import runpy
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from elastic_runtime import contract
from elastic_runtime.agent.settings import LAUNCHER_ENV
from elastic_runtime.training import failure_report
from tests.harness.local_job import Job

# For a script that nobody disturbs.
ALONE_S = 240


def forks_of(*modules: str) -> ForkServerContext:
    """Its processes have imported these modules. A test process has one such context."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["elastic_runtime.session", "elastic_runtime.__main__", *modules]
    )
    return context


class Fork:
    """What tests use of a `subprocess.Popen`."""

    def __init__(self, process: Any) -> None:
        self._process = process
        process.start()
        self.pid: int = process.pid

    def poll(self) -> int | None:
        exit_code: int | None = self._process.exitcode
        return exit_code

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        exit_code = self.poll()
        if exit_code is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout} s")
        return exit_code

    def terminate(self) -> None:
        self._process.terminate()


class ForkedJob(Job):
    """A Job of forks. `context`: from `forks_of`."""

    def __init__(self, context: ForkServerContext, directory: Path, *args: Any, **named: Any):
        super().__init__(directory, *args, **named)
        self._context = context

    def start(self, *indexes: int) -> None:
        for index in indexes:
            env = self.env | {contract.INDEX_ENV: str(index)}
            self.pods[index] = self._fork(_run_pod, env, f"pod-{index}.txt")

    def run_alone(self, exit_code: int = 0) -> str:
        """The script, to its end, without an agent. What it has printed."""
        code = self._fork(_run_script, self.env, "alone.txt").wait(ALONE_S)
        printed = (self.directory / "alone.txt").read_text()
        assert code == exit_code, printed
        return printed

    def _fork(self, run: Callable[..., None], env: dict[str, str], output: str) -> Any:
        script = ["train.py", *self.arguments]
        place = (str(self.directory), env, output)
        return Fork(self._context.Process(target=run, args=(script, *place)))


def _run_pod(script: Sequence[str], *place: Any) -> None:
    from elastic_runtime import __main__

    _move(*place)
    # The server of forks is its parent.
    os.environ[LAUNCHER_ENV] = str(os.getppid())
    start = asyncio.create_subprocess_exec

    def fork(_python: str, _unbuffered: str, *program: str, **options: Any) -> Any:
        env, kept = options.pop("env"), options["pass_fds"]

        def run() -> None:
            _forget_agent(kept)
            os.environ.clear()
            os.environ.update(env)
            os._exit(_exit_code(program))

        # Popen calls it in the child, in place of another program.
        return start("false", preexec_fn=run, **options)

    asyncio.create_subprocess_exec = fork  # type: ignore[assignment]
    sys.argv = ["elastic_runtime", *script]
    sys.exit(__main__.main())


def _run_script(script: Sequence[str], *place: Any) -> None:
    _move(*place)
    os._exit(_exit_code(script))


def _move(directory: str, env: dict[str, str], output: str) -> None:
    """This process has another directory, environment and output."""
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(env)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))


def _forget_agent(kept: Sequence[int]) -> None:
    """What the start of another program does: signals and descriptors are as in a new process."""
    # An object of the agent that is collected would close a descriptor of this process.
    gc.freeze()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Popen has undone what Python does when it starts.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    for descriptor in {*range(3, highest + 1)} - {*kept}:
        os.closerange(descriptor, descriptor + 1)


def _exit_code(script: Sequence[str]) -> int:
    """Of the script, which has run to its end."""
    code: Any = 0
    sys.argv = list(script)
    # As the first import of elastic_runtime does, which was in another process.
    failure_report._reports_early = False
    failure_report.report_early_failures()
    try:
        runpy.run_path(script[0], run_name="__main__")
    except SystemExit as error:
        code = error.code or 0
    except BaseException as error:  # noqa: BLE001 (a script may end with any)
        code = 1
        sys.excepthook(type(error), error, error.__traceback__)
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return code if isinstance(code, int) else 1
