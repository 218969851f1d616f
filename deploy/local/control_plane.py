"""The control plane: etcd, API server, controllers, DNS, kwok, and the bridge to the nodes.

It runs in namespaces of its own, and the namespaces of the nodes are inside them.
"""

import json
import ssl
import urllib.request
from pathlib import Path

from deploy.local import network_namespaces
from deploy.local.certificates import Authority, new_key, public_half
from deploy.local.paths import API, GATE, HOST, NAME, PODS, SERVICES, Failure, Paths
from deploy.local.shell import run_command, wait_until

# kwok manages the nodes with this label only
FAKE = "type=kwok"

# Without a MAC address of its own, the bridge has the lowest of its ports, which changes with the
# nodes.
NETWORK_SCRIPT = f"""sysctl -qw net.ipv4.ip_forward=1
sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.default.send_redirects=0
ip link add br0 address 02:ce:de:00:00:01 type bridge
ip addr add {GATE}/24 dev br0
ip link set br0 up
ip addr add {API}/32 dev lo
"""

# udev replaces an address that the kernel chose, when neighbours may already have asked for it. It
# keeps one that was set.
HOST_MAC = "02:ce:de:00:00:fe"

# With the defaults, the controllers create 7 to 8 pods a second.
FAST_CLIENT = ("--kube-api-qps=300", "--kube-api-burst=500")

COMPONENTS = ("webhook", "scheduler", "quota-controller")
# One line in log/audit.log for each write of Cede's components, and none for any other request.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create", "update", "patch", "delete"],
            "users": [f"system:serviceaccount:cede-system:cede-{name}" for name in COMPONENTS],
        },
        {"level": "None"},
    ],
}

COREFILE = """.:53 {{
    bind {gate}
    kubernetes cluster.local {{
        kubeconfig {run}/dns.conf
        ttl 1
    }}
}}
"""


def start(paths: Paths) -> Authority:
    """Starts everything; the API server answers afterwards."""
    authority = issue_certificates(paths)
    (paths.run / "audit.json").write_text(json.dumps(AUDIT_POLICY))
    (paths.run / "Corefile").write_text(COREFILE.format(gate=GATE, run=paths.run))
    pid = network_namespaces.start(
        paths, network_namespaces.CONTROL_PLANE, NETWORK_SCRIPT + daemons_script(paths)
    )
    connect_host(pid)
    network_namespaces.open_gate(paths, network_namespaces.CONTROL_PLANE)
    wait_until(
        lambda: "br0" in run_command("nsenter", "-t", str(pid), "-n", "ip", "-br", "link"),
        "the bridge",
        10,
    )
    run_command("nsenter", "-t", str(pid), "-n", "ip", "link", "set", "host", "master", "br0", "up")
    wait_until(lambda: ready(paths), f"the API server (see {paths.log}/apiserver.log)", 60)
    return authority


def require_pid(paths: Paths) -> int:
    """The first process of the control plane. Raises Failure if no cluster runs."""
    if pid := network_namespaces.pid_of(paths, network_namespaces.CONTROL_PLANE):
        return pid
    raise Failure("no cluster runs: start one with `python -m deploy.local up`")


def connect_host(pid: int) -> None:
    """Adds this machine's interface to the bridge, and routes to pods and Services through it.

    All of them vanish with the namespaces.
    """
    disconnect_host()
    peer = ("peer", "name", "host", "netns", str(pid))
    run_command("ip", "link", "add", f"{NAME}0", "address", HOST_MAC, "type", "veth", *peer)
    run_command("ip", "addr", "add", f"{HOST}/24", "dev", f"{NAME}0")
    run_command("ip", "link", "set", f"{NAME}0", "up")
    for target in (PODS, SERVICES):
        run_command("ip", "route", "add", target, "via", GATE)


def disconnect_host() -> None:
    run_command("ip", "link", "del", f"{NAME}0", check=False)


