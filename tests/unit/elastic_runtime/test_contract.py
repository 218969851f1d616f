"""Nothing is believed that was not signed for this job, lately, and for the first time; and old and
new versions understand each other."""

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime import contract
from elastic_runtime.contract import Nonces, SizeRequest, State, Status

KEY = b"0123"
JOB = "uid-1"
NOW = 1_700_000_000.0
TEXT = st.text(alphabet="ab/1", max_size=4)
PARTS = st.tuples(TEXT, TEXT, TEXT, TEXT, TEXT)


def signed(
    *,
    key: bytes = KEY,
    method: str = "PUT",
    path: str = "/v1/size",
    job: str = JOB,
    body: bytes = b"{}",
    at: float = NOW,
) -> dict[str, str]:
    return contract.sign_request(key, method, path, job, "nonce-1", body, at)


def refused(
    headers: dict[str, str],
    *,
    body: bytes = b"{}",
    method: str = "PUT",
    path: str = "/v1/size",
    now: float = NOW,
) -> str | None:
    return Nonces().refused(KEY, method, path, JOB, headers, body, now)


def test_a_genuine_request_is_let_in() -> None:
    assert refused(signed()) is None


@pytest.mark.parametrize(
    ("headers", "how", "why"),
    [
        pytest.param({}, {}, "not signed", id="no signature"),
        pytest.param(
            {**signed(), contract.TIME_HEADER: "noon"}, {}, "not signed", id="a time that is none"
        ),
        pytest.param(
            {**signed(), contract.TIME_HEADER: "nan"},
            {},
            "signature",
            id="a time that compares with nothing",
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
        pytest.param(signed(at=NOW - contract.MAX_SKEW_S - 1), {}, "clock", id="stale"),
        pytest.param(signed(at=NOW + contract.MAX_SKEW_S + 1), {}, "clock", id="from the future"),
        pytest.param(signed(at=float("nan")), {}, "clock", id="signed for no time at all"),
    ],
)
def test_everything_else_gets_the_reason(
    headers: dict[str, str], how: dict[str, object], why: str
) -> None:
    assert why in (refused(headers, **how) or "")  # type: ignore[arg-type]


@given(
    sent=st.floats(-contract.MAX_SKEW_S + 0.01, contract.MAX_SKEW_S - 0.01),
    later=st.floats(0, 4 * contract.MAX_SKEW_S),
)
def test_a_request_is_believed_once_however_late_it_comes_again(sent: float, later: float) -> None:
    seen = Nonces()
    headers = signed(at=NOW + sent)
    assert seen.refused(KEY, "PUT", "/v1/size", JOB, headers, b"{}", NOW) is None
    seen.refused(
        KEY,
        "GET",
        "/v1/status",
        JOB,
        contract.sign_request(KEY, "GET", "/v1/status", JOB, "other", b"", NOW + later),
        b"",
        NOW + later,
    )
    assert seen.refused(KEY, "PUT", "/v1/size", JOB, headers, b"{}", NOW + later)


def another(seen: Nonces, nonce: str, now: float) -> str | None:
    """Why a first request, sent now by a clock that agrees, is refused."""
    headers = contract.sign_request(KEY, "GET", "/v1/status", JOB, nonce, b"", now)
    return seen.refused(KEY, "GET", "/v1/status", JOB, headers, b"", now)


@given(clock=st.lists(st.floats(-400, 119), max_size=8))
def test_a_clock_that_goes_back_lets_no_replay_through(clock: list[float]) -> None:
    seen = Nonces()
    headers = signed()
    assert seen.refused(KEY, "PUT", "/v1/size", JOB, headers, b"{}", NOW) is None
    for number, by in enumerate(clock):
        another(seen, str(number), NOW + by)
        assert seen.refused(KEY, "PUT", "/v1/size", JOB, headers, b"{}", NOW + by)


def test_a_clock_that_goes_back_shuts_nobody_out() -> None:
    seen = Nonces()
    assert [another(seen, str(by), NOW + by) for by in (0, 500, 440, 501, -80_000)] == [None] * 5


def test_what_is_remembered_while_a_clock_is_behind_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contract, "MOST_NONCES", 10)
    seen = Nonces()
    assert another(seen, "before", NOW + 80_000) is None
    assert [another(seen, str(number), NOW) for number in range(50)] == [None] * 50
    assert len(seen._seen) == 10


def test_what_cannot_come_again_is_forgotten() -> None:
    seen = Nonces()
    for number in range(1000):
        assert another(seen, str(number), NOW + number) is None
    assert len(seen._seen) <= 2 * contract.MAX_SKEW_S + 1


@given(a=PARTS, b=PARTS)
def test_no_two_requests_sign_the_same(
    a: tuple[str, str, str, str, str], b: tuple[str, str, str, str, str]
) -> None:
    assert (contract.sign(KEY, *a, b"") == contract.sign(KEY, *b, b"")) == (a == b)


def test_a_reply_answers_one_request_only() -> None:
    request = signed()
    other = contract.sign_request(KEY, "PUT", "/v1/size", JOB, "nonce-2", b"{}", NOW)
    signature = contract.sign_reply(KEY, 200, request, b"yes")[contract.SIGNATURE_HEADER]
    assert contract.reply_is_genuine(KEY, 200, request, signature, b"yes")
    assert not contract.reply_is_genuine(KEY, 200, other, signature, b"yes")
    assert not contract.reply_is_genuine(KEY, 500, request, signature, b"yes")
    assert not contract.reply_is_genuine(KEY, 200, request, signature, b"no")


def test_a_namespace_key_tells_nothing_of_another() -> None:
    assert (
        len({contract.derive_key(root, space) for root in (b"a", b"b") for space in ("x", "y")})
        == 4
    )


