"""Checks that this machine can run the cluster."""

import os
import shutil
import sys
from pathlib import Path

from deploy.local import binaries, store
from deploy.local.paths import Paths

# command: the Debian package that has it
RUNTIME = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "nft": "nftables"}
RUNTIME |= {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "sysctl": "procps"}
BUILD = {"buildah": "buildah", "debootstrap": "debootstrap"}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
"""With it, debootstrap checks the packages of Debian."""
INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
# Of two nodes with 20 pods: 23 of the programs, and with cgroup v2 one of each container.
INOTIFY_INSTANCES = 64
# the Python of Debian 12, which the pods run with the torch of this environment
PYTHON = (3, 11)


def missing(paths: Paths) -> str:
    """What is missing and how to get it, in one line; empty if nothing is missing."""
    if os.geteuid():
        return (
            "not root: the cluster needs namespaces, mounts and interfaces; run as root, or in a "
            "virtual machine"
        )
    if sys.version_info[:2] != PYTHON:
        version = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        return (
            f"{version}: the pods run Python 3.11 with the torch of .venv; create .venv with 3.11"
        )
    packages = {
        package for command, package in (RUNTIME | BUILD).items() if not shutil.which(command)
    }
    if not any(Path(folder, "ptp").exists() for folder in store.CNI):
        packages.add("containernetworking-plugins")
    if not KEYRING.exists():
        packages.add("debian-archive-keyring")
    if packages:
        return (
            f"{', '.join(sorted(packages))} not installed: run deploy/local/setup.sh, or "
            f"`apt-get install {' '.join(sorted(packages))}`"
        )
    if not binaries.up_to_date(paths) and not shutil.which("go"):
        return (
            "Go is not installed: the cluster's programs are compiled with Go 1.26 or newer "
            "(https://go.dev/dl)"
        )
    return ""


def inotify_shortage() -> str:
    """Why the kubelets could not watch their files, in one line; empty if they can."""
    limit = int(INOTIFY_LIMIT.read_text())
    used = inotify_instances()
    if limit - used >= INOTIFY_INSTANCES:
        return ""
    return (
        f"root uses {used} of {limit} inotify instances, and the cluster needs "
        f"{INOTIFY_INSTANCES}: `sysctl -w fs.inotify.max_user_instances=512`"
    )


def inotify_instances() -> int:
    """Those of root's processes."""
    return sum(map(_is_inotify_of_root, Path("/proc").glob("[0-9]*/fd/*")))


def _is_inotify_of_root(link: Path) -> bool:
    try:
        return os.readlink(link) == "anon_inode:inotify" and link.parents[1].stat().st_uid == 0
    except OSError:
        # it was closed, or its process has ended
        return False
