"""The messages of the contract are checked, and old and new versions understand each other."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime import contract
from elastic_runtime.contract import SizeRequest, State, Status

Decoder = Callable[[bytes], SizeRequest | Status]
MESSAGES = pytest.mark.parametrize(
    ("decode", "message"),
    [(contract.decode_status, {"state": "training"}), (contract.decode_size, {"size": 2})],
    ids=["status", "size"],
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
def test_status_round_trip(status: Status) -> None:
    assert contract.decode_status(contract.encode(status)) == status


def test_unknown_fields_are_ignored_missing_ones_have_defaults() -> None:
    raw = json.dumps({**asdict(Status(step=7)), "of_tomorrow": {"x": 1}}).encode()
    assert contract.decode_status(raw) == Status(step=7)
    assert contract.decode_status(b'{"step": 7}') == Status(step=7, version=1)
    assert contract.decode_size(b'{"size": 3, "of_tomorrow": 1}') == SizeRequest(3, version=1)


# Recorded messages of version 1.
STATUS_1 = (
    b'{"state":"training","size":4,"wanted":4,"cession":"team-a/claim","generation":7,"step":120,'
    b'"durableStep":100,"digest":"abab",'
    b'"stepSeconds":0.3125,"saveSeconds":1.5,"pauseSeconds":0.0213,"loss":0.693147,'
    b'"parked":[4,5],"message":"","version":1}'
)
SIZE_1 = b'{"size":2,"cession":"team-a/claim","deadlineSeconds":30.0}'


def test_messages_of_version_1_are_understood() -> None:
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
    ("recorded", "message"),
    [(STATUS_1, contract.decode_status(STATUS_1)), (SIZE_1, contract.decode_size(SIZE_1))],
)
def test_version_1_understands_what_this_version_sends(
    recorded: bytes, message: SizeRequest | Status
) -> None:
    """Version 1 ignores fields that it does not know; those it knows have not changed."""
    encoded = json.loads(contract.encode(message))
    assert {name: encoded[name] for name in json.loads(recorded)} == json.loads(recorded)


@pytest.mark.parametrize(
    ("versions", "sentence"),
    [
        pytest.param(
            {"version": 9, "oldest": 3},
            "the peer requires version 3 of the contract, this side supports 2: upgrade this side",
            id="peer is too new",
        ),
        pytest.param(
            {"version": 0},
            "the peer supports version 0 of the contract, this side requires 1: upgrade the peer",
            id="peer is too old",
        ),
    ],
)
@MESSAGES
def test_incompatible_version_is_refused_with_the_cure(
    decode: Decoder, message: dict[str, Any], versions: dict[str, int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        decode(json.dumps(message | versions).encode())


@MESSAGES
def test_newer_peer_that_supports_this_version(decode: Decoder, message: dict[str, Any]) -> None:
    body = json.dumps(message | {"version": 9, "oldest": 2}).encode()
    assert decode(body).version == 9


@pytest.mark.parametrize(
    "values",
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
    ids=lambda values: json.dumps(values)[:40],
)
def test_status_of_wrong_types_is_refused_though_signed(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="it must be"):
        contract.decode_status(json.dumps({"state": "training", **values}).encode())


def test_loss_may_be_any_number() -> None:
    for loss in (-3.5, 0, float("inf")):
        assert contract.decode_status(json.dumps({"loss": loss}).encode()).loss == loss


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
def test_invalid_size_is_refused_with_a_sentence(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"SizeRequest|size is"):
        contract.decode_size(body)


@pytest.mark.parametrize(
    ("status", "size", "ceded"),
    [
        pytest.param(Status(State.TRAINING, 4), 4, True, id="trains at the size"),
        pytest.param(Status(State.TRAINING, 3), 4, True, id="trains below it"),
        pytest.param(Status(State.TRAINING, 8), 4, False, id="trains above it"),
        pytest.param(Status(State.RESIZING, 4), 4, False, id="still resizes"),
        pytest.param(Status(State.STARTING), 4, False, id="not started: its size is unknown"),
        pytest.param(Status(State.STOPPED), 0, True, id="stopped"),
        pytest.param(Status(State.STOPPING, 4), 0, False, id="still saves"),
    ],
)
def test_ceded(status: Status, size: int, ceded: bool) -> None:
    assert replace(status, wanted=size).ceded(size) is ceded


def test_a_status_without_a_loss_has_none() -> None:
    """As it is written where the loss is NaN: 0.0 would look like a perfect model."""
    assert contract.decode_status(contract.encode(contract.Status(step=4))).loss is None
