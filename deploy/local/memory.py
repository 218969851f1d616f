"""The memory of the cluster's processes."""

import os
from pathlib import Path


def processes() -> dict[int, str]:
    """The command of every process in a process namespace below ours, by its pid.

    These are the processes of the cluster, unless other programs create namespaces too.
    """
    commands = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                if _is_in_inner_namespace(Path(entry.path)):
                    commands[int(entry.name)] = _command(Path(entry.path))
            except OSError:
                # it has ended
                continue
    return commands


def _is_in_inner_namespace(folder: Path) -> bool:
    """Whether the process has a pid in a namespace below ours."""
    for line in (folder / "status").read_text().splitlines():
        if line.startswith("NSpid"):
            return len(line.split()) > 2
    return False


def _command(folder: Path) -> str:
    return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def table() -> str:
    """One line for each process, largest first, and the sum. RSS and PSS are in MiB."""
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
    total = f"{sum(row[1] for row in rows)} MiB PSS in {len(rows)} processes"
    return "\n".join(["   RSS    PSS      PID  COMMAND", *lines, total])


def memory_kib(pid: int) -> tuple[int, int]:
    """(resident, proportional) memory of a process."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {row.split()[0]: int(row.split()[1]) for row in rows[1:]}
    return sizes["Rss:"], sizes["Pss:"]
