"""What processes of this machine hold: memory, open files and threads, as /proc counts them."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KIB = 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one process."""

    # Its proportional share: a page that several processes map counts once in all. Without
    # smaps_rollup, all that it maps.
    memory_bytes: int
    open_files: int
    threads: int


def cost_of(pid: int) -> Cost | None:
    """None if the process has ended."""
    folder = Path(f"/proc/{pid}")
    try:
        open_files = sum(1 for _ in (folder / "fd").iterdir())
        threads = sum(1 for _ in (folder / "task").iterdir())
        return Cost(_memory_bytes(folder), open_files, threads)
    except (FileNotFoundError, ProcessLookupError):
        return None


def costs_of(pids: Iterable[int]) -> list[Cost]:
    return [cost for pid in pids if (cost := cost_of(pid))]


def _memory_bytes(folder: Path) -> int:
    with suppress(FileNotFoundError):
        return kib_of((folder / "smaps_rollup").read_text(), "Pss") * KIB
    return kib_of((folder / "status").read_text(), "VmRSS") * KIB


def kib_of(text: str, name: str) -> int:
    """The value of a line `Name:  123 kB`; 0 if there is none, as of a process that has ended."""
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def cpu_s(pids: Iterable[int]) -> float:
    """CPU seconds of these processes so far; 0 of those that have ended."""
    total_s = 0.0
    for pid in pids:
        with suppress(OSError):
            total_s += cpu_s_of(pid)
    return total_s


def cpu_s_of(pid: int) -> float:
    """The same of one process. Raises OSError if it has ended."""
    # The name before the parenthesis may have spaces.
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def available_bytes() -> int:
    """Memory of this machine that new processes can have."""
    return kib_of(Path("/proc/meminfo").read_text(), "MemAvailable") * KIB
