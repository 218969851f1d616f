"""The whole cluster: start, stop, status, and what disturbs it."""

import fcntl
import json
import shutil
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from deploy.local import (
    binaries,
    cgroups,
    control_plane,
    images,
    kube,
    network_namespaces,
    nodes,
    requirements,
    store,
)
from deploy.local.cells import Cell
from deploy.local.certificates import Authority
from deploy.local.paths import GPUS, Failure, Paths, node_number
from deploy.local.shell import report_progress, stage, wait_until

ACCELERATOR = "nvidia.com/gpu"


@contextmanager
def exclusive(paths: Paths) -> Iterator[None]:
    """Holds a lock, so that only one process changes the cluster at a time; says if it waits."""
    paths.cache.mkdir(parents=True, exist_ok=True)
    with open(paths.cache / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report_progress(f"waiting for another process, which has locked {lock.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def running(paths: Paths) -> bool:
    return (
        network_namespaces.pid_of(paths, network_namespaces.CONTROL_PLANE) is not None
        and fingerprint_file(paths).exists()
    )


def fingerprint_file(paths: Paths) -> Path:
    """The file with the fingerprint of the running cluster."""
    return paths.run / "made-of"


def fingerprint(cell: Cell) -> str:
    """The programs, their feature gates, and the Python environment that nodes mount: all need a
    new cluster."""
    environment = sysconfig.get_path("purelib")
    # an environment that was created again at the same path has another inode
    number = str(Path(environment).stat().st_ino)
    parts = [binaries.key(), binaries.cell_key(cell), *cell.gates, environment, number]
    return " ".join(filter(None, parts))


def up(paths: Paths, count: int, cede: bool = True) -> None:
    """`count` nodes are Ready afterwards, and Kueue is available; with `cede`, Cede too.

    Whatever runs already and has not changed is kept.
    """
    binaries.build(paths)
    keys = images.update(paths)
    if running(paths) and fingerprint_file(paths).read_text() != fingerprint(paths.cell):
        down(paths)
    if not running(paths):
        start(paths)
    start_nodes(paths, count)
    load_images(paths, keys)
    kube.apply_kueue(paths)
    if cede:
        kube.apply_cede(paths, keys)


def start(paths: Paths) -> None:
    """Stops any earlier cluster, and starts a control plane."""
    down(paths)
    if shortage := requirements.inotify_shortage():
        raise Failure(shortage)
    paths.log.mkdir(parents=True)
    with stage("control plane ready"):
        control_plane.start(paths)
    fingerprint_file(paths).write_text(fingerprint(paths.cell))


def start_nodes(paths: Paths, count: int) -> None:
    """At least `count` nodes are Ready afterwards, with their accelerators."""
    requested = {f"n{number}" for number in range(1, count + 1)}
    wanted = sorted(requested | set(nodes.prepared_nodes(paths)), key=node_number)
    missing = [name for name in wanted if not network_namespaces.pid_of(paths, name)]
    for name in wanted:
        if name not in missing:
            nodes.set_link(paths, name, "up")
    if not missing:
        return
    with stage(f"{', '.join(missing)} ready"):
        authority = Authority(paths.run)
        for name in missing:
            nodes.prepare(paths, node_number(name), authority)
            nodes.start(paths, name)
        for name in missing:
            log = f"{paths.log}/{name}-kubelet.log"
            wait_until(partial(ready, paths, name), f"{name} to be Ready (see {log})", 120)
        offer_accelerators(paths, missing)


def offer_accelerators(paths: Paths, names: list[str]) -> None:
    """Adds accelerators to the capacity of nodes.

    A kubelet keeps the capacity of resources that it does not know, and enforces it.
    """
    patch = json.dumps({"status": {"capacity": {ACCELERATOR: str(GPUS)}}})
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: set_accelerators(paths, name, patch), names))


def set_accelerators(paths: Paths, name: str, patch: str) -> None:
    kube.kubectl(paths, "patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
    wait_until(
        lambda: offered_accelerators(paths, name) == str(GPUS),
        f"{name} to offer {GPUS} {ACCELERATOR}",
        30,
    )


def offered_accelerators(paths: Paths, name: str) -> str:
    path = r"jsonpath={.status.allocatable.nvidia\.com/gpu}"
    return kube.kubectl(paths, "get", "node", name, "-o", path, check=False)


def ready(paths: Paths, name: str) -> bool:
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    return kube.kubectl(paths, "get", "node", name, "-o", path, check=False) == "True"


def load_images(paths: Paths, keys: dict[str, str]) -> None:
    """Running nodes have the images of `keys` afterwards."""
    names = [
        name
        for name in nodes.prepared_nodes(paths)
        if network_namespaces.pid_of(paths, name)
        and store.changed_images(nodes.image_record(paths, name), keys)
    ]
    if not names:
        return
    with stage(f"images loaded into {', '.join(names)}"), ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: nodes.load_images(paths, name, keys), names))


def down(paths: Paths) -> None:
    """Removes every process, mount, interface, route, rule and cgroup of the cluster.

    The cache of programs and images stays.
    """
    network_namespaces.stop(paths, network_namespaces.CONTROL_PLANE)
    network_namespaces.stop_strays(paths)
    control_plane.disconnect_host()
    cgroups.remove()
    if paths.run.exists():
        shutil.rmtree(paths.run)


def fail(paths: Paths, name: str) -> None:
    """Powers a node off: everything on it ends at once, without a shutdown."""
    known = nodes.prepared_nodes(paths)
    if name not in known:
        raise Failure(
            f"{name} is not a node of this cluster: name one of {', '.join(known) or 'none'}"
        )
    if not network_namespaces.stop(paths, name):
        raise Failure(
            f"{name} is off already: power it on with `python -m deploy.local join {name}`"
        )


def add_fake_nodes(paths: Paths, count: int, gpus: int, instance_type: str) -> None:
    """Adds `count` nodes on which kwok simulates running pods."""
    first = len(kube.items(paths, "nodes", "-l", control_plane.FAKE)) + 1
    fake_nodes = [
        fake_node(f"fake-{number}", gpus, instance_type) for number in range(first, first + count)
    ]
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": fake_nodes})
    kube.kubectl(paths, "create", "-f", "-", stdin=manifest)


def fake_node(name: str, gpus: int, instance_type: str) -> dict[str, Any]:
    capacity = {"cpu": "192", "memory": "2Ti", "pods": "200", ACCELERATOR: str(gpus)}
    labels = {
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": instance_type,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [{"key": "cede.dev/fake", "value": "true", "effect": "NoSchedule"}]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def status(paths: Paths) -> dict[str, Any]:
    """What runs, as a JSON value."""
    if not running(paths):
        return {"running": False}
    names = nodes.prepared_nodes(paths)
    return {
        "running": True,
        "kubeconfig": str(paths.kubeconfig),
        "kubectl": str(paths.kubectl),
        "nodes": {name: node_status(paths, name) for name in names},
        "fakeNodes": len(kube.items(paths, "nodes", "-l", control_plane.FAKE)),
        kube.KUEUE_NAMESPACE: kube.available_replicas(paths, kube.KUEUE_NAMESPACE),
        kube.CEDE_NAMESPACE: kube.available_replicas(paths, kube.CEDE_NAMESPACE),
        "images": {name: store.recorded_keys(nodes.image_record(paths, name)) for name in names},
    }


def node_status(paths: Paths, name: str) -> dict[str, Any]:
    return {
        "on": network_namespaces.pid_of(paths, name) is not None,
        "ready": ready(paths, name),
        "gpus": offered_accelerators(paths, name),
    }
