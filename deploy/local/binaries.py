"""Compiles the cluster's programs from the Go module proxy, again only when a go.mod changes."""

import hashlib
import json
import re
import shutil
import time
from pathlib import Path

from deploy.local.paths import TREE, Paths
from deploy.local.shell import report_progress, run_command, stage


def version(module: str) -> str:
    """The version of a module in our go.mod, such as `v1.36.3`."""
    match = re.search(
        rf"^\s*{re.escape(module)} (v\S+)",
        (TREE / "deploy" / "local" / "go.mod").read_text(),
        re.MULTILINE,
    )
    assert match, f"go.mod names no {module}"
    return match[1]


VERSION = version("k8s.io/kubernetes")
# All programs have the same flags: with different ones, Go compiles all of Kubernetes twice. The
# API server must have its version: Kueue does not start with v0.0.0.
STAMP = "k8s.io/component-base/version.git"
LDFLAGS = f"-s -w -X {STAMP}Version={VERSION} -X {STAMP}Major=1 -X {STAMP}Minor=36"

# package, seconds to compile on two cores without a cache
PROGRAMS = [
    ("k8s.io/kubernetes/cmd/kubectl", 60),
    ("k8s.io/kubernetes/cmd/kube-apiserver", 110),
    ("k8s.io/kubernetes/cmd/kubelet", 35),
    ("k8s.io/kubernetes/cmd/kube-controller-manager", 30),
    ("k8s.io/kubernetes/cmd/kube-scheduler", 7),
    ("k8s.io/kubernetes/cmd/kube-proxy", 7),
    ("go.etcd.io/etcd/server/v3", 9),
    ("sigs.k8s.io/kueue/cmd/kueue", 60),
    ("sigs.k8s.io/kwok/cmd/kwok", 15),
    ("./coredns", 15),
]
NAMES = {"go.etcd.io/etcd/server/v3": "etcd"}
SOURCES = ("go.mod", "go.sum", "coredns/main.go")
# all stages of kwok but the one that completes the pods of Jobs at once
KWOK_STAGES = [
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-delete.yaml",
]


def key() -> str:
    parts = [TREE / "deploy" / "local" / file for file in SOURCES]
    return hashlib.sha256(
        b"".join(part.read_bytes() for part in parts) + f"{LDFLAGS} {PROGRAMS}".encode()
    ).hexdigest()[:16]


def up_to_date(paths: Paths) -> bool:
    record = paths.bin / "key"
    return record.exists() and record.read_text() == key()


def build(paths: Paths) -> None:
    """Puts every program into paths.bin, and other files of their modules into paths.share."""
    if up_to_date(paths):
        return
    paths.bin.mkdir(parents=True, exist_ok=True)
    (paths.bin / "key").unlink(missing_ok=True)
    with stage("Go modules of deploy/local fetched"):
        run_go("", "mod", "download")
    for done, (package, _) in enumerate(PROGRAMS):
        name = NAMES.get(package, package.rpartition("/")[2])
        started = time.monotonic()
        run_go("", "build", "-ldflags", LDFLAGS, "-o", str(paths.bin / name), package)
        remaining = PROGRAMS[done + 1 :]
        minutes = sum(seconds for _, seconds in remaining) / 60
        outlook = f"{len(remaining)} programs left, at most {minutes:.0f} min"
        report_progress(f"compiled {name} ({time.monotonic() - started:.0f} s); {outlook}")
    copy_module_files(paths)
    (paths.bin / "key").write_text(key())


def copy_module_files(paths: Paths) -> None:
    shutil.rmtree(paths.share, ignore_errors=True)
    paths.share.mkdir(parents=True)
    run_command(
        "cp",
        "-r",
        "--no-preserve=mode",
        module_folder("sigs.k8s.io/kueue") / "config",
        paths.share / "kueue",
    )
    stages = module_folder("sigs.k8s.io/kwok") / "kustomize" / "stage"
    (paths.share / "kwok.yaml").write_text(
        "\n---\n".join((stages / file).read_text() for file in KWOK_STAGES)
    )


def module_folder(module: str) -> Path:
    return Path(json.loads(run_go("", "list", "-m", "-json", module))["Dir"])


def run_go(folder: str, *argv: str) -> str:
    return run_command("env", "CGO_ENABLED=0", "go", *argv, cwd=TREE / "deploy" / "local" / folder)
