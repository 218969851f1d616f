"""A job whose pods are processes of this machine: start it, and send it requests."""

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

from elastic_runtime import contract
from elastic_runtime.agent import control_client
from elastic_runtime.agent.settings import LAUNCHER_ENV, LOCAL_HOST_ENV, PORTS
from elastic_runtime.agent.signing_keys import KeyFile, Keys
from elastic_runtime.agent.terminal_view import TerminalView
from elastic_runtime.contract import Status

HOST = "127.0.0.1"
# Of that address; the kernel's name.
INTERFACE = "lo"
# Of every local job; a directory holds one job's key.
JOB = "local"
# In that directory, if people watch the job on a terminal.
LOG = "log.jsonl"
# For the answer of one pod. So many are asked at most, pod 0 first: any passes a request on.
TRY_TIMEOUT_S = 2.0
MAX_TRIES = 4
# Between two reports that pod 0 has succeeded.
REPORT_INTERVAL_S = 5.0
# Passed on to the pods.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(
    pods: int,
    port: int,
    directory: Path,
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    is_shared: bool,
    on_terminal: bool,
) -> int:
    """Run `pods` pods until all have ended. Returns the job's exit code.

    `directory` then holds the key of the control port and the process ids. If pod 0 fails, the
    other pods are terminated. `is_shared`: see `exit_code`. `on_terminal`: people watch, and the
    log goes to a file.
    """
    # some file systems give a new one to another user
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _complain(f"--directory cannot be made: {error}")
        return 2
    if not is_new and directory.stat().st_uid != os.geteuid():
        _complain(f"{directory} belongs to another user: give this job a --directory of its own")
        return 2
    if not _lock(directory):
        _complain(
            f"a job of {directory} runs already: ask it by `status`, or give this one a "
            "--directory and a --port of its own"
        )
        return 2
    # Another process may listen at a port of an earlier job.
    shutil.rmtree(directory / PORTS, ignore_errors=True)
    try:
        view = TerminalView(sys.stdout, sys.stderr, directory / LOG) if on_terminal else None
        key = _write_key(directory)
    except OSError as error:
        _complain(f"--directory cannot be written: {error}")
        return 2
    complain = view.say if view else _complain
    pod_env = _pod_environment(env, pods, port, key)
    command = [sys.executable, "-m", "elastic_runtime", *arguments]
    pipe = subprocess.PIPE if view else None
    processes = [
        subprocess.Popen(
            command, env={**pod_env, contract.INDEX_ENV: str(index)}, stdout=pipe, stderr=pipe
        )
        for index in range(pods)
    ]
    (directory / "pids").write_text("\n".join(str(process.pid) for process in processes) + "\n")

    def forward_signal(number: int, _: object) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    for number in SIGNALS:
        signal.signal(number, forward_signal)
    if view:
        view.start(processes, lambda: _status(directory, port))
    watches = [
        threading.Thread(target=report_kill, args=(index, process, complain), daemon=True)
        for index, process in enumerate(processes)
    ]
    for watch in watches:
        watch.start()
    first = processes[0].wait()
    # A negative code is a signal: if pod 0 was killed, the others can train on without it.
    if first > 0 and first != contract.EXIT_LEFT_ON_REQUEST:
        complain(f"pod 0 gave up (exit code {first}), see above: the other pods are terminated")
        forward_signal(signal.SIGTERM, None)
    _report_finish(processes, directory)
    code = exit_code([process.wait() for process in processes], is_shared=is_shared)
    for watch in watches:
        watch.join()
    if view:
        view.end(code)
    return code


def exit_code(codes: Sequence[int], *, is_shared: bool) -> int:
    """PURE. Of a job whose pods have ended so, each negative for a signal.

    The first error counts. Without one, pods that were killed do not count if another has finished
    the job, or has left it with its state. `is_shared`: the pods share one work; otherwise nobody
    does that of a pod that was killed, and it counts.
    """
    errors = [code for code in codes if code > 0 and code != contract.EXIT_LEFT_ON_REQUEST]
    if not is_shared:
        errors += [128 - code for code in codes if is_killed(code)]
    if errors:
        return errors[0]
    if contract.EXIT_LEFT_ON_REQUEST in codes:
        return contract.EXIT_LEFT_ON_REQUEST
    return 0 if 0 in codes else 128 - codes[0]


def is_killed(code: int) -> bool:
    """By something else than this job."""
    return code < 0 and -code not in SIGNALS


