"""Questions of the page, and how they are asked."""

import json

import pytest

from cede.dashboard import questions
from cede.dashboard.questions import BadQuestion, Predictions, Question, read_question
from cede.prediction import Prediction


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        pytest.param(b"", "this is no question", id="nothing"),
        pytest.param(b'{"question": "delete"}', "this is no question", id="another question"),
        pytest.param(
            b'{"question": "drain", "kubeconfig": "/etc/x"}', "this is no question", id="an option"
        ),
        pytest.param(b'{"question": "drain"}', "no node is named", id="no node"),
        pytest.param(b'{"question": "submit"}', "there is no manifest", id="no manifest"),
    ],
)
def test_what_is_no_question_is_refused_in_a_line(body: bytes, complaint: str) -> None:
    with pytest.raises(BadQuestion, match=complaint):
        read_question(body)


def test_a_question_is_read() -> None:
    body = json.dumps({"question": "submit", "manifest": "kind: Job", "namespace": "vision"})
    assert read_question(body.encode()) == Question("submit", "kind: Job", "vision")


async def test_words_of_the_person_are_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--kubeconfig=…` as the name of a node would read a file of the server."""
    asked = []

    async def predict(*arguments: object, **options: object) -> Prediction:
        asked.append((arguments, options))
        return Prediction(2, "", "whatif: node --x is not there\nwhatif: nor is y\n")

    monkeypatch.setattr(questions, "predict", predict)
    drain = Question("drain", nodes=("--kubeconfig=/etc/shadow", "y"))
    answer = await Predictions().answer(drain, "own", open_files=(9,))
    assert answer == Prediction(2, "", "node --x is not there\nnor is y")
    [(arguments, options)] = asked
    assert arguments == (
        "drain",
        {"kubeconfig": "own", "context": None, "output": "text"},
        ["--kubeconfig=/etc/shadow", "y"],
    )
    assert options == {"manifest": b"", "open_files": (9,)}


async def test_without_the_program_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "is_installed", lambda: False)
    answer = await Predictions().answer(Question("drain", nodes=("n",)), None)
    assert answer.errors.startswith("the program that answers is not installed here: ")


async def test_an_answer_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "LONGEST_S", 0.0)
    answer = await Predictions().answer(Question("drain", nodes=("n",)), None)
    assert (answer.code, answer.errors) == (1, "there was no answer within 0 s")
