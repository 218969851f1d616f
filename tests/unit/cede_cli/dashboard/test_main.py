"""The flags of the deployment."""

import pytest

from cede.dashboard.__main__ import parse_flags


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        pytest.param("http://cede.example", "is not encrypted", id="tokens could be read"),
        pytest.param("cede.example", "should be a scheme and a host", id="no scheme"),
        pytest.param("https://cede.example/a", "should be a scheme and a host", id="a path"),
        pytest.param("ftp://cede.example", "should be a scheme and a host", id="another scheme"),
    ],
)
def test_an_address_that_cannot_be_right_is_refused(
    address: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_flags(["--address", address])
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("address", ["https://cede.example", "http://localhost:8443"])
def test_encrypted_addresses_and_forwarded_ports_are_taken(address: str) -> None:
    assert parse_flags(["--address", f"{address}/"]).address == address
