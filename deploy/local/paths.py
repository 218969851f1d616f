"""The folders of the local cluster, and the addresses of its network."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from deploy.local.cells import DEFAULT, Cell

TREE = Path(__file__).resolve().parents[2]
# of the cgroup, and of this machine's network interface to the cluster
NAME = "cede"

# the bridge of the control plane: API server, DNS and the router of every node
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
    """What failed and what to do, in one line for the user."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders outside the repository: `cache` stays, `cache/run` lives with the cluster."""

    cache: Path
    # a bundle of this machine's certificate authorities, for builds that download
    authorities: Path | None = None
    # what the cluster is made of
    cell: Cell = DEFAULT

    @classmethod
    def of_user(cls, cell: Cell = DEFAULT) -> "Paths":
        """Of the user's own cache, and with the authorities that pip trusts."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        authorities = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
        return cls(home / "cede", Path(authorities) if authorities else None, cell)

    @property
    def run(self) -> Path:
        # on the file system of the image store, because nodes share its layers by hard links
        return self.cache / "run"

    @property
    def log(self) -> Path:
        return self.run / "log"

    @property
    def bin(self) -> Path:
        return self.cache / "bin"

    @property
    def cell_bin(self) -> Path:
        """The programs that the cell has of its own, in place of those in `bin`."""
        return self.cache / self.cell.modules if self.cell.modules else self.bin

    @property
    def share(self) -> Path:
        """Files of Go modules other than programs: Kueue's manifests, kwok's stages."""
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
    """1 for n1. Raises Failure for other names."""
    if not (match := re.fullmatch(r"n([1-9]\d?)", name)):
        raise Failure(f"{name} is not a node of this cluster: name n1, n2, ...")
    return int(match[1])


def node_address(number: int) -> str:
    return f"10.88.0.{10 + number}"


def node_pods(number: int) -> str:
    return f"10.244.{number}.0/24"
