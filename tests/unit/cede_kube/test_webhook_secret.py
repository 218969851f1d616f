"""What is stored in the Secret is read back; broken parts count as missing."""

import base64
from dataclasses import replace
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from cede.api.certificates import Certificates, KeyPair
from cede.api.objects import Json
from cede.kube.webhook_secret import (
    decode_bundle,
    encode_bundle,
    load_key,
    read_secret,
    secret_data,
)
from quota_controller.certificates.issue import issue_ca, issue_leaf

NOW = 1_800_000_000.0
CA = issue_ca(NOW)
LEAF = issue_leaf(CA, NOW)
STORED = Certificates(CA, LEAF)


def test_the_secret_restores_what_was_stored() -> None:
    certificates = Certificates(CA, LEAF, issue_ca(NOW), CA.certificate)
    assert read_secret({"data": secret_data(certificates)}) == certificates


def test_a_published_bundle_is_read_back_and_anything_else_is_empty() -> None:
    certificates = Certificates(CA, LEAF, issue_ca(NOW))
    assert decode_bundle(encode_bundle(certificates)) == certificates.bundle
    for text in ("", "!", "bm90IFBFTQ==", "Cg=="):
        assert decode_bundle(text) == ""


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        pytest.param(None, Certificates(), id="no Secret"),
        pytest.param({}, Certificates(), id="empty"),
        pytest.param({"data": None}, Certificates(), id="no data"),
        pytest.param(
            {"data": {"ca.crt": "!", "tls.crt": "bm90IFBFTQ=="}}, Certificates(), id="not PEM"
        ),
        pytest.param(
            {"data": secret_data(STORED) | {"ca.key": ""}}, Certificates(), id="no key of the CA"
        ),
        pytest.param(
            {"data": secret_data(Certificates(CA, issue_leaf(issue_ca(NOW), NOW)))},
            Certificates(CA),
            id="a certificate of another CA",
        ),
        pytest.param(
            {"data": secret_data(Certificates(CA, replace(LEAF, key=CA.key)))},
            Certificates(CA),
            id="another key",
        ),
        pytest.param(
            {"data": secret_data(Certificates(CA, issue_leaf(CA, NOW, ("old.name.svc",))))},
            Certificates(CA),
            id="another host",
        ),
        pytest.param(
            {"data": secret_data(STORED) | {"previous-ca.crt": "bm8="}},
            STORED,
            id="a previous CA that is not PEM",
        ),
    ],
)
def test_broken_parts_count_as_missing(secret: Json | None, expected: Certificates) -> None:
    assert read_secret(secret) == expected


def sign_again(body: bytes, ca: KeyPair = CA) -> str:
    """PEM of a certificate with this body (`TBSCertificate`), signed by the CA."""
    key = load_key(ca.key)
    signature = key.sign(body, ec.ECDSA(hashes.SHA256()))
    # ecdsa-with-SHA256
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    bits = b"\x03" + bytes([len(signature) + 1]) + b"\x00" + signature
    content = body + algorithm + bits
    der = b"\x30\x82" + len(content).to_bytes(2) + content
    return f"{BEGIN}\n{base64.encodebytes(der).decode()}{END}\n"


BEGIN = "-----BEGIN CERTIFICATE-----"
END = "-----END CERTIFICATE-----"
BODY = x509.load_pem_x509_certificate(LEAF.certificate.encode()).tbs_certificate_bytes
BASIC_CONSTRAINTS = bytes.fromhex("0603551d13")
ALTERNATIVE_NAME = bytes.fromhex("0603551d11")
ECDSA_WITH_SHA256 = bytes.fromhex("2a8648ce3d040302")


def test_a_certificate_that_is_signed_again_is_usable() -> None:
    assert read_again(sign_again(BODY)).leaf


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(BODY.replace(BASIC_CONSTRAINTS, ALTERNATIVE_NAME), id="a name twice"),
        pytest.param(BODY.replace(ECDSA_WITH_SHA256, b"\x2a" * 8), id="an unknown algorithm"),
        pytest.param(
            BODY.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07"), id="version 8"
        ),
        pytest.param(BODY.replace(b"\x82", b"\x83"), id="another kind of name"),
    ],
)
def test_an_odd_certificate_counts_as_missing(body: bytes) -> None:
    assert body != BODY
    assert read_again(sign_again(body)) == Certificates(CA)


def test_no_content_of_the_secret_ends_the_reader() -> None:
    """It runs when the cache changes: what it raised would end the watch."""
    random = Random(1)  # noqa: S311
    for i in range(0, len(BODY), 5):
        odd = sign_again(BODY[:i] + random.randbytes(1) + BODY[i + 1 :])
        read_again(odd)
        decode_bundle(base64.b64encode(odd.encode()).decode())
    for name, text in secret_data(STORED).items():
        for _ in range(5):
            odd_bytes = bytearray(base64.b64decode(text))
            odd_bytes[random.randrange(len(odd_bytes))] = random.randrange(256)
            read_secret(
                {"data": secret_data(STORED) | {name: base64.b64encode(odd_bytes).decode()}}
            )


def read_again(certificate: str) -> Certificates:
    return read_secret(
        {"data": secret_data(Certificates(CA, replace(LEAF, certificate=certificate)))}
    )
