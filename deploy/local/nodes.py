"""Nodes: each a room inside the cluster's room with its own containerd, kubelet and kube-proxy."""

import json
import sysconfig
from pathlib import Path

from deploy.local import cgroups, control_plane, network_namespaces, store
from deploy.local.certificates import Authority
from deploy.local.paths import (
    GATE,
    INSTANCE_TYPE,
    NAME,
    PODS,
    Failure,
    Places,
    node_address,
    node_number,
    node_pods,
)
from deploy.local.shell import sh

# kubelet writes these machine-wide settings unless they already read as it wants: show it files
# that do.
SETTINGS = """while read knob value; do echo $value >/run/${knob##*/}; mount --bind /run/${knob##*/} /proc/sys/$knob; done <<END
vm/overcommit_memory 1
kernel/panic 10
kernel/panic_on_oops 1
END
"""


def prepare(places: Places, number: int, authority: Authority) -> None:
    """All that a node has on its disk before it starts, and its place in the cluster."""
    name = f"n{number}"
    home = places.run / name
    for part in ("lib/kubelet", "lib/torch", "lib/shared", "log", "cni"):
        (home / part).mkdir(parents=True, exist_ok=True)
    # stands for the shared filesystem that real nodes have
    shared = places.run / "shared"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o1777)
    (places.run / "resolv.conf").touch()
    authority.kubeconfig(name, f"system:node:{name}", "system:nodes")
    (home / "cni" / "10-ptp.conflist").write_text(json.dumps(pod_network(number)))
    (home / "containerd.toml").write_text(store.containerd_config(home / "cni"))
    (home / "kubelet.json").write_text(json.dumps(kubelet(places, name)))
    (home / "proxy.json").write_text(json.dumps(proxy(places, name)))
    store.copy_store(places, home / "lib" / "containerd")


def start(places: Places, name: str) -> None:
    """Power on. The node reports itself when its kubelet is up; pods that died with it are marked
    Failed then."""
    number = node_number(name)
    home = places.run / name
    address = node_address(node_number(name))
    if not home.is_dir():
        raise Failure(
            f"{name} is no node of this cluster: `python -m deploy.local up --nodes N` adds nodes"
        )
    if network_namespaces.pid_of(places, name):
        raise Failure(f"{name} runs already")
    inside = network_namespaces.the(places, control_plane.ROOM)
    cgroups.make(name)
    pid = network_namespaces.start(places, name, script(places, name), inside)
    router = ("nsenter", "-t", str(inside), "-n", "ip")
    sh(
        *router,
        "link",
        "add",
        name,
        "master",
        "br0",
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        str(pid),
    )
    sh(*router, "link", "set", name, "up")
    sh(*router, "route", "replace", node_pods(number), "via", address)
    network_namespaces.open_gate(places, name)


def script(places: Places, name: str) -> str:
    run = places.run
    home = places.run / name
    address = node_address(node_number(name))
    packages = sysconfig.get_path("purelib")
    text = f"""sysctl -qw net.ipv4.ip_forward=1
ip addr add {address}/24 dev eth0
ip link set eth0 up
ip route add default via {GATE}
mount --bind {packages} {home}/lib/torch
mount -o remount,bind,ro {home}/lib/torch
mount --bind {run}/shared {home}/lib/shared
mount --rbind {home}/lib /var/lib
mount --bind {home}/log /var/log
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/netns
{SETTINGS}"""
    text += network_namespaces.daemon(
        places,
        f"{name}-containerd",
        "containerd",
        "--config",
        home / "containerd.toml",
        "--log-level=warn",
    )
    text += "(until [ -S /run/containerd/containerd.sock ]; do sleep 0.05; done\n"
    flags = (
        "--config",
        home / "kubelet.json",
        "--kubeconfig",
        run / f"{name}.conf",
        "--hostname-override",
        name,
    )
    labels = f"--node-labels=node.kubernetes.io/instance-type={INSTANCE_TYPE}"
    text += network_namespaces.daemon(
        places, f"{name}-kubelet", "kubelet", *flags, "--node-ip", address, labels
    )
    text += network_namespaces.daemon(
        places, f"{name}-proxy", "kube-proxy", "--config", home / "proxy.json"
    )
    return text + "wait) &\n"


def pod_network(number: int) -> dict[str, object]:
    """All pod traffic is routed, also on one node, so that what a Service rewrites is undone on the
    way back."""
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": node_pods(number)}]],
    }
    return {
        "cniVersion": "1.0.0",
        "name": NAME,
        "plugins": [{"type": "ptp", "mtu": 1500, "ipam": ipam}],
    }


def kubelet(places: Places, name: str) -> dict[str, object]:
    disk = ("nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{places.run}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{NAME}/{name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [GATE],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{places.run}/resolv.conf",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", **dict.fromkeys(disk, "0%")},
        # renewed every 2 s: with the 12 s of grace a dead node is seen in 11.5 s
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "4s",
        # a Secret that is filled after its pod started is seen then; by default after a minute or
        # more
        "syncFrequency": "2s",
        "volumePluginDir": "/var/lib/kubelet/plugins-exec",
        "maxPods": 100,
    }


def proxy(places: Places, name: str) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": name,
        "clusterCIDR": PODS,
        "clientConnection": {"kubeconfig": f"{places.run}/proxy.conf"},
        # machine-wide settings: not ours to write
        "conntrack": {"maxPerCore": 0, "min": 0},
        "nftables": {"minSyncPeriod": "100ms"},
    }


def known(places: Places) -> list[str]:
    """The nodes that were ever prepared, running or not."""
    found = [path.parent.name for path in places.run.glob("n*/kubelet.json")]
    return sorted(found, key=node_number)


def cable(places: Places, name: str, state: str) -> None:
    """Cut (`down`) or heal (`up`) the node's only link."""
    node_number(name)
    sh(
        "nsenter",
        "-t",
        str(network_namespaces.the(places, control_plane.ROOM)),
        "-n",
        "ip",
        "link",
        "set",
        name,
        state,
    )


def images_file(places: Places, name: str) -> Path:
    """Notes which images the node holds."""
    return places.run / name / "images.json"


def load(places: Places, name: str, keys: dict[str, str]) -> None:
    """The running node holds the images of `keys`; what runs goes on with the old ones."""
    node = ("nsenter", "-t", str(network_namespaces.the(places, name)), "-m", "-p")
    sh(*node, "sh", "-c", "until [ -S /run/containerd/containerd.sock ]; do sleep 0.05; done")
    for image in store.changed(images_file(places, name), keys):
        sh(*node, "ctr", "-n", "k8s.io", "images", "import", store.archive(places, image))
    images_file(places, name).write_text(json.dumps(keys))