def ready(paths: Paths) -> bool:
    try:
        tls = ssl.create_default_context(cafile=str(paths.run / "ca.crt"))
        tls.load_cert_chain(paths.run / "admin.crt", paths.run / "admin.key")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
        )
        with opener.open(f"https://{GATE}/readyz", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def issue_certificates(paths: Paths) -> Authority:
    authority = Authority(paths.run)
    host_names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    authority.issue(
        "apiserver", "kube-apiserver", names=host_names, addresses=[GATE, API, "127.0.0.1"]
    )
    authority.issue("apiserver-kubelet", "kube-apiserver-kubelet", "system:masters")
    authority.issue("front-proxy", "front-proxy")
    for file, name, group in [
        ("admin", "admin", "system:masters"),
        ("kcm", "system:kube-controller-manager", ""),
        ("scheduler", "system:kube-scheduler", ""),
        ("proxy", "system:kube-proxy", ""),
        ("dns", "coredns", "system:masters"),
        ("kwok", "kwok", "system:masters"),
    ]:
        authority.kubeconfig(file, name, group)
    (paths.run / "sa.pub").write_bytes(public_half(new_key(paths.run / "sa.key")))
    return authority


def daemons_script(paths: Paths) -> str:
    """All programs start at once; one that needs another is restarted until that one runs."""
    run = paths.run
    gates = ",".join(f"{gate}=true" for gate in paths.cell.gates)
    gate_flags = [f"--feature-gates={gates}"] if gates else []
    # the kinds of a feature gate are alpha or beta, and not served without
    api_flags = ["--runtime-config=api/all=true"] if gates else []
    programs: dict[str, list[str | Path]] = {
        "etcd": ["etcd", "--data-dir", run / "etcd", "--unsafe-no-fsync", "--log-level=warn"],
        "apiserver": ["kube-apiserver", *apiserver_flags(run), *gate_flags, *api_flags],
        "kcm": [
            "kube-controller-manager",
            f"--kubeconfig={run}/kcm.conf",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={run}/sa.key",
            f"--root-ca-file={run}/ca.crt",
            "--node-monitor-grace-period=12s",
            "--node-monitor-period=1s",
            *FAST_CLIENT,
            *gate_flags,
        ],
        "scheduler": [
            "kube-scheduler",
            f"--kubeconfig={run}/scheduler.conf",
            "--leader-elect=false",
            *FAST_CLIENT,
            *gate_flags,
        ],
        "coredns": ["coredns", "-conf", run / "Corefile"],
        "kwok": [
            "kwok",
            f"--kubeconfig={run}/kwok.conf",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-label-selector={FAKE}",
            "--node-lease-duration-seconds=40",
            "--config",
            paths.share / "kwok.yaml",
        ],
    }
    return "".join(
        network_namespaces.daemon_script(paths, name, *argv) for name, argv in programs.items()
    )


def apiserver_flags(run: Path) -> list[str]:
    return [
        "--etcd-servers=http://127.0.0.1:2379",
        # tests count the events of hours
        "--event-ttl=6h",
        "--secure-port=443",
        f"--advertise-address={GATE}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--tls-cert-file={run}/apiserver.crt",
        f"--tls-private-key-file={run}/apiserver.key",
        f"--client-ca-file={run}/ca.crt",
        f"--kubelet-client-certificate={run}/apiserver-kubelet.crt",
        f"--kubelet-client-key={run}/apiserver-kubelet.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={run}/sa.pub",
        f"--service-account-signing-key-file={run}/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        # connect to the pods of webhooks directly: no kube-proxy runs here
        "--enable-aggregator-routing=true",
        f"--requestheader-client-ca-file={run}/ca.crt",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={run}/front-proxy.crt",
        f"--proxy-client-key-file={run}/front-proxy.key",
        "--default-not-ready-toleration-seconds=5",
        "--default-unreachable-toleration-seconds=5",
        f"--audit-policy-file={run}/audit.json",
        f"--audit-log-path={run}/log/audit.log",
    ]
