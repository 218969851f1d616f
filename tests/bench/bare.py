"""An API server and etcd of the local cluster's own programs, alone in a temporary folder: no
nodes, no controllers, no Kueue."""

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
    """One server; everybody who has its kubeconfig may do everything."""

    folder: Path
    port: int

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def audit(self) -> Path:
        """A line for every write."""
        return self.folder / "audit.log"

    def kubectl(self, *argv: str, stdin: str | None = None) -> str:
        words = [str(PROGRAMS / "kubectl"), "--kubeconfig", str(self.kubeconfig), *argv]
        done = subprocess.run(words, text=True, capture_output=True, input=stdin, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(argv[:3])}: {done.stderr[-500:]}"
        return done.stdout


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


@contextmanager
def server() -> Iterator[Bare]:
    """It answers, and knows the kinds of Kueue and Cede; gone afterwards, with all it held."""
    # what we started ends with us
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="cede-bench-") as name:
        folder = Path(name)
        peer, client, port = free_ports(3)
        authority = Authority(folder)
        authority.issue("server", "kube-apiserver", names=["localhost"], addresses=["127.0.0.1"])
        (folder / "sa.pub").write_bytes(public_half(new_key(folder / "sa.key")))
        (folder / "audit.yaml").write_text(json.dumps(AUDIT))
        found = Bare(folder, port)
        kubeconfig(authority, found)
        running = [
            started(folder, "etcd", *etcd(folder, client, peer)),
            started(folder, "kube-apiserver", *apiserver(folder, client, port)),
        ]
        try:
            answers(found)
            found.kubectl("apply", "--server-side", "-k", str(TREE / "deploy" / "crds"))
            found.kubectl("apply", "--server-side", "-f", str(KUEUE_CRDS))
            found.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
            yield found
        finally:
            for one in reversed(running):
                one.terminate()
                one.wait(30)


AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "verbs": ["get", "list", "watch"]}, {"level": "Metadata"}],
}


def started(folder: Path, program: str, *argv: str) -> subprocess.Popen[bytes]:
    with (folder / f"{program}.log").open("wb") as log:
        return subprocess.Popen([PROGRAMS / program, *argv], stdout=log, stderr=log)


def etcd(folder: Path, client: int, peer: int) -> list[str]:
    one = f"http://127.0.0.1:{client}"
    other = f"http://127.0.0.1:{peer}"
    return [
        *(f"--data-dir={folder}/etcd", "--unsafe-no-fsync", "--log-level=warn"),
        *(
            f"--listen-client-urls={one}",
            f"--advertise-client-urls={one}",
            f"--listen-peer-urls={other}",
        ),
        *(f"--initial-advertise-peer-urls={other}", f"--initial-cluster=default={other}"),
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


def kubeconfig(authority: Authority, of: Bare) -> None:
    authority.kubeconfig("client", "bench")
    body = json.loads((of.folder / "client.conf").read_text())
    body["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{of.port}"
    of.kubeconfig.write_text(json.dumps(body))


def answers(of: Bare) -> None:
    """Returns once the server is ready; AssertionError after a minute."""
    end = time.monotonic() + 60
    while True:
        try:
            of.kubectl("get", "--raw", "/readyz")
            return
        except AssertionError:
            assert time.monotonic() < end, (of.folder / "kube-apiserver.log").read_text()[-2000:]
        time.sleep(0.2)
