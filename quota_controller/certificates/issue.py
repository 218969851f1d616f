"""Issues the CA and the server certificate."""

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cede.api.certificates import BACKDATE_S, KeyPair
from cede.kube.webhook_secret import HOSTS, load_key, make_pair
from quota_controller.certificates.rotation import CA_LIFETIME_S, LEAF_LIFETIME_S

# RFC 5280, ub-common-name
MAX_COMMON_NAME = 64
_KEY_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def issue_ca(now: float) -> KeyPair:
    """A CA that may sign server certificates, and no further CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _make_name(f"cede-webhook CA {x509.random_serial_number():x}")
    builder = _start_builder(name, name, key.public_key(), now, now + CA_LIFETIME_S)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = _make_key_usage("key_cert_sign", "crl_sign", "digital_signature")
    builder = builder.add_extension(usage, critical=True)
    return make_pair(builder.sign(key, hashes.SHA256()), key)


def issue_leaf(ca: KeyPair, now: float, hosts: tuple[str, ...] = HOSTS) -> KeyPair:
    """A server certificate for `hosts`, signed by `ca`. It expires no later than `ca`."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(ca.certificate.encode())
    expires = min(now + LEAF_LIFETIME_S, ca.expires)
    builder = _start_builder(_make_name(hosts[0]), issuer.subject, key.public_key(), now, expires)
    ca_key_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_key_id)
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_make_key_usage("digital_signature"), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), False),
        (authority, False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    return make_pair(builder.sign(load_key(ca.key), hashes.SHA256()), key)


def _make_name(common_name: str) -> x509.Name:
    attribute = x509.NameAttribute(NameOID.COMMON_NAME, common_name[:MAX_COMMON_NAME])
    return x509.Name([attribute])


def _make_key_usage(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in allowed for usage in _KEY_USAGES})


def _start_builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issued: float,
    expires: float,
) -> x509.CertificateBuilder:
    not_before = datetime.fromtimestamp(issued - BACKDATE_S, UTC)
    not_after = datetime.fromtimestamp(expires, UTC)
    builder = x509.CertificateBuilder(
        issuer, subject, key, x509.random_serial_number(), not_before, not_after
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
