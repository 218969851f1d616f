"""The cluster's programs, compiled from the Go module proxy once: again only when a go.mod
changes."""

import hashlib
import json
import re
import shutil
import time
from pathlib import Path

from deploy.local.paths import TREE, Places
from deploy.local.shell import say, sh, stage


def version(module: str) -> str:
    """`v1.36.3`: what our go.mod asks for."""
    found = re.search(
        rf"^\s*{re.escape(module)} (v\S+)",
        (TREE / "deploy" / "local" / "go.mod").read_text(),
        re.MULTILINE,
    )
    assert found, f"go.mod names no {module}"
    return found[1]


VERSION = version("k8s.io/kubernetes")
# One set of flags for all: another -trimpath or CGO setting compiles all of Kubernetes again. The
# API server must know
# its version: Kueue does not start on one that says v0.0.0.
STAMP = "k8s.io/component-base/version.git"
LDFLAGS = f"-s -w -X {STAMP}Version={VERSION} -X {STAMP}Major=1 -X {STAMP}Minor=36"

# module folder, package, seconds it takes on two cores with nothing cached
PROGRAMS = [
    ("", "k8s.io/kubernetes/cmd/kubectl", 60),
    ("", "k8s.io/kubernetes/cmd/kube-apiserver", 110),
    ("", "k8s.io/kubernetes/cmd/kubelet", 35),
    ("", "k8s.io/kubernetes/cmd/kube-controller-manager", 30),
    ("", "k8s.io/kubernetes/cmd/kube-scheduler", 7),
    ("", "k8s.io/kubernetes/cmd/kube-proxy", 7),
    ("", "go.etcd.io/etcd/server/v3", 9),
    ("", "sigs.k8s.io/kueue/cmd/kueue", 60),
    ("", "sigs.k8s.io/kwok/cmd/kwok", 15),
    ("dns", "github.com/coredns/coredns", 110),
]
NAMES = {"go.etcd.io/etcd/server/v3": "etcd"}
# its own, less the one that ends pods of Jobs at once
KWOK_STAGES = [
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
]


def key() -> str:
    parts = [
        TREE / "deploy" / "local" / folder / file
        for folder in ("", "dns")
        for file in ("go.mod", "go.sum")
    ]
    return hashlib.sha256(
        b"".join(part.read_bytes() for part in parts) + f"{LDFLAGS} {PROGRAMS}".encode()
    ).hexdigest()[:16]


def built(places: Places) -> bool:
    known = places.bin / "key"
    return known.exists() and known.read_text() == key()


def build(places: Places) -> None:
    """Every program is in places.bin, and what their modules bring beside them in places.share."""
    if built(places):
        return
    places.bin.mkdir(parents=True, exist_ok=True)
    (places.bin / "key").unlink(missing_ok=True)
    for folder in ("", "dns"):
        with stage(f"Go modules of deploy/local/{folder} fetched"):
            go(folder, "mod", "download")
    for done, (folder, package, _) in enumerate(PROGRAMS):
        name = NAMES.get(package, package.rpartition("/")[2])
        began = time.monotonic()
        go(folder, "build", "-ldflags", LDFLAGS, "-o", str(places.bin / name), package)
        left = sum(seconds for _, _, seconds in PROGRAMS[done + 1 :])
        rest = (
            f"{len(PROGRAMS) - done - 1} programs left, at most {left / 60:.0f} min"
            if left
            else "all programs are built"
        )
        say(f"compiled {name} ({time.monotonic() - began:.0f} s); {rest}")
    bring_files(places)
    (places.bin / "key").write_text(key())


def bring_files(places: Places) -> None:
    shutil.rmtree(places.share, ignore_errors=True)
    places.share.mkdir(parents=True)
    sh(
        "cp",
        "-r",
        "--no-preserve=mode",
        folder_of("sigs.k8s.io/kueue") / "config",
        places.share / "kueue",
    )
    stages = folder_of("sigs.k8s.io/kwok") / "kustomize" / "stage"
    (places.share / "kwok.yaml").write_text(
        "\n---\n".join((stages / file).read_text() for file in KWOK_STAGES)
    )


def folder_of(module: str) -> Path:
    return Path(json.loads(go("", "list", "-m", "-json", module))["Dir"])


def go(folder: str, *argv: str) -> str:
    return sh("env", "CGO_ENABLED=0", "go", *argv, cwd=TREE / "deploy" / "local" / folder)
