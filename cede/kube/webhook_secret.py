"""The Secret with the webhook's certificates: converts them to its data, and back.

The quota_controller writes it. The webhook reads it, and serves the certificate in it.
"""

import base64

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from cede.api.certificates import BACKDATE_S, Certificates, KeyPair
from cede.api.names import SYSTEM_NAMESPACE, WEBHOOK
from cede.api.objects import Json, Key

WEBHOOK_SECRET_KEY: Key = (SYSTEM_NAMESPACE, "cede-webhook-cert")
HOSTS = (f"{WEBHOOK}.{SYSTEM_NAMESPACE}.svc", f"{WEBHOOK}.{SYSTEM_NAMESPACE}.svc.cluster.local")
"""The names under which API servers call the webhook's Service."""
# what cryptography raises for a certificate or a key that nobody should have made
_UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


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
    # Kubernetes refuses a Secret of type kubernetes.io/tls without these two
    texts = {"tls.crt": "", "tls.key": ""}
    pairs = (("ca", certificates.ca), ("tls", certificates.leaf), ("next-ca", certificates.next_ca))
    for name, pair in pairs:
        if pair:
            texts[f"{name}.crt"] = pair.certificate
            texts[f"{name}.key"] = pair.key
    if certificates.previous_ca:
        texts["previous-ca.crt"] = certificates.previous_ca
    return {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}


def encode_bundle(certificates: Certificates) -> str:
    """The value of `caBundle` in a webhook configuration."""
    return base64.b64encode(certificates.bundle.encode()).decode()


def decode_bundle(bundle: str) -> str:
    """The PEM of a `caBundle`; empty for anything but certificates."""
    return _valid_bundle(_decode(bundle))


def parse_pair(certificate: str, key: str) -> KeyPair | None:
    """The pair from its two PEM texts; None when one is unreadable or they do not match."""
    try:
        parsed = x509.load_pem_x509_certificate(certificate.encode())
        private_key = load_key(key)
        is_pair = parsed.public_key() == private_key.public_key()
        return make_pair(parsed, private_key) if is_pair else None
    except _UNREADABLE:
        return None


def make_pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return KeyPair(
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key=key_pem.decode(),
        issued=certificate.not_valid_before_utc.timestamp() + BACKDATE_S,
        expires=certificate.not_valid_after_utc.timestamp(),
    )


def load_key(pem: str) -> ec.EllipticCurvePrivateKey:
    """Raises ValueError or TypeError for anything but a key that we could have issued."""
    key = serialization.load_pem_private_key(pem.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not an elliptic curve key")
    return key


def is_issued_by(leaf: KeyPair, ca: KeyPair, hosts: tuple[str, ...] = HOSTS) -> bool:
    """True when `ca` has signed `leaf`, and `leaf` is valid for all `hosts`."""
    certificate = x509.load_pem_x509_certificate(leaf.certificate.encode())
    issuer = x509.load_pem_x509_certificate(ca.certificate.encode())
    try:
        certificate.verify_directly_issued_by(issuer)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (*_UNREADABLE, InvalidSignature, x509.ExtensionNotFound):
        return False
    return set(names.get_values_for_type(x509.DNSName)) >= set(hosts)


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
    except _UNREADABLE:
        return ""
    return pem
