"""Issued certificates are accepted by strict clients, and by nobody else."""

import ssl

import pytest
from cryptography import x509

from cede.api.certificates import DAY_S
from cede.kube.webhook_secret import HOSTS, is_issued_by, parse_pair
from quota_controller.certificates.issue import issue_ca, issue_leaf
from tests.harness.certificates import fresh_certificates, handshake, serving_context

NOW = 1_800_000_000.0
CA = issue_ca(NOW)
LEAF = issue_leaf(CA, NOW)


@pytest.mark.parametrize("host", HOSTS)
def test_a_strict_client_that_trusts_the_bundle_accepts_the_certificate(host: str) -> None:
    certificates = fresh_certificates()
    handshake(serving_context(certificates), certificates.bundle, host)


def test_no_other_host_and_no_other_ca_is_accepted() -> None:
    certificates = fresh_certificates()
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(serving_context(certificates), certificates.bundle, "cede-webhook.other.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(serving_context(certificates), fresh_certificates().bundle)


def test_the_certificate_expires_with_its_ca_and_is_valid_on_a_slow_clock() -> None:
    late = issue_leaf(CA, CA.expires - DAY_S)
    assert late.expires == CA.expires
    certificate = x509.load_pem_x509_certificate(LEAF.certificate.encode())
    assert certificate.not_valid_before_utc.timestamp() <= NOW - 1800


def test_a_pair_is_read_back_unless_key_and_certificate_differ() -> None:
    assert parse_pair(LEAF.certificate, LEAF.key) == LEAF
    assert parse_pair(LEAF.certificate, CA.key) is None
    assert parse_pair("", LEAF.key) is None
    assert parse_pair(LEAF.certificate, "no key") is None


def test_a_certificate_belongs_to_its_ca_and_its_hosts() -> None:
    assert is_issued_by(LEAF, CA)
    assert not is_issued_by(LEAF, issue_ca(NOW))
    assert not is_issued_by(LEAF, CA, (*HOSTS, "other.svc"))
