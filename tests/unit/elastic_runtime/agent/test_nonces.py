"""Only requests that are signed for this job, recent and new are accepted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime import contract
from elastic_runtime.agent import nonces as nonces_module
from elastic_runtime.agent.nonces import MAX_SKEW_S, Nonces

KEY = b"0123"
JOB = "uid-1"
NOW = 1_700_000_000.0
# When the port began to listen.
LONG_AGO = NOW - 1000


def signed(
    *,
    key: bytes = KEY,
    method: str = "PUT",
    path: str = "/v1/size",
    job: str = JOB,
    body: bytes = b"{}",
    now: float = NOW,
) -> dict[str, str]:
    return contract.sign_request(key, method, path, job, "nonce-1", body, now)


def refusal(
    headers: dict[str, str],
    *,
    body: bytes = b"{}",
    method: str = "PUT",
    path: str = "/v1/size",
    now: float = NOW,
) -> str | None:
    return Nonces(LONG_AGO).refusal(KEY, method, path, JOB, headers, body, now)


def test_genuine_request_is_accepted() -> None:
    assert refusal(signed()) is None


@pytest.mark.parametrize(
    ("headers", "changes", "reason"),
    [
        pytest.param({}, {}, "not signed", id="no signature"),
        pytest.param(
            {**signed(), contract.TIME_HEADER: "noon"}, {}, "not signed", id="time is no number"
        ),
        pytest.param(
            {**signed(), contract.TIME_HEADER: "nan"},
            {},
            "signature",
            id="time is NaN",
        ),
        pytest.param(signed(key=b"other"), {}, "signature", id="another namespace's key"),
        pytest.param(signed(), {"body": b'{"size":1}'}, "signature", id="another body"),
        pytest.param(signed(), {"method": "POST"}, "signature", id="another method"),
        pytest.param(signed(), {"path": "/v1/checkpoint"}, "signature", id="another call"),
        pytest.param(
            {**signed(), contract.NONCE_HEADER: "nonce-2"}, {}, "signature", id="another nonce"
        ),
        pytest.param(
            signed(job="uid-2"), {}, "another job", id="another job of the same namespace"
        ),
        pytest.param(signed(now=NOW - MAX_SKEW_S - 1), {}, "clock", id="stale"),
        pytest.param(signed(now=NOW + MAX_SKEW_S + 1), {}, "clock", id="from the future"),
        pytest.param(signed(now=float("nan")), {}, "clock", id="signed for the time NaN"),
    ],
)
def test_other_requests_are_refused_with_the_reason(
    headers: dict[str, str], changes: dict[str, Any], reason: str
) -> None:
    assert reason in (refusal(headers, **changes) or "")


@given(
    sent=st.floats(-MAX_SKEW_S + 0.01, MAX_SKEW_S - 0.01),
    later=st.floats(0, 4 * MAX_SKEW_S),
)
def test_request_is_accepted_once_however_late_its_replay(sent: float, later: float) -> None:
    nonces = Nonces(LONG_AGO)
    headers = signed(now=NOW + sent)
    assert nonces.refusal(KEY, "PUT", "/v1/size", JOB, headers, b"{}", NOW) is None
    send_status_request(nonces, "other", NOW + later)
    assert nonces.refusal(KEY, "PUT", "/v1/size", JOB, headers, b"{}", NOW + later)


def send_status_request(nonces: Nonces, nonce: str, now: float) -> str | None:
    """Why a request that is signed `now`, by the same clock, is refused."""
    headers = contract.sign_request(KEY, "GET", "/v1/status", JOB, nonce, b"", now)
    return nonces.refusal(KEY, "GET", "/v1/status", JOB, headers, b"", now)


@given(offsets=st.lists(st.floats(-400, 119), max_size=8))
def test_clock_that_goes_back_accepts_no_replay(offsets: list[float]) -> None:
    nonces = Nonces(LONG_AGO)
    headers = signed()
    assert nonces.refusal(KEY, "PUT", "/v1/size", JOB, headers, b"{}", NOW) is None
    for number, offset in enumerate(offsets):
        send_status_request(nonces, str(number), NOW + offset)
        assert nonces.refusal(KEY, "PUT", "/v1/size", JOB, headers, b"{}", NOW + offset)


def test_clock_that_goes_back_refuses_no_new_request() -> None:
    nonces = Nonces(LONG_AGO)
    for offset in (0, 500, 440, 501, -80_000):
        assert send_status_request(nonces, str(offset), NOW + offset) is None


def test_number_of_nonces_is_bounded_while_the_clock_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nonces_module, "MAX_NONCES", 10)
    nonces = Nonces(LONG_AGO)
    assert send_status_request(nonces, "before", NOW + 80_000) is None
    for number in range(50):
        assert send_status_request(nonces, str(number), NOW) is None
    assert len(nonces._times) == 10


def test_nonces_beyond_the_skew_window_are_forgotten() -> None:
    nonces = Nonces(LONG_AGO)
    for number in range(1000):
        assert send_status_request(nonces, str(number), NOW + number) is None
    assert len(nonces._times) <= 2 * MAX_SKEW_S + 1


def test_request_from_before_the_start_is_refused_as_an_earlier_process_may_have_seen_it() -> None:
    nonces = Nonces(NOW)
    headers = signed(now=NOW - 1)
    reason = nonces.refusal(KEY, "PUT", "/v1/size", JOB, headers, b"{}", NOW + 1)
    assert reason == "the request was sent before this pod started: send a new one"
    assert send_status_request(nonces, "new", NOW + 1) is None


def test_clock_that_was_ahead_at_the_start_and_goes_back_refuses_no_new_request() -> None:
    nonces = Nonces(NOW + 3600)
    assert send_status_request(nonces, "new", NOW) is None


def test_signature_may_be_any_text() -> None:
    headers = {**signed(), contract.SIGNATURE_HEADER: "\u00e9"}
    assert refusal(headers) == "the signature is wrong"


def test_an_order_of_before_a_restart_is_refused() -> None:
    """A new agent knows no nonce; what was sent before it started may have been taken."""
    sent_at = NOW - 5
    headers = contract.sign_request(KEY, "PUT", contract.SIZE_PATH, JOB, "captured", b"{}", sent_at)
    refusal = Nonces(NOW).refusal(KEY, "PUT", contract.SIZE_PATH, JOB, headers, b"{}", NOW)
    assert refusal
    assert "before this pod started" in refusal
