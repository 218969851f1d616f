"""What this machine must have to carry the cluster."""

import os
import shutil
import sys
from pathlib import Path

from deploy.local import binaries, store
from deploy.local.paths import Places

# command: the Debian package that brings it
RUNTIME = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "nft": "nftables"}
RUNTIME |= {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "sysctl": "procps"}
BUILD = {"buildah": "buildah", "debootstrap": "debootstrap"}
# that of Debian 12, which the pods run: they use this environment's torch
PYTHON = (3, 11)


def lacks(places: Places) -> str:
    """One line that says what is missing and how to get it; empty if nothing is."""
    if os.geteuid():
        return (
            "not root: namespaces, mounts and interfaces need it; run as root, or in a virtual "
            "machine"
        )
    if sys.version_info[:2] != PYTHON:
        found = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        return (
            f"{found}: pods run Debian's 3.11 with this environment's torch; make .venv with 3.11"
        )
    packages = {
        package for command, package in (RUNTIME | BUILD).items() if not shutil.which(command)
    }
    if not any(Path(folder, "ptp").exists() for folder in store.CNI):
        packages.add("containernetworking-plugins")
    if packages:
        return (
            f"{', '.join(sorted(packages))} not installed: deploy/local/setup.sh does it, or "
            f"`apt-get install {' '.join(sorted(packages))}`"
        )
    if not binaries.built(places) and not shutil.which("go"):
        return (
            "Go is not installed: the cluster's programs are compiled with Go 1.26 or newer "
            "(https://go.dev/dl)"
        )
    return ""
