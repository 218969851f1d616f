"""A signature belongs to one request, and that of a reply to the request that it answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime import contract

KEY = b"0123"
JOB = "uid-1"
NOW = 1_700_000_000.0
TEXT = st.text(alphabet="ab/1", max_size=4)
PARTS = st.tuples(TEXT, TEXT, TEXT, TEXT, TEXT)


@given(first=PARTS, second=PARTS)
def test_different_requests_have_different_signatures(
    first: tuple[str, str, str, str, str], second: tuple[str, str, str, str, str]
) -> None:
    is_same = contract.sign(KEY, *first, b"") == contract.sign(KEY, *second, b"")
    assert is_same == (first == second)


def test_reply_answers_one_request_only() -> None:
    request = contract.sign_request(KEY, "PUT", "/v1/size", JOB, "nonce-1", b"{}", NOW)
    other = contract.sign_request(KEY, "PUT", "/v1/size", JOB, "nonce-2", b"{}", NOW)
    signature = contract.sign_reply(KEY, 200, request, b"yes")[contract.SIGNATURE_HEADER]
    assert contract.reply_is_genuine(KEY, 200, request, signature, b"yes")
    assert not contract.reply_is_genuine(KEY, 200, other, signature, b"yes")
    assert not contract.reply_is_genuine(KEY, 500, request, signature, b"yes")
    assert not contract.reply_is_genuine(KEY, 200, request, signature, b"no")


def test_every_namespace_and_root_has_its_own_key() -> None:
    keys = {contract.derive_key(root, space) for root in (b"a", b"b") for space in ("x", "y")}
    assert len(keys) == 4


def test_signature_of_a_reply_may_be_any_text() -> None:
    headers = contract.sign_request(b"k", "GET", "/", "uid", "nonce", b"", 1.0)
    assert not contract.reply_is_genuine(b"k", 200, headers, "\u00e9\ud800", b"")


def test_a_replaced_key_stays_valid_for_a_while() -> None:
    content = contract.replace_key(b"a", b"b", b"a", NOW)
    assert contract.valid_keys(content, NOW) == (b"b", b"a")
    assert contract.valid_keys(content, NOW + contract.KEY_OVERLAP_S) == (b"b",)
    later = contract.replace_key(content, b"b", b"a", NOW + 9)
    assert later == content, "the same key has the same end"
    assert contract.replace_key(content, b"b", b"a", NOW - 60) == content, "by a slower clock too"
    again = contract.replace_key(content, b"c", b"b", NOW)
    assert contract.valid_keys(again, NOW) == (b"c", b"b")
    assert contract.replace_key(b"", b"a", b"", NOW) == b"a"


@pytest.mark.parametrize(
    "content", [b"stolen", b"b\nstolen 9999999999", b"b\na 9999999999", b"b\na", b"b\na soon", b""]
)
def test_nobody_adds_a_key_to_the_file(content: bytes) -> None:
    assert contract.replace_key(content, b"b", b"a", NOW) == b"b"
