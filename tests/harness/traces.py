"""What a local cluster could leave on this machine."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path


def traces() -> set[str]:
    """All that a cluster could leave on this machine, except its cache."""
    return {*mounts(), *network(), *cgroups(), *processes()}


def mounts() -> Iterator[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return (f"mount: {line}" for line in lines if "cede" in line)


def network() -> Iterator[str]:
    """Links, routes and firewall rules that bear our name or lie in our address ranges."""
    commands = (
        ["ip", "-o", "link"],
        ["ip", "route", "show", "table", "all"],
        ["nft", "list", "ruleset"],
    )
    for command in commands:
        output = subprocess.run(command, text=True, capture_output=True, check=True).stdout
        for line in output.splitlines():
            if "cede" in line or "10.88." in line or "10.244." in line:
                yield f"{command[0]}: {line.split(' qlen ')[0]}"


def cgroups() -> Iterator[str]:
    for parent, names, _ in os.walk("/sys/fs/cgroup"):
        if "cede" in names:
            yield f"cgroup: {parent}/cede"


def processes() -> Iterator[str]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command_line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "/cede/run/" in command_line and "deploy.local" not in command_line:
            yield f"process: {command_line[:100]}"
