"""The nodes' cgroups: /cede/NODE in every hierarchy of this machine."""

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.local.paths import NAME, Failure

TOP = Path("/sys/fs/cgroup")


def hierarchies() -> list[Path]:
    """One with cgroup v2, one for each controller with v1."""
    if (TOP / "cgroup.controllers").exists():
        return [TOP]
    return [
        folder for folder in TOP.iterdir() if folder.is_dir() and (folder / "cgroup.procs").exists()
    ]


def make(node: str) -> None:
    """Fresh groups for a node: a kubelet that finds old ones takes half a minute over them."""
    remove(node)
    for top in hierarchies():
        (top / NAME).mkdir(exist_ok=True)
        for above in (top, top / NAME):
            hand_down(above)
        (top / NAME / node).mkdir()


def hand_down(group: Path) -> None:
    """The groups in this one get every controller it has. With v1 there is nothing to hand down:
    each has a hierarchy of its own."""
    if (group / "cgroup.controllers").exists():
        controllers = (group / "cgroup.controllers").read_text().split()
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def remove(node: str = "") -> None:
    """None is left of the node's groups, or of all nodes'."""
    tops = [top / NAME / node for top in hierarchies()]
    # v1 is slow at this: walk the hierarchies side by side
    with ThreadPoolExecutor() as pool:
        list(pool.map(_remove, tops))


def _remove(top: Path) -> None:
    """Raises Failure naming the group that somebody still holds."""
    for group, _, _ in os.walk(top, topdown=False):
        # processes on their way out still hold it
        for _ in range(1000):
            try:
                os.rmdir(group)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    break
                if error.errno != errno.EBUSY:
                    raise
                time.sleep(0.01)
            else:
                break
        else:
            raise Failure(
                f"cgroup {group} is still in use: "
                f"{Path(group, 'cgroup.procs').read_text().split()} are its processes"
            )
