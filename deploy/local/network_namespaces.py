"""Sets of Linux namespaces, each with a shell as first process that keeps its daemons running.

Everything in a set ends with its first process: programs, mounts, interfaces and rules. The sets of
the local cluster are its control plane, and one for each node.
"""

import os
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from deploy.local.paths import Failure, Paths
from deploy.local.shell import wait_until

CONTROL_PLANE = "room"
"""The name of its namespaces and of their files; a running cluster is found by it."""


def daemon_script(paths: Paths, name: str, *argv: str | Path) -> str:
    """A shell script that keeps a program running.

    Without `|| :`, `set -e` would end the loop when the program is killed.
    """
    command = shlex.join(map(str, argv))
    return f"(while :; do {command} >>{paths.log}/{name}.log 2>&1 || :; sleep 1; done) &\n"


def start(paths: Paths, name: str, script: str, outer_pid: int | None = None) -> int:
    """Creates namespaces; returns the pid, on this machine, of their first process.

    The process runs `script` after `open_gate`. With `outer_pid`, the new namespaces are inside
    those of that process.
    """
    gate = paths.run / f"{name}.gate"
    gate.unlink(missing_ok=True)
    os.mkfifo(gate, 0o600)
    text = (
        f"hostname {name}\nexec 3<>$1; read go <&3\nset -e\nip link set lo up\n{script}set "
        f"+e\nwhile :; do sleep 9999; done\n"
    )
    (paths.run / f"{name}.sh").write_text(text)
    enter = ("nsenter", "-t", str(outer_pid), "-n", "-m", "-p") if outer_pid else ()
    spaces = (
        "unshare",
        "--fork",
        "--kill-child",
        "--pid",
        "--mount-proc",
        "--net",
        "--mount",
        "--uts",
        "--ipc",
    )
    path = (
        f"{paths.cell_bin}:{paths.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    )
    with open(paths.log / f"{name}.log", "ab") as log:
        outer = subprocess.Popen(
            [*enter, *spaces, "sh", str(paths.run / f"{name}.sh"), str(gate)],
            # not the environment of the user who started the cluster
            env={"PATH": path, "HOME": "/root"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    pid = wait_until(
        lambda: _first_process(outer.pid) or 0,
        f"the namespaces of {name} (see {paths.log}/{name}.log)",
        10,
    )
    (paths.run / f"{name}.pid").write_text(str(pid))
    return pid


def open_gate(paths: Paths, name: str) -> None:
    """Lets the script run; its network interfaces are there now."""
    with open(paths.run / f"{name}.gate", "w") as gate:
        gate.write("go\n")


def pid_of(paths: Paths, name: str) -> int | None:
    """The first process of the namespaces; None if it does not run."""
    try:
        pid = int((paths.run / f"{name}.pid").read_text())
        ours = f"{paths.run}/{name}.gate" in Path(f"/proc/{pid}/cmdline").read_text()
        return pid if ours and _state(pid) != "Z" else None
    except (OSError, ValueError):
        return None


def require_pid(paths: Paths, name: str) -> int:
    """Like pid_of. Raises Failure if the namespaces do not exist."""
    if pid := pid_of(paths, name):
        return pid
    raise Failure(f"{name} does not run: power it on with `python -m deploy.local join {name}`")


def stop(paths: Paths, name: str) -> bool:
    """Ends every process in the namespaces at once. Returns False if there was none."""
    if not (pid := pid_of(paths, name)):
        return False
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid_of(paths, name) is None, f"{name} to end", 30, interval_s=0.01)
    return True


def _first_process(pid: int) -> int | None:
    """The first process of the namespaces that `pid` creates; None before it exists."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    spaces = next(line for line in lines if line.startswith("NSpid")).split()
    if spaces[-1] == "1" and len(spaces) > 2:
        return pid
    return _first_process(int(below[0])) if below else None


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def stop_strays(paths: Paths) -> None:
    """Also ends namespaces without a pid file, such as after the cache was deleted.

    Their first processes have the path of their gate on the command line.
    """
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_text().split("\0")
            if any(word.startswith(f"{paths.run}/") and word.endswith(".gate") for word in words):
                os.kill(int(folder.name), signal.SIGKILL)
