"""The room of the whole cluster: etcd, the control plane, DNS, kwok, and the bridge the nodes are
plugged into."""

import json
import ssl
import urllib.request
from pathlib import Path

from deploy.local import network_namespaces
from deploy.local.certificates import Authority, new_key, public_half
from deploy.local.paths import API, GATE, HOST, NAME, PODS, SERVICES, Places
from deploy.local.shell import sh, until

ROOM = "room"
# kwok minds nodes with this label and no other
FAKE = "type=kwok"

# The bridge's own address: else it takes the lowest of its ports', and every node that comes or
# goes changes it.
NETWORK = f"""sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.default.send_redirects=0
ip link add br0 address 02:ce:de:00:00:01 type bridge
ip addr add {GATE}/24 dev br0
ip link set br0 up
ip addr add {API}/32 dev lo
"""

# What Cede's own components write, and nothing else: a line each in log/audit.log.
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create", "update", "patch", "delete"],
            "users": [
                f"system:serviceaccount:cede-system:cede-{name}"
                for name in ("webhook", "scheduler", "quota-controller")
            ],
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


def start(places: Places) -> Authority:
    """The API server answers when this returns."""
    authority = issue(places)
    (places.run / "audit.json").write_text(json.dumps(AUDIT))
    (places.run / "Corefile").write_text(COREFILE.format(gate=GATE, run=places.run))
    pid = network_namespaces.start(places, ROOM, NETWORK + daemons(places))
    plug(pid)
    network_namespaces.open_gate(places, ROOM)
    until(
        lambda: "br0" in sh("nsenter", "-t", str(pid), "-n", "ip", "-br", "link"), "the bridge", 10
    )
    sh("nsenter", "-t", str(pid), "-n", "ip", "link", "set", "host", "master", "br0", "up")
    until(lambda: ready(places), f"the API server (see {places.log}/apiserver.log)", 60)
    return authority


def plug(pid: int) -> None:
    """This machine's cable into the room, and the ways to pods and Services through it: they all go
    when the room goes."""
    unplug()
    sh("ip", "link", "add", f"{NAME}0", "type", "veth", "peer", "name", "host", "netns", str(pid))
    sh("ip", "addr", "add", f"{HOST}/24", "dev", f"{NAME}0")
    sh("ip", "link", "set", f"{NAME}0", "up")
    for target in (PODS, SERVICES):
        sh("ip", "route", "add", target, "via", GATE)


def unplug() -> None:
    sh("ip", "link", "del", f"{NAME}0", check=False)


def ready(places: Places) -> bool:
    try:
        tls = ssl.create_default_context(cafile=str(places.run / "ca.crt"))
        tls.load_cert_chain(places.run / "admin.crt", places.run / "admin.key")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
        )
        with opener.open(f"https://{GATE}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def issue(places: Places) -> Authority:
    authority = Authority(places.run)
    known_as = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    authority.issue(
        "apiserver", "kube-apiserver", names=known_as, addresses=[GATE, API, "127.0.0.1"]
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
    (places.run / "sa.pub").write_bytes(public_half(new_key(places.run / "sa.key")))
    return authority


def daemons(places: Places) -> str:
    """All start at once; restarts cover the order."""
    run = places.run

    def client(file: str) -> str:
        return f"--kubeconfig={run}/{file}.conf"

    # the defaults create 7 to 8 pods a second
    fast = ("--kube-api-qps=300", "--kube-api-burst=500")
    commands: dict[str, tuple[str | Path, ...]] = {
        "etcd": ("etcd", "--data-dir", run / "etcd", "--unsafe-no-fsync", "--log-level=warn"),
        "apiserver": ("kube-apiserver", *apiserver(run)),
        "kcm": (
            *(
                "kube-controller-manager",
                client("kcm"),
                "--leader-elect=false",
                "--use-service-account-credentials=true",
            ),
            *(f"--service-account-private-key-file={run}/sa.key", f"--root-ca-file={run}/ca.crt"),
            *("--node-monitor-grace-period=12s", "--node-monitor-period=1s", *fast),
        ),
        "scheduler": ("kube-scheduler", client("scheduler"), "--leader-elect=false", *fast),
        "coredns": ("coredns", "-conf", run / "Corefile"),
        "kwok": (
            *(
                "kwok",
                client("kwok"),
                "--manage-all-nodes=false",
                f"--manage-nodes-with-label-selector={FAKE}",
            ),
            *("--node-lease-duration-seconds=40", "--config", places.share / "kwok.yaml"),
        ),
    }
    return "".join(
        network_namespaces.daemon(places, name, *argv) for name, argv in commands.items()
    )


def apiserver(run: Path) -> list[str]:
    return [
        "--etcd-servers=http://127.0.0.1:2379",
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
        # webhooks and APIs of Services straight to the pod: no proxy in this room
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
