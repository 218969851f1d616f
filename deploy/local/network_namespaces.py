"""Rooms: sets of namespaces with a shell as first process that keeps its daemons running.

Whatever starts in a room ends with its first process: programs, mounts, interfaces and rules go
with the namespaces.
"""

import os
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from deploy.local.paths import Failure, Places
from deploy.local.shell import until


def daemon(places: Places, name: str, *argv: str | Path) -> str:
    """Shell text that keeps a program running. `|| :` matters: under `set -e` a killed one would
    stay dead."""
    command = shlex.join(map(str, argv))
    return f"(while :; do {command} >>{places.log}/{name}.log 2>&1 || :; sleep 1; done) &\n"


def start(places: Places, name: str, script: str, inside: int | None = None) -> int:
    """The pid, on this machine, of the first process of new namespaces that waits at its gate to
    run `script`.

    With `inside`, the new namespaces lie in those of that process.
    """
    gate = places.run / f"{name}.gate"
    gate.unlink(missing_ok=True)
    os.mkfifo(gate, 0o600)
    text = (
        f"hostname {name}\nexec 3<>$1; read go <&3\nset -e\nip link set lo up\n{script}set "
        f"+e\nwhile :; do sleep 9999; done\n"
    )
    (places.run / f"{name}.sh").write_text(text)
    enter = ("nsenter", "-t", str(inside), "-n", "-m", "-p") if inside else ()
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
    path = f"{places.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    with open(places.log / f"{name}.log", "ab") as log:
        outer = subprocess.Popen(
            [*enter, *spaces, "sh", str(places.run / f"{name}.sh"), str(gate)],
            # nothing of who started the cluster
            env={"PATH": path, "HOME": "/root"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    pid = until(
        lambda: _first(outer.pid) or 0,
        f"the namespaces of {name} (see {places.log}/{name}.log)",
        10,
    )
    (places.run / f"{name}.pid").write_text(str(pid))
    return pid


def open_gate(places: Places, name: str) -> None:
    """Lets the script of the room run: its interfaces are in."""
    with open(places.run / f"{name}.gate", "w") as gate:
        gate.write("go\n")


def pid_of(places: Places, name: str) -> int | None:
    """The room's first process, if it runs."""
    try:
        pid = int((places.run / f"{name}.pid").read_text())
        known = f"{places.run}/{name}.gate" in Path(f"/proc/{pid}/cmdline").read_text()
        return pid if known and _state(pid) != "Z" else None
    except (OSError, ValueError):
        return None


def the(places: Places, name: str) -> int:
    """Like pid_of, for a room that must be there."""
    if pid := pid_of(places, name):
        return pid
    raise Failure(f"{name} does not run: see `python -m deploy.local status`")


def end(places: Places, name: str) -> bool:
    """Power off: every process of the room has ended. False if none ran."""
    if not (pid := pid_of(places, name)):
        return False
    os.kill(pid, signal.SIGKILL)
    until(lambda: pid_of(places, name) is None, f"{name} to end", 30, every=0.01)
    return True


def _first(pid: int) -> int | None:
    """The first process of the namespaces that `pid` opens, once it is there."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    spaces = next(line for line in lines if line.startswith("NSpid")).split()
    if spaces[-1] == "1" and len(spaces) > 2:
        return pid
    return _first(int(below[0])) if below else None


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def end_strays(places: Places) -> None:
    """Rooms whose pid file is gone, as after a deleted cache, have ended too: their shells are told
    by the gate they were started with."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_text().split("\0")
            if any(word.startswith(f"{places.run}/") and word.endswith(".gate") for word in words):
                os.kill(int(folder.name), signal.SIGKILL)
