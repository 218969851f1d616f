"""The nodes: each has namespaces of its own with containerd, kubelet and kube-proxy."""

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
    Paths,
    node_address,
    node_number,
    node_pods,
)
from deploy.local.shell import run_command

# The kubelet changes these machine-wide settings unless they have its values. It sees these files
# instead.
SYSCTL_SCRIPT = """while read knob value; do
echo $value >/run/${knob##*/}
mount --bind /run/${knob##*/} /proc/sys/$knob
done <<END
vm/overcommit_memory 1
kernel/panic 10
kernel/panic_on_oops 1
END
"""


def prepare(paths: Paths, number: int, authority: Authority) -> None:
    """Writes what a node has on its disk before it starts, and its credentials."""
    name = f"n{number}"
    home = paths.run / name
    for part in ("lib/kubelet", "lib/torch", "lib/shared", "log", "cni"):
        (home / part).mkdir(parents=True, exist_ok=True)
    # in place of a file system that all nodes share
    shared = paths.run / "shared"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o1777)
    (paths.run / "resolv.conf").touch()
    authority.kubeconfig(name, f"system:node:{name}", "system:nodes")
    (home / "cni" / "10-ptp.conflist").write_text(json.dumps(pod_network(number)))
    (home / "containerd.toml").write_text(store.containerd_config(home / "cni"))
    (home / "kubelet.json").write_text(json.dumps(kubelet_config(paths, name)))
    (home / "proxy.json").write_text(json.dumps(proxy_config(paths, name)))
    store.copy_store(paths, home / "lib" / "containerd")


def start(paths: Paths, name: str) -> None:
    """Powers a node on.

    It reports to the API server when its kubelet runs; pods that ended with it are Failed then.
    """
    number = node_number(name)
    home = paths.run / name
    address = node_address(number)
    if not home.is_dir():
        raise Failure(
            f"{name} is not a node of this cluster: add nodes with "
            f"`python -m deploy.local up --nodes N`"
        )
    if network_namespaces.pid_of(paths, name):
        raise Failure(
            f"{name} runs already: power it off with `python -m deploy.local fail {name}`"
        )
    outer_pid = control_plane.require_pid(paths)
    cgroups.make(name)
    pid = network_namespaces.start(paths, name, start_script(paths, name), outer_pid)
    router = ("nsenter", "-t", str(outer_pid), "-n", "ip")
    peer = ("peer", "name", "eth0", "netns", str(pid))
    run_command(*router, "link", "add", name, "master", "br0", "type", "veth", *peer)
    run_command(*router, "link", "set", name, "up")
    run_command(*router, "route", "replace", node_pods(number), "via", address)
    network_namespaces.open_gate(paths, name)


def start_script(paths: Paths, name: str) -> str:
    """What runs in the namespaces of the node; the kubelet and kube-proxy wait for containerd."""
    run = paths.run
    home = paths.run / name
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
{SYSCTL_SCRIPT}"""
    containerd = ("containerd", "--config", home / "containerd.toml", "--log-level=warn")
    text += network_namespaces.daemon_script(paths, f"{name}-containerd", *containerd)
    text += "(until [ -S /run/containerd/containerd.sock ]; do sleep 0.05; done\n"
    kubelet = (
        "kubelet",
        *("--config", home / "kubelet.json"),
        *("--kubeconfig", run / f"{name}.conf"),
        *("--hostname-override", name),
        *("--node-ip", address),
        f"--node-labels=node.kubernetes.io/instance-type={INSTANCE_TYPE}",
    )
    text += network_namespaces.daemon_script(paths, f"{name}-kubelet", *kubelet)
    kube_proxy = ("kube-proxy", "--config", home / "proxy.json")
    text += network_namespaces.daemon_script(paths, f"{name}-proxy", *kube_proxy)
    return text + "wait) &\n"


def pod_network(number: int) -> dict[str, object]:
    """Pod traffic is routed, also within a node: replies pass the rules of Services again."""
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


def kubelet_config(paths: Paths, name: str) -> dict[str, object]:
    disk = ("nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{paths.run}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{NAME}/{name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [GATE],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{paths.run}/resolv.conf",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", **dict.fromkeys(disk, "0%")},
        # renewed every 2 s: with a grace period of 12 s, a dead node is detected in 11.5 s
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "4s",
        # how soon a pod sees a changed Secret; with the default it takes a minute or more
        "syncFrequency": "2s",
        "volumePluginDir": "/var/lib/kubelet/plugins-exec",
        "maxPods": 100,
    }


def proxy_config(paths: Paths, name: str) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": name,
        "clusterCIDR": PODS,
        "clientConnection": {"kubeconfig": f"{paths.run}/proxy.conf"},
        # these settings are machine-wide, so they stay
        "conntrack": {"maxPerCore": 0, "min": 0},
        "nftables": {"minSyncPeriod": "100ms"},
    }


def prepared_nodes(paths: Paths) -> list[str]:
    """All nodes that have been prepared, whether or not they run."""
    names = [path.parent.name for path in paths.run.glob("n*/kubelet.json")]
    return sorted(names, key=node_number)


def set_link(paths: Paths, name: str, state: str) -> None:
    """Cuts (`down`) or restores (`up`) the network link of a node."""
    node_number(name)
    pid = control_plane.require_pid(paths)
    run_command("nsenter", "-t", str(pid), "-n", "ip", "link", "set", name, state)


def image_record(paths: Paths, name: str) -> Path:
    """The file that records which images the node has."""
    return paths.run / name / "images.json"


def load_images(paths: Paths, name: str, keys: dict[str, str]) -> None:
    """Loads the images that have changed into a running node; running pods keep the old ones."""
    node = ("nsenter", "-t", str(network_namespaces.require_pid(paths, name)), "-m", "-p")
    run_command(
        *node, "sh", "-c", "until [ -S /run/containerd/containerd.sock ]; do sleep 0.05; done"
    )
    for image in store.changed_images(image_record(paths, name), keys):
        load = (*node, "ctr", "-n", "k8s.io", "images", "import", store.archive(paths, image))
        try:
            run_command(*load)
        except Failure:
            # containerd may collect a layer of an old image just before the new one uses it
            run_command(*load)
    image_record(paths, name).write_text(json.dumps(keys))
