"""An older version of Cede on the local cluster: a commit of this repository, because nothing has
been released yet. Its components, CRDs, runtime and examples are those of the commit; the cluster
and Kueue are the present ones."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cede.api import names
from deploy.local import cluster as local_cluster
from deploy.local import images, kube, network_namespaces, nodes, store
from deploy.local.images import Image
from deploy.local.paths import Paths
from tests.harness.local_cluster import Cluster, deploy_local
from tests.paths import TREE

VARIABLE = "CEDE_UPGRADE_FROM"
"""Names another commit, or a branch, or what else git knows it by."""
COMMIT = "16ef5ece7f527676456e19fdb07e9b7bb249ce70"
"""Of 2026-11-23. Its agents elect no coordinator, its keys do not end, its CRDs lack many fields of
the present ones, and most of the present admission policies are not there."""
KUSTOMIZATION = Path("deploy/overlays/local")
TARGETS = {images.CEDE: "controllers", images.TRAINING: "training"}
"""The images that its manifests and examples name, and their stages in its Dockerfile."""


def check_out(folder: Path) -> str:
    """Writes the files of the older commit into the folder. Returns the hash of the commit. Skips
    the test where this repository does not have it."""
    name = os.environ.get(VARIABLE) or COMMIT
    resolved = _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if resolved.returncode:
        pytest.skip(
            f"this clone has no commit {name}, to upgrade from: `git fetch --unshallow` fetches "
            f"all of them, and {VARIABLE} names another one"
        )
    commit = resolved.stdout.strip()
    archive = folder / "older.tar"
    written = _git("archive", "--output", str(archive), commit)
    assert written.returncode == 0, written.stderr
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
    archive.unlink()
    dockerfile = folder / images.DOCKERFILE
    dockerfile.write_text(from_local_base(dockerfile.read_text()))
    return commit


def from_local_base(dockerfile: str) -> str:
    """Until 2026-11-27 the base was named by a tag of a registry, and no image is pulled here."""
    return re.sub(r"^FROM python:\S+", f"FROM {images.BASE}", dockerfile, flags=re.MULTILINE)


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(TREE), *words]
    return subprocess.run(command, text=True, capture_output=True, check=False)


@dataclass(frozen=True)
class OlderCede:
    cluster: Cluster
    paths: Paths
    # its files
    tree: Path
    commit: str

    def image(self, present: str) -> str:
        """The older one of a present image, such as `images.TRAINING`."""
        return f"{present.rpartition(':')[0]}:{self.commit[:8]}"

    def load_images(self) -> None:
        """Every node has the images of the older version."""
        with local_cluster.exclusive(self.paths):
            images.build_base(self.paths)
            keys = {}
            for present, target in TARGETS.items():
                name = self.image(present)
                images.build(self.paths, Image(name, target), self.tree)
                keys[name] = self.commit
            for node in nodes.prepared_nodes(self.paths):
                if network_namespaces.pid_of(self.paths, node):
                    known = store.recorded_keys(nodes.image_record(self.paths, node))
                    nodes.load_images(self.paths, node, known | keys)
            for name in keys:
                store.archive(self.paths, name).unlink()

    def apply(self) -> None:
        """The components of the older version run, and are available."""
        text = self.cluster.kubectl("kustomize", str(self.tree / KUSTOMIZATION))
        assert images.CEDE in text
        manifests = text.replace(images.CEDE, self.image(images.CEDE))
        self.cluster.until(
            lambda: self.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=manifests),
            "the API server to accept the older manifests",
            60,
        )
        kube.wait_available(self.paths, names.SYSTEM_NAMESPACE, 180)


@contextmanager
def installed(cluster: Cluster, folder: Path) -> Iterator[OlderCede]:
    """Inside, the older version is installed in place of the present one. Afterwards that is there
    again, without a team."""
    commit = check_out(folder)
    paths = Paths.of_user()
    older = OlderCede(cluster, paths, folder, commit)
    older.load_images()
    try:
        cluster.kubectl("delete", "-k", str(TREE / KUSTOMIZATION), "--timeout=120s")
        older.apply()
        yield older
    finally:
        # so that `up` applies the manifests
        (paths.run / "cede.key").unlink(missing_ok=True)
        deploy_local("up")
        cluster.without_teams()
