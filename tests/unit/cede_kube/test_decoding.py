"""Pages, events and refusals from their bytes."""

import json

import pytest

from cede.api.kueue import Job
from cede.api.objects import Json
from cede.kube import decoding
from cede.kube.decoding import WatchEvent, decoder
from cede.kube.errors import Gone, Unreadable


def job(name: str, **metadata: str) -> Json:
    return {"metadata": {"name": name, "namespace": "a", **metadata}, "spec": {"parallelism": 2}}


def encode(body: Json) -> bytes:
    return json.dumps(body).encode()


def test_a_page_has_objects_a_version_and_the_next_page() -> None:
    metadata = {"resourceVersion": "7", "continue": "more"}
    content = encode({"metadata": metadata, "items": [job("x"), job("y")]})
    objects, version, next_page = decoding.page(content, decoder(Job))
    assert [item.metadata.name for item in objects] == ["x", "y"]
    assert (version, next_page) == ("7", "more")


def test_the_last_page_has_no_next_one() -> None:
    content = encode({"metadata": {"resourceVersion": "7"}, "items": []})
    assert decoding.page(content, decoder(dict)) == ([], "7", "")


def test_an_event_has_its_object_and_version() -> None:
    line = encode({"type": "ADDED", "object": job("x", resourceVersion="8")})
    event = decoding.event(line, decoder(Job))
    assert (event.type, event.version, event.initial_end) == ("ADDED", "8", False)
    assert event.object is not None
    assert event.object.spec.parallelism == 2


@pytest.mark.parametrize("initial_end", [False, True])
def test_a_bookmark_has_no_object(initial_end: bool) -> None:
    annotations = {decoding.INITIAL_EVENTS_END: "true"} if initial_end else {}
    metadata = {"resourceVersion": "9", "annotations": annotations}
    line = encode({"type": "BOOKMARK", "object": {"metadata": metadata}})
    expected: WatchEvent[Job] = WatchEvent("BOOKMARK", None, "9", initial_end)
    assert decoding.event(line, decoder(Job)) == expected


def test_an_error_event_is_raised() -> None:
    status = {"code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(Gone, match="410 Expired: too old"):
        decoding.event(encode({"type": "ERROR", "object": status}), decoder(Job))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        pytest.param(encode(job("odd") | {"spec": 7}), "Job a/odd", id="by its name"),
        pytest.param(b"<html>", "Job <html>", id="by its first bytes"),
    ],
)
def test_an_unreadable_object_is_named(content: bytes, name: str) -> None:
    with pytest.raises(Unreadable, match=name):
        decoder(Job)(content)


def test_what_cannot_be_read_is_left_out_of_a_page_and_marked_in_an_event() -> None:
    odd = job("odd", resourceVersion="8") | {"spec": 7}
    unreadable = list[Unreadable]()
    content = encode({"metadata": {"resourceVersion": "7"}, "items": [odd, job("x")]})
    objects, _, _ = decoding.page(content, decoder(Job), unreadable)
    assert [item.metadata.name for item in objects] == ["x"]
    assert [error.key for error in unreadable] == [("a", "odd")]
    event = decoding.event(encode({"type": "MODIFIED", "object": odd}), decoder(Job))
    assert (event.object, event.version) == (None, "8")
    assert event.error is not None
    assert event.error.key == ("a", "odd")


def test_a_page_that_is_no_list_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="no list"):
        decoding.page(b"<html>", decoder(Job))


def test_a_refusal_without_a_status_object_keeps_its_first_bytes() -> None:
    error = decoding.refusal(502, b"<h1>" + b"x" * 500, "Bad Gateway", "")
    assert str(error) == f"502 Bad Gateway: <h1>{'x' * 196}"