@given(
    status=st.builds(
        Status,
        state=st.sampled_from([State.TRAINING, State.STOPPED]),
        size=st.integers(0, 9),
        loss=st.floats(0, 9),
        digest=st.text(max_size=5),
        parked=st.lists(st.integers(0, 9)).map(tuple),
    )
)
def test_a_status_comes_back_as_it_was(status: Status) -> None:
    assert contract.decode_status(contract.encode(status)) == status


def test_a_newer_runtime_may_say_more_and_an_older_one_less() -> None:
    raw = json.dumps({**asdict(Status(step=7)), "of_tomorrow": {"x": 1}}).encode()
    assert contract.decode_status(raw) == Status(step=7)
    assert contract.decode_status(b'{"step": 7}') == Status(step=7, version=1)
    assert contract.decode_size(b'{"size": 3, "of_tomorrow": 1}') == SizeRequest(3, version=1)


# What version 1 put on the wire, recorded.
STATUS_1 = (
    b'{"state":"training","size":4,"wanted":4,"cession":"team-a/claim","generation":7,"step":120,"durableStep":100,"digest":"abab",'
    b'"stepSeconds":0.3125,"saveSeconds":1.5,"pauseSeconds":0.0213,"loss":0.693147,"parked":[4,5],"message":"","version":1}'
)
SIZE_1 = b'{"size":2,"cession":"team-a/claim","deadlineSeconds":30.0}'


def test_what_an_older_side_says_is_understood() -> None:
    status = contract.decode_status(STATUS_1)
    assert (status.state, status.size, status.step, status.parked, status.version) == (
        State.TRAINING,
        4,
        120,
        (4, 5),
        1,
    )
    assert status.busy == ""
    assert contract.decode_size(SIZE_1) == SizeRequest(2, "team-a/claim", 30.0, version=1)


@pytest.mark.parametrize(
    ("recorded", "now"),
    [(STATUS_1, contract.decode_status(STATUS_1)), (SIZE_1, contract.decode_size(SIZE_1))],
)
def test_an_older_side_finds_all_it_knows_as_it_knows_it(
    recorded: bytes, now: SizeRequest | Status
) -> None:
    """It ignores what it does not know, and takes each field it knows for what it was."""
    said = json.loads(contract.encode(now))
    assert {name: said[name] for name in json.loads(recorded)} == json.loads(recorded)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param({"version": 9, "oldest": 2}, "", id="newer, and it remembers"),
        pytest.param(
            {"version": 9, "oldest": 3},
            "version 9 .* none before 3, this one 2: update this one",
            id="too new for us",
        ),
        pytest.param(
            {"version": 0},
            "version 0 .*, this one 2 and none before 1: update the other",
            id="too old for us",
        ),
    ],
)
def test_who_cannot_be_understood_is_told_why(said: dict[str, int], why: str) -> None:
    for decode, body in (
        (contract.decode_status, {"state": "training"}),
        (contract.decode_size, {"size": 2}),
    ):
        if why:
            with pytest.raises(ValueError, match=why):
                decode(json.dumps(body | said).encode())
        else:
            assert decode(json.dumps(body | said).encode()).version == 9


@pytest.mark.parametrize(
    "said",
    [
        {"size": "x"},
        {"size": -1},
        {"size": True},
        {"size": 1.5},
        {"size": None},
        {"size": 2**60},
        {"step": "late"},
        {"durableStep": {}},
        {"state": 3},
        {"state": "x" * 2000},
        {"message": ["a"]},
        {"parked": "all"},
        {"parked": [1, "2"]},
        {"parked": [0] * 5000},
        {"saveSeconds": "1"},
        {"saveSeconds": float("nan")},
        {"stepSeconds": -1.0},
        {"pauseSeconds": float("inf")},
    ],
    ids=lambda said: json.dumps(said)[:40],
)
def test_a_status_of_wrong_types_is_none_whoever_signed_it(said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="it must be"):
        contract.decode_status(json.dumps({"state": "training", **said}).encode())


def test_a_loss_may_be_any_number() -> None:
    for loss in (-3.5, 0, float("inf")):
        assert contract.decode_status(json.dumps({"loss": loss}).encode()).loss == loss


def test_a_signature_of_any_text_is_only_wrong() -> None:
    headers = contract.sign_request(b"k", "GET", "/", "uid", "nonce", b"", 1.0)
    assert not contract.reply_is_genuine(b"k", 200, headers, "\u00e9\ud800", b"")
    assert contract.Nonces().refused(
        b"k", "GET", "/", "uid", {**headers, contract.SIGNATURE_HEADER: "\u00e9"}, b"", 1.0
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b'{"size": -1}',
        b'{"size": 4097}',
        b'{"size": "2"}',
        b'{"size": true}',
    ],
)
def test_a_size_that_is_none_is_refused_with_a_sentence(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"SizeRequest|size is"):
        contract.decode_size(body)


@pytest.mark.parametrize(
    ("status", "to", "ceded"),
    [
        pytest.param(Status(State.TRAINING, 4), 4, True, id="trains at the size"),
        pytest.param(Status(State.TRAINING, 3), 4, True, id="trains below it"),
        pytest.param(Status(State.TRAINING, 8), 4, False, id="trains above it"),
        pytest.param(Status(State.RESIZING, 4), 4, False, id="still moving"),
        pytest.param(Status(State.STARTING), 4, False, id="not started: nothing is known"),
        pytest.param(Status(State.STOPPED), 0, True, id="stopped"),
        pytest.param(Status(State.STOPPING, 4), 0, False, id="still saving"),
    ],
)
def test_when_a_job_has_ceded(status: Status, to: int, ceded: bool) -> None:
    assert replace(status, wanted=to).ceded(to) is ceded
