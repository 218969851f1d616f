"""What the system knows of a worker: its CPU time, its state, and its native stacks by py-spy."""

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path

# Seconds: the unit of /proc/PID/stat.
CPU_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PY_SPY_TIMEOUT_S = 1.0
NO_STACKS = "no stacks: "
# A stopped process does not even handle signals.
STOPPED_STATE = f"{NO_STACKS}State:\tT"


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used."""
    try:
        # The name before the parenthesis may have spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        # It has ended.
        return 0.0
    return (int(fields[11]) + int(fields[12])) * CPU_TICK_S


def kernel_state(pid: int) -> str:
    """The state of a process, and the kernel function that it waits in."""
    lines = list[str]()
    for name, prefix in (("status", "State:"), ("wchan", "")):
        with suppress(OSError):
            text = Path(f"/proc/{pid}/{name}").read_text()
            lines += [line.strip() for line in text.splitlines() if line.startswith(prefix)]
    return NO_STACKS + ", ".join(lines)


async def py_spy_dump(pid: int) -> str:
    """The stacks with native frames, by py-spy; empty where py-spy is not installed."""
    if not shutil.which("py-spy"):
        return ""
    try:
        spy = await asyncio.create_subprocess_exec(
            "py-spy",
            "dump",
            "--nonblocking",
            "--native",
            "--pid",
            str(pid),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(PY_SPY_TIMEOUT_S):
            return (await spy.communicate())[0].decode(errors="replace")
    except TimeoutError:
        spy.kill()
        await spy.wait()
        return ""
