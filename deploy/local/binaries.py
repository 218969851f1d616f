"""Compiles the cluster's programs from the Go module proxy, again only when a go.mod changes."""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.local.cells import Cell
from deploy.local.paths import TREE, Paths
from deploy.local.shell import report_progress, run_command, stage

MODULES = TREE / "deploy" / "local"
KUBERNETES = "k8s.io/kubernetes"


def version(module: str, folder: str = "") -> str:
    """The version of a module in our go.mod, or in that of a cell, such as `v1.36.3`."""
    match = re.search(
        rf"^\s*{re.escape(module)} (v\S+)",
        (MODULES / folder / "go.mod").read_text(),
        re.MULTILINE,
    )
    assert match, f"go.mod names no {module}"
    return match[1]


# All programs have the same flags: with different ones, Go compiles all of Kubernetes twice. The
# API server must have its version: Kueue does not start with v0.0.0.
STAMP = "k8s.io/component-base/version.git"


def link_flags(folder: str = "") -> str:
    kubernetes = version(KUBERNETES, folder)
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    return f"-s -w -X {STAMP}Version={kubernetes} -X {STAMP}Major={major} -X {STAMP}Minor={minor}"


LDFLAGS = link_flags()

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
    return _key_of(SOURCES, f"{LDFLAGS} {PROGRAMS}")


def cell_key(cell: Cell) -> str:
    """Of the programs that the cell has of its own; empty if it has none."""
    if not cell.modules:
        return ""
    files = [f"{cell.modules}/{file}" for file in ("go.mod", "go.sum")]
    return _key_of(files, link_flags(cell.modules))


def cell_programs(cell: Cell) -> list[str]:
    """The packages of Kubernetes that the cell has of its own, which has a folder of modules."""
    text = (MODULES / cell.modules / "go.mod").read_text()
    return re.findall(rf"^\t({KUBERNETES}/cmd/\S+)$", text, re.MULTILINE)


def _key_of(files: Sequence[str], flags: str) -> str:
    content = b"".join((MODULES / file).read_bytes() for file in files)
    return hashlib.sha256(content + flags.encode()).hexdigest()[:16]


def up_to_date(paths: Paths) -> bool:
    return _has_key(paths.bin, key()) and (
        not paths.cell.modules or _has_key(paths.cell_bin, cell_key(paths.cell))
    )


def _has_key(folder: Path, expected: str) -> bool:
    record = folder / "key"
    return record.exists() and record.read_text() == expected


def build(paths: Paths) -> None:
    """Puts every program into paths.bin, and other files of their modules into paths.share; those
    that the cell has of its own, into paths.cell_bin."""
    if not _has_key(paths.bin, key()):
        _build_default(paths)
    if not up_to_date(paths):
        _build_cell(paths)


def _build_cell(paths: Paths) -> None:
    folder = paths.cell.modules
    paths.cell_bin.mkdir(parents=True, exist_ok=True)
    (paths.cell_bin / "key").unlink(missing_ok=True)
    for package in cell_programs(paths.cell):
        program = paths.cell_bin / package.rpartition("/")[2]
        with stage(f"compiled {program.name} {version(KUBERNETES, folder)}"):
            run_go(folder, "build", "-ldflags", link_flags(folder), "-o", str(program), package)
    (paths.cell_bin / "key").write_text(cell_key(paths.cell))


def _build_default(paths: Paths) -> None:
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
    return run_command("env", "CGO_ENABLED=0", "go", *argv, cwd=MODULES / folder)
