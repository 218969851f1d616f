"""Where everything lies, and the numbers of the local cluster's network."""

import re
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
# names the cgroup and this machine's end of the cable
NAME = "cede"

# the room's bridge: API server, DNS and every node's router
GATE = "10.88.0.1"
# this machine, as the cluster sees it
HOST = "10.88.0.254"
# the `kubernetes` Service
API = "10.96.0.1"
PODS = "10.244.0.0/16"
SERVICES = "10.96.0.0/16"

GPUS = 4
INSTANCE_TYPE = "local-4gpu"


class Failure(Exception):
    """What went wrong and what to do, in one line for a person."""


@dataclass(frozen=True, slots=True)
class Places:
    """The folders outside the tree: `cache` outlives the cluster, `cache/run` is the cluster."""

    cache: Path
    # this machine's own certificate authorities, for builds that fetch
    authorities: Path | None = None

    @property
    def run(self) -> Path:
        # beside the image store: nodes share its layers by hard links
        return self.cache / "run"

    @property
    def log(self) -> Path:
        return self.run / "log"

    @property
    def bin(self) -> Path:
        return self.cache / "bin"

    @property
    def share(self) -> Path:
        """Files that Go modules bring beside their programs: Kueue's manifests, kwok's stages."""
        return self.bin / "share"

    @property
    def images(self) -> Path:
        return self.cache / "images"

    @property
    def kubeconfig(self) -> Path:
        return self.run / "admin.conf"

    @property
    def kubectl(self) -> Path:
        return self.bin / "kubectl"


def node_number(name: str) -> int:
    """1 for n1. Raises Failure for what is no node's name."""
    if not (found := re.fullmatch(r"n([1-9]\d?)", name)):
        raise Failure(f"{name} is no node of this cluster: they are called n1, n2, ...")
    return int(found[1])


def node_address(number: int) -> str:
    return f"10.88.0.{10 + number}"


def node_pods(number: int) -> str:
    return f"10.244.{number}.0/24"
