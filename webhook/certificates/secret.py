"""Converts certificates to the data of their Secret, and back."""

import base64

from cryptography import x509

from cede.api.names import SYSTEM_NAMESPACE
from cede.api.objects import Json
from webhook.certificates.issue import HOSTS, is_issued_by, parse_pair
from webhook.certificates.rotation import Certificates

SECRET_KEY = (SYSTEM_NAMESPACE, "cede-webhook-cert")
"""(namespace, name) of the Secret that all replicas share."""


def read_secret(secret: Json | None, hosts: tuple[str, ...] = HOSTS) -> Certificates:
    """The usable parts of the Secret; parts that are missing or broken are left out."""
    data = (secret or {}).get("data") or {}
    texts = {name: _decode(text) for name, text in data.items()}
    ca = parse_pair(texts.get("ca.crt", ""), texts.get("ca.key", ""))
    leaf = parse_pair(texts.get("tls.crt", ""), texts.get("tls.key", ""))
    if ca is None or leaf is None or not is_issued_by(leaf, ca, hosts):
        leaf = None
    next_ca = parse_pair(texts.get("next-ca.crt", ""), texts.get("next-ca.key", ""))
    return Certificates(ca, leaf, next_ca, _valid_bundle(texts.get("previous-ca.crt", "")))


def secret_data(certificates: Certificates) -> dict[str, str]:
    """The data of the Secret; `read_secret` restores `certificates` from it."""
    texts = dict[str, str]()
    pairs = (("ca", certificates.ca), ("tls", certificates.leaf), ("next-ca", certificates.next_ca))
    for name, pair in pairs:
        if pair:
            texts[f"{name}.crt"] = pair.certificate
            texts[f"{name}.key"] = pair.key
    if certificates.previous_ca:
        texts["previous-ca.crt"] = certificates.previous_ca
    return {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}


def _decode(text: object) -> str:
    """Empty for anything but base64 of UTF-8."""
    try:
        return base64.b64decode(str(text)).decode()
    except ValueError:
        return ""


def _valid_bundle(pem: str) -> str:
    """`pem` when all certificates in it can be read, otherwise empty."""
    try:
        x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        return ""
    return pem
