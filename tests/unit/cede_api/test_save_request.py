"""A request to save, and its answer, as annotations that anybody may write."""

import json

import pytest

from cede.api import names
from cede.api.reasons import SaveState
from cede.api.save_request import MAX_MESSAGE, SaveAnswer, SaveRequest, read

ANSWER = SaveAnswer("r-1", SaveState.ASKED, "2026-01-31T12:00:00Z", attempts=2, step=7, message="m")


def annotations(request: str, answer: str = "") -> dict[str, str]:
    return {names.SAVE_REQUESTED: request, names.SAVE_ANSWER: answer}


def test_a_job_without_the_annotation_has_no_request() -> None:
    assert read({}) is None
    assert read({names.SAVE_ANSWER: ANSWER.text()}) is None


def test_an_answer_comes_back_as_it_was_written() -> None:
    assert read(annotations("r-1", ANSWER.text())) == SaveRequest("r-1", ANSWER)


def test_the_answer_to_another_request_is_none() -> None:
    assert read(annotations("r-2", ANSWER.text())) == SaveRequest("r-2", None)


@pytest.mark.parametrize("state", SaveState)
def test_a_request_is_open_until_it_has_saved_or_failed(state: SaveState) -> None:
    is_final = state in (SaveState.SAVED, SaveState.NOT_SAVED)
    assert SaveRequest("r", SaveAnswer("r", state, "")).is_open == (not is_final)
    assert SaveRequest("r").is_open


def test_a_long_request_is_answered_and_not_repeated_in_full() -> None:
    request = read(annotations("r" * 10_000))
    assert request == SaveRequest("r" * 64)
    answer = SaveAnswer(request.text, SaveState.SAVED, "t")
    assert read(annotations("r" * 10_000, answer.text())) == SaveRequest(request.text, answer)


@pytest.mark.parametrize("character", ["x", "\0", '"', "é", "🔥", "\ud800"])
def test_a_long_reason_is_shortened_and_can_be_read_again(character: str) -> None:
    """An answer that cannot be read would be written again and again."""
    text = character * 64
    answer = SaveAnswer(text, SaveState.NOT_SAVED, "t", message=character * 5000)
    request = read(annotations(text, answer.text()))
    assert request
    assert request.answer
    assert len(request.answer.message) == MAX_MESSAGE


@pytest.mark.parametrize(
    "text",
    [
        "saved",
        "[]",
        "7",
        "{}",
        "[" * 4000,
        "x" * 100_000,
        json.dumps({"request": "r-1", "state": "Done", "time": "t"}),
        json.dumps({"request": "r-1", "state": "Saved"}),
        json.dumps({"request": "r-1", "state": "Saved", "time": "t", "more": 1}),
        json.dumps({"request": "r-1", "state": "Saved", "time": 5}),
        json.dumps({"request": "r-1", "state": "Saved", "time": "t", "step": "7"}),
        json.dumps({"request": "r-1", "state": "Saved", "time": "t", "attempts": True}),
        json.dumps({"request": "r-1", "state": "Saved", "time": "t", "message": None}),
        json.dumps({"request": "r-1", "state": "Asked", "time": "t", "attempts": -9}),
    ],
)
def test_what_no_scheduler_wrote_is_no_answer(text: str) -> None:
    assert read(annotations("r-1", text)) == SaveRequest("r-1", None)
