"""What the cluster's processes hold in memory."""

import os
from pathlib import Path


def processes() -> dict[int, str]:
    """Every process in a process namespace below this one, with its command: the cluster's, unless
    others make namespaces too."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                status = Path(entry.path, "status").read_text()
                spaces = next(
                    line for line in status.splitlines() if line.startswith("NSpid")
                ).split()
                if len(spaces) > 2:
                    found[int(entry.name)] = (
                        Path(entry.path, "cmdline")
                        .read_bytes()
                        .replace(b"\0", b" ")
                        .decode()
                        .strip()
                    )
            except (OSError, StopIteration):
                # it ended meanwhile
                continue
    return found


def table() -> str:
    """A line a process, largest first: resident and proportional MiB, pid, command; and the sum."""
    rows = []
    for pid, command in processes().items():
        try:
            sizes = memory_kib(pid)
        except (OSError, KeyError):
            continue
        rows.append((sizes[0] // 1024, sizes[1] // 1024, pid, command[:90]))
    lines = [
        f"{rss:6} {pss:6} {pid:8}  {command}"
        for rss, pss, pid, command in sorted(rows, reverse=True)
        if rss >= 4
    ]
    total = f"{sum(row[1] for row in rows)} MiB proportional in {len(rows)} processes"
    return "\n".join(["   RSS    PSS      PID  COMMAND", *lines, total])


def memory_kib(pid: int) -> tuple[int, int]:
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {row.split()[0]: int(row.split()[1]) for row in rows[1:]}
    return sizes["Rss:"], sizes["Pss:"]
