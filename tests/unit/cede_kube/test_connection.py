"""Connections: where they lead, and rotated tokens and certificates."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes.aio.config import ConfigException, incluster_config

from cede.api.objects import JOBS, NODES
from cede.kube.connection import connect, context_name, context_namespace
from cede.kube.errors import Unauthorized, Unreachable
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig


def certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate of 127.0.0.1 with its key, in one file; it is its own CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate_ = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{name}.pem"
    path.write_bytes(certificate_.public_bytes(serialization.Encoding.PEM) + pem)
    return path


class Pod:
    """The files and variables by which a pod finds its API server."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.token = folder / "token"
        self.ca = folder / "ca.crt"
        self._patch = patch
        patch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(self.token))
        patch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(self.ca))

    def use(self, server: ApiServer) -> None:
        self._patch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        self._patch.setenv("KUBERNETES_SERVICE_PORT", server.url.rpartition(":")[2])


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    return Pod(tmp_path, monkeypatch)


def serving(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def test_a_rotated_token_is_read_again_when_the_old_one_is_refused(
    pod: Pod, tmp_path: Path
) -> None:
    cert = certificate(tmp_path, "first")
    pod.ca.write_bytes(cert.read_bytes())
    pod.token.write_text("one")
    async with ApiServer(serving(cert)) as server:
        server.token = "one"
        pod.use(server)
        async with connect(manager="test") as client:
            await client.list(JOBS, dict)
            server.token = "two"
            pod.token.write_text("two")
            await client.list(JOBS, dict)
            assert server.count()["GET"] == 3, "the first, the refused, the same with the new token"
            # the pod does not have it yet
            server.token = "three"
            with pytest.raises(Unauthorized):
                await client.list(JOBS, dict)
            with pytest.raises(Unauthorized):
                await anext(client.watch(JOBS, dict, version="0", initial=False))
            pod.token.write_text("three")
            # the cache retries a watch, the client does not
            with pytest.raises(Unauthorized):
                await anext(client.watch(JOBS, dict, version="0", initial=False))
            server.put(JOBS, {"metadata": {"name": "j", "namespace": "a"}})
            event = await anext(client.watch(JOBS, dict, version="1", initial=False))
            assert event.type == "ADDED"


async def test_an_empty_token_file_is_read_again(pod: Pod, tmp_path: Path) -> None:
    cert = certificate(tmp_path, "first")
    pod.ca.write_bytes(cert.read_bytes())
    pod.token.write_text("one")
    async with ApiServer(serving(cert)) as server:
        server.token = "one"
        pod.use(server)
        async with connect(manager="test") as client:
            server.token = "two"
            # it is being written just now
            pod.token.write_text("")
            with pytest.raises(Unauthorized):
                await client.list(NODES, dict)
            pod.token.write_text("two")
            await client.list(NODES, dict)


async def test_a_rotated_ca_is_read_again_when_the_server_is_not_trusted(
    pod: Pod, tmp_path: Path
) -> None:
    old = certificate(tmp_path, "old")
    new = certificate(tmp_path, "new")
    pod.ca.write_bytes(old.read_bytes())
    pod.token.write_text("one")

    async def closing(_: web.Request) -> web.StreamResponse:
        response = web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        response.force_close()
        return response

    context = serving(old)
    async with ApiServer(context) as server:
        pod.use(server)
        async with connect(manager="test") as client:
            server.script("GET", NODES.path(), closing)
            await client.list(NODES, dict)
            context.load_cert_chain(new)
            with pytest.raises(Unreachable, match="certificate"):
                await client.list(NODES, dict)
            pod.ca.write_bytes(new.read_bytes())
            with pytest.raises(Unreachable, match="certificate"):
                # after this failure it is read again
                await client.list(NODES, dict)
            await client.list(NODES, dict)


async def test_in_a_pod_the_namespace_is_that_of_the_pod(tmp_path: Path, pod: Pod) -> None:
    """Unless a kubeconfig or a context is named."""
    async with ApiServer() as server:
        pod.use(server)
        pod.token.write_text("token")
        pod.ca = certificate(tmp_path, "ca")
        pod.ca.rename(tmp_path / "ca.crt")
        (tmp_path / "namespace").write_text("team-b")
        assert (context_namespace(), context_name()) == ("team-b", "")
        path = kubeconfig(tmp_path / "config", server.url, "team-a")
        assert context_namespace(path) == "team-a"


async def test_a_kubeconfig_names_the_server_the_user_and_the_namespace(tmp_path: Path) -> None:
    async with ApiServer() as server:
        server.token = "from-file"
        path = kubeconfig(tmp_path / "config", server.url, "team-a")
        async with connect(manager="test", kubeconfig=path) as client:
            await client.list(JOBS, dict)
        assert context_namespace(path) == "team-a"
        assert context_namespace(path, "two") == "default"
        assert (context_name(path), context_name(path, "two")) == ("one", "two")


async def test_without_a_kubeconfig_nothing_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(ConfigException):
        async with connect(manager="test", kubeconfig=str(tmp_path / "none")):
            pass
    assert context_namespace(str(tmp_path / "none")) == "default"
    assert context_name(str(tmp_path / "none")) == ""
