"""The cluster's certificate authority; it is kept so that a node can join later."""

import base64
import datetime
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage
from cryptography.x509.oid import NameOID

from deploy.local.paths import GATE, NAME


class Authority:
    """Issues certificates FILE.crt with FILE.key, and kubeconfigs FILE.conf, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = subject("cede-local-ca")
        if (folder / "ca.key").exists():
            key = pem.load_pem_private_key((folder / "ca.key").read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            self.key = key
        else:
            self.key = new_key(folder / "ca.key")
            certificate = self._sign(
                self.name, self.key.public_key(), [x509.BasicConstraints(ca=True, path_length=None)]
            )
            (folder / "ca.crt").write_bytes(certificate.public_bytes(pem.Encoding.PEM))

    def issue(
        self,
        file: str,
        name: str,
        group: str = "",
        names: Sequence[str] = (),
        addresses: Sequence[str] = (),
    ) -> None:
        key = new_key(self.folder / f"{file}.key")
        alternative_names = [
            *map(x509.DNSName, names),
            *(x509.IPAddress(ipaddress.ip_address(a)) for a in addresses),
        ]
        uses: list[x509.ExtensionType] = [
            x509.ExtendedKeyUsage([Usage.SERVER_AUTH, Usage.CLIENT_AUTH])
        ]
        extensions = uses
        if alternative_names:
            extensions = [*uses, x509.SubjectAlternativeName(alternative_names)]
        certificate = self._sign(subject(name, group), key.public_key(), extensions)
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(pem.Encoding.PEM))

    def kubeconfig(self, file: str, name: str, group: str = "") -> None:
        self.issue(file, name, group)

        def inline(path: str) -> str:
            return base64.b64encode((self.folder / path).read_bytes()).decode()

        cluster = {"server": f"https://{GATE}", "certificate-authority-data": inline("ca.crt")}
        user = {
            "client-certificate-data": inline(f"{file}.crt"),
            "client-key-data": inline(f"{file}.key"),
        }
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": NAME,
            "clusters": [{"name": NAME, "cluster": cluster}],
            "users": [{"name": NAME, "user": user}],
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        }
        write_private(self.folder / f"{file}.conf", json.dumps(body).encode())

    def _sign(
        self,
        holder: x509.Name,
        public: ec.EllipticCurvePublicKey,
        extensions: Sequence[x509.ExtensionType],
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(self.name, holder, public, x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(
            now + datetime.timedelta(days=365)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self.key, hashes.SHA256())


def subject(name: str, group: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(
        path, key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    )
    return key


def public_half(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)


def write_private(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
