"""The cgroups of the nodes: /cede/NODE in every hierarchy of this machine."""

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.local.paths import NAME, Failure

TOP = Path("/sys/fs/cgroup")
REMOVE_ATTEMPTS = 1000
REMOVE_INTERVAL_S = 0.01
# The nodes together have four times the share of the processor that one process of this machine
# has, and not the same: the file's name and content with cgroup v1 and v2.
SHARES = {"cpu.shares": "4096", "cpu.weight": "400"}


def hierarchies() -> list[Path]:
    """There is one with cgroup v2, and one for each controller with v1."""
    if (TOP / "cgroup.controllers").exists():
        return [TOP]
    return [
        folder for folder in TOP.iterdir() if folder.is_dir() and (folder / "cgroup.procs").exists()
    ]


def make(node: str) -> None:
    """Creates the groups of a node again: a kubelet needs half a minute to clean up old ones."""
    remove(node)
    for top in hierarchies():
        (top / NAME).mkdir(exist_ok=True)
        set_share(top / NAME)
        for parent in (top, top / NAME):
            enable_controllers(parent)
        (top / NAME / node).mkdir()


def set_share(group: Path) -> None:
    """Sets the group's share of the processor, where this hierarchy controls it."""
    for file, share in SHARES.items():
        if (group / file).exists():
            (group / file).write_text(share)


def enable_controllers(group: Path) -> None:
    """Enables every controller of this group for its children.

    With v1 there is nothing to do, because each controller has its own hierarchy.
    """
    if (group / "cgroup.controllers").exists():
        controllers = (group / "cgroup.controllers").read_text().split()
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def remove(node: str = "") -> None:
    """Removes the groups of a node, or of all nodes."""
    tops = [top / NAME / node for top in hierarchies()]
    # removing is slow with v1, so do all hierarchies at once
    with ThreadPoolExecutor() as pool:
        list(pool.map(_remove, tops))


def _remove(top: Path) -> None:
    """Raises Failure that names a group and the processes which keep it busy."""
    for group, _, _ in os.walk(top, topdown=False):
        # a group is busy until its last process has ended
        for _ in range(REMOVE_ATTEMPTS):
            if _removed(group):
                break
            time.sleep(REMOVE_INTERVAL_S)
        else:
            pids = Path(group, "cgroup.procs").read_text().split()
            raise Failure(f"cgroup {group} is still in use by the processes {pids}: stop them")


def _removed(group: str) -> bool:
    """False while the group is busy."""
    try:
        os.rmdir(group)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        if error.errno != errno.ENOENT:
            raise
    return True
