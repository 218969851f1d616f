"""The cluster as a whole: up, down, and what is in between."""

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
    store,
)
from deploy.local.certificates import Authority
from deploy.local.paths import GPUS, Failure, Places, node_number
from deploy.local.shell import stage, until

ACCELERATOR = "nvidia.com/gpu"


@contextmanager
def alone(places: Places) -> Iterator[None]:
    """One change of the cluster at a time, whoever makes it."""
    places.cache.mkdir(parents=True, exist_ok=True)
    with open(places.cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def running(places: Places) -> bool:
    return (
        network_namespaces.pid_of(places, control_plane.ROOM) is not None
        and (places.run / "made-of").exists()
    )


def made_of() -> str:
    """What no running cluster can change: its programs, and the Python environment that its nodes
    mount."""
    environment = sysconfig.get_path("purelib")
    # one made anew at the same path is another
    return f"{binaries.key()} {environment} {Path(environment).stat().st_ino}"


def up(places: Places, count: int, cede: bool = True) -> None:
    """`count` nodes are Ready, Kueue is available, and Cede too if wanted. What runs already and
    has not changed is kept."""
    binaries.build(places)
    keys = images.prepare(places)
    if running(places) and (places.run / "made-of").read_text() != made_of():
        down(places)
    if not running(places):
        start(places)
    start_nodes(places, count)
    load_images(places, keys)
    kube.apply_kueue(places)
    if cede:
        kube.apply_cede(places, keys)


def start(places: Places) -> None:
    """The control plane answers, and nothing is left of a cluster before."""
    down(places)
    places.log.mkdir(parents=True)
    with stage("control plane ready"):
        control_plane.start(places)
    (places.run / "made-of").write_text(made_of())


def start_nodes(places: Places, count: int) -> None:
    """At least `count` nodes are Ready and offer their accelerators."""
    wanted = sorted(
        {f"n{number}" for number in range(1, count + 1)} | set(nodes.known(places)), key=node_number
    )
    missing = [name for name in wanted if not network_namespaces.pid_of(places, name)]
    for name in wanted:
        if name not in missing:
            nodes.cable(places, name, "up")
    if not missing:
        return
    with stage(f"{', '.join(missing)} ready"):
        authority = Authority(places.run)
        for name in missing:
            nodes.prepare(places, node_number(name), authority)
            nodes.start(places, name)
        for name in missing:
            log = f"{places.log}/{name}-kubelet.log"
            until(partial(ready, places, name), f"{name} to be Ready (see {log})", 120)
        offer(places, missing)


def offer(places: Places, names: list[str]) -> None:
    """The nodes have accelerators: a kubelet keeps capacity it does not know, and counts it at
    admission."""
    patch = json.dumps({"status": {"capacity": {ACCELERATOR: str(GPUS)}}})
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: give(places, name, patch), names))


def give(places: Places, name: str, patch: str) -> None:
    kube.kubectl(places, "patch", "node", name, "--subresource=status", "--type=merge", "-p", patch)
    until(lambda: offered(places, name) == str(GPUS), f"{name} to offer {GPUS} {ACCELERATOR}", 30)


def offered(places: Places, name: str) -> str:
    return kube.kubectl(
        places,
        "get",
        "node",
        name,
        "-o",
        r"jsonpath={.status.allocatable.nvidia\.com/gpu}",
        check=False,
    )


def ready(places: Places, name: str) -> bool:
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    return kube.kubectl(places, "get", "node", name, "-o", path, check=False) == "True"


def load_images(places: Places, keys: dict[str, str]) -> None:
    """Running nodes hold the images of `keys`."""
    names = [
        name
        for name in nodes.known(places)
        if network_namespaces.pid_of(places, name)
        and store.changed(nodes.images_file(places, name), keys)
    ]
    if not names:
        return
    with stage(f"loaded what changed into {', '.join(names)}"), ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: nodes.load(places, name, keys), names))


def down(places: Places) -> None:
    """No process, mount, interface, route, rule or cgroup of the cluster is left; programs and
    images are kept."""
    network_namespaces.end(places, control_plane.ROOM)
    network_namespaces.end_strays(places)
    control_plane.unplug()
    cgroups.remove()
    if places.run.exists():
        shutil.rmtree(places.run)


def fail(places: Places, name: str) -> None:
    """Power off a node: everything on it ends at once, and nobody is told."""
    if name not in nodes.known(places):
        raise Failure(
            f"{name} is no node of this cluster: it has {', '.join(nodes.known(places)) or 'none'}"
        )
    if not network_namespaces.end(places, name):
        raise Failure(f"{name} is off already")


def add_fake_nodes(places: Places, count: int, gpus: int, instance_type: str) -> None:
    """So many nodes more that only pretend: kwok says their pods run."""
    first = len(kube.items(places, "nodes", "-l", control_plane.FAKE)) + 1
    made = [
        fake_node(f"fake-{number}", gpus, instance_type) for number in range(first, first + count)
    ]
    kube.kubectl(
        places,
        "create",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": made}),
    )


def fake_node(name: str, gpus: int, instance_type: str) -> dict[str, Any]:
    room = {"cpu": "192", "memory": "2Ti", "pods": "200", ACCELERATOR: str(gpus)}
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
        "status": {"capacity": room, "allocatable": room},
    }


def status(places: Places) -> dict[str, Any]:
    """What runs, as one value."""
    if not running(places):
        return {"running": False}
    found: dict[str, Any] = {
        "running": True,
        "kubeconfig": str(places.kubeconfig),
        "kubectl": str(places.kubectl),
    }
    found["nodes"] = {
        name: {
            "on": network_namespaces.pid_of(places, name) is not None,
            "ready": ready(places, name),
            "gpus": offered(places, name),
        }
        for name in nodes.known(places)
    }
    found["fakeNodes"] = len(kube.items(places, "nodes", "-l", control_plane.FAKE))
    for namespace in (kube.KUEUE, kube.SYSTEM):
        found[namespace] = {
            item["metadata"][
                "name"
            ]: f"{item['status'].get('availableReplicas', 0)}/{item['spec']['replicas']}"
            for item in kube.items(places, "deployments", "-n", namespace)
        }
    found["images"] = {
        name: store.held(nodes.images_file(places, name)) for name in nodes.known(places)
    }
    return found
