"""What is stored in the Secret is read back; broken parts count as missing."""

from dataclasses import replace

import pytest

from cede.api.certificates import Certificates
from cede.api.objects import Json
from cede.kube.webhook_secret import decode_bundle, encode_bundle, read_secret, secret_data
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