def report_kill(
    index: int, process: "subprocess.Popen[bytes]", complain: Callable[[str], None]
) -> None:
    """When it ends: say so if something else than this job has killed it."""
    code = process.wait()
    if is_killed(code):
        complain(f"pod {index} was killed by signal {-code}; the job does not start it again")


def _write_key(directory: Path) -> Path:
    """A new file, which only its owner can read, whatever was there before."""
    key = directory / "key"
    key.unlink(missing_ok=True)
    descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w") as file:
        file.write(secrets.token_hex(32))
    return key


def _report_finish(processes: Sequence["subprocess.Popen[bytes]"], directory: Path) -> None:
    """Until all have ended, report to them that pod 0 has succeeded, if it has. A pod that was not
    up when the job finished would look for the others without an end."""
    if processes[0].returncode:
        return
    keys = KeyFile(directory / "key")
    for process in processes:
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(REPORT_INTERVAL_S)
                break
            for port in _ports(directory):
                call = control_client.call(
                    *(HOST, port, keys, JOB, "POST", contract.FINISHED_PATH, b""),
                    timeout_s=TRY_TIMEOUT_S,
                )
                # One that has work refuses, others have ended.
                with suppress(OSError, control_client.Refused):
                    asyncio.run(call)


def _lock(directory: Path) -> bool:
    """Whether no other process has it; until this process ends no other one gets it then."""
    # Not on every system from which this module is imported.
    import fcntl

    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True


def _status(directory: Path, port: int) -> Status:
    """Raises OSError, ValueError or Refused if the job does not answer as it should."""
    keys = KeyFile(directory / "key")
    return contract.decode_status(_call(directory, port, keys, "GET", contract.STATUS_PATH))


def _call(
    directory: Path, port: int, keys: Keys, method: str, path: str, body: bytes = b""
) -> bytes:
    """The reply of pod 0, which listens at `port` or says where, or of another pod if that one does
    not answer for the job.

    Raises OSError if no pod answers, and control_client.Refused.
    """
    error: OSError | control_client.Refused | None = None
    for tried in [*dict.fromkeys([port, *_ports(directory)])][:MAX_TRIES]:
        call = control_client.call(
            HOST, tried, keys, JOB, method, path, body, timeout_s=TRY_TIMEOUT_S
        )
        try:
            return asyncio.run(call)
        except control_client.Refused as refused:
            if refused.message == contract.WRONG_SIGNATURE:
                error = error or ConnectionError("another job listens there")
                continue
            if HTTPStatus.BAD_REQUEST <= refused.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            # It knows no coordinator, or is another process.
            error = refused
        except OSError as silence:
            error = error or silence
    assert error, "at least one was tried"
    raise error


def _ports(directory: Path) -> list[int]:
    """Of the pods that have started: the lowest index first."""
    ports = dict[int, int]()
    with suppress(OSError):
        for file in (directory / PORTS).iterdir():
            with suppress(OSError, ValueError):
                ports[int(file.name)] = int(file.read_text())
    return [ports[index] for index in sorted(ports)]


def _pod_environment(env: Mapping[str, str], pods: int, port: int, key: Path) -> dict[str, str]:
    # By default each pod would use every core, and all would be slow.
    threads = max(1, (os.cpu_count() or 1) // pods)
    return {
        contract.SIZES_ENV: "1",
        "OMP_NUM_THREADS": str(threads),
        "GLOO_SOCKET_IFNAME": INTERFACE,
        **env,
        contract.JOB_ENV: JOB,
        contract.JOB_UID_ENV: JOB,
        LOCAL_HOST_ENV: HOST,
        LAUNCHER_ENV: str(os.getpid()),
        contract.KEY_FILE_ENV: str(key),
        contract.PORT_ENV: str(port),
    }


def request(
    directory: Path, port: int, method: str, path: str, body: bytes, show: Callable[[bytes], str]
) -> int:
    """Send a request to the job in `directory`, and print what `show` makes of its reply.

    Returns an exit code.
    """
    try:
        keys = KeyFile(directory / "key")
    except OSError:
        _complain(
            f"no local job was started in this directory: {directory}/key is missing; start one "
            f"with --local"
        )
        return 1
    try:
        print(show(_call(directory, port, keys, method, path, body)))
    except control_client.Refused as refused:
        _complain(f"the job refused it: {refused.message}")
        return 1
    except OSError as error:
        _complain(f"no answer on port {port}: {error}; check that the job runs, and its --port")
        return 1
    except ValueError as error:
        _complain(f"the answer of the job cannot be read: {error}")
        return 1
    return 0


def _complain(text: str) -> None:
    print(f"elastic_runtime: {text}", file=sys.stderr)
