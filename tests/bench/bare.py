"""A bare API server with etcd, from the programs of the local cluster.

No nodes, no controllers, no Kueue.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local.certificates import Authority, new_key, public_half

TREE = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cede" / "bin"
KUEUE_CRDS = PROGRAMS / "share" / "kueue" / "components" / "crd" / "bases"


@dataclass(frozen=True)
class Bare:
    """One server; every user of its kubeconfig may do everything."""

    folder: Path
    port: int

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def audit(self) -> Path:
        """The audit log: one line for every write."""
        return self.folder / "audit.log"

    def kubectl(self, *argv: str, stdin: str | None = None) -> str:
        words = [str(PROGRAMS / "kubectl"), "--kubeconfig", str(self.kubeconfig), *argv]
        done = subprocess.run(words, text=True, capture_output=True, input=stdin, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(argv[:3])}: {done.stderr[-500:]}"
        return done.stdout


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


@contextmanager
def server() -> Iterator[Bare]:
    """A ready server with the CRDs of Kueue and Cede; it is removed at the end of the context."""
    # SIGTERM unwinds the stack, so that the processes we started end
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="cede-bench-") as name:
        folder = Path(name)
        peer, client, port = free_ports(3)
        authority = Authority(folder)
        authority.issue("server", "kube-apiserver", names=["localhost"], addresses=["127.0.0.1"])
        (folder / "sa.pub").write_bytes(public_half(new_key(folder / "sa.key")))
        (folder / "audit.yaml").write_text(json.dumps(AUDIT))
        bare = Bare(folder, port)
        write_kubeconfig(authority, bare)
        running = [
            start(folder, "etcd", *etcd(folder, client, peer)),
            start(folder, "kube-apiserver", *apiserver(folder, client, port)),
        ]
        try:
            wait_until_ready(bare)
            bare.kubectl("apply", "--server-side", "-k", str(TREE / "deploy" / "crds"))
            bare.kubectl("apply", "--server-side", "-f", str(KUEUE_CRDS))
            bare.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
            yield bare
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait(30)


AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "verbs": ["get", "list", "watch"]}, {"level": "Metadata"}],
}


def start(folder: Path, program: str, *argv: str) -> subprocess.Popen[bytes]:
    with (folder / f"{program}.log").open("wb") as log:
        return subprocess.Popen([PROGRAMS / program, *argv], stdout=log, stderr=log)


def etcd(folder: Path, client: int, peer: int) -> list[str]:
    client_url = f"http://127.0.0.1:{client}"
    peer_url = f"http://127.0.0.1:{peer}"
    return [
        *(f"--data-dir={folder}/etcd", "--unsafe-no-fsync", "--log-level=warn"),
        *(
            f"--listen-client-urls={client_url}",
            f"--advertise-client-urls={client_url}",
            f"--listen-peer-urls={peer_url}",
        ),
        *(f"--initial-advertise-peer-urls={peer_url}", f"--initial-cluster=default={peer_url}"),
    ]


def apiserver(folder: Path, etcd_port: int, port: int) -> list[str]:
    return [
        *(
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
        ),
        *(
            f"--tls-cert-file={folder}/server.crt",
            f"--tls-private-key-file={folder}/server.key",
            f"--client-ca-file={folder}/ca.crt",
        ),
        *(
            f"--service-account-key-file={folder}/sa.pub",
            f"--service-account-signing-key-file={folder}/sa.key",
        ),
        *(
            "--service-account-issuer=https://bench",
            "--authorization-mode=AlwaysAllow",
            "--service-cluster-ip-range=10.97.0.0/16",
        ),
        *("--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"),
        *(f"--audit-policy-file={folder}/audit.yaml", f"--audit-log-path={folder}/audit.log"),
    ]


def write_kubeconfig(authority: Authority, bare: Bare) -> None:
    authority.kubeconfig("client", "bench")
    body = json.loads((bare.folder / "client.conf").read_text())
    body["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{bare.port}"
    bare.kubeconfig.write_text(json.dumps(body))


def wait_until_ready(bare: Bare) -> None:
    """Returns when the server is ready. Raises AssertionError after a minute."""
    end = time.monotonic() + 60
    while True:
        try:
            bare.kubectl("get", "--raw", "/readyz")
            return
        except AssertionError:
            assert time.monotonic() < end, (bare.folder / "kube-apiserver.log").read_text()[-2000:]
        time.sleep(0.2)
