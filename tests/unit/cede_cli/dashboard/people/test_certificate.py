"""The certificate of the page is renewed while it is served."""

from pathlib import Path

import pytest

from cede.dashboard.people.certificate import Certificate
from tests.harness.certificates import fresh_certificates


def test_without_files_there_is_no_tls(tmp_path: Path) -> None:
    for folder in ("", str(tmp_path)):
        certificate = Certificate(folder)
        certificate.renew()
        assert certificate.context is None


def test_a_broken_renewal_leaves_the_old_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leaf = fresh_certificates().leaf
    assert leaf is not None
    (tmp_path / "tls.crt").write_text(leaf.certificate)
    (tmp_path / "tls.key").write_text(leaf.key)
    certificate = Certificate(str(tmp_path))
    assert certificate.context is not None
    (tmp_path / "tls.crt").write_text("no certificate")
    certificate.renew()
    assert [record.message for record in caplog.records] == ["certificate not loaded"]
