"""What-if on the page: a question as the browser sends it, and its answer by the program `whatif`.

A program of its own is started for each, so they come one after the other.
"""

import asyncio
from collections.abc import Sequence
from typing import Literal

import msgspec

from cede.prediction import NOT_HERE, Prediction, is_installed, predict

LONGEST_S = 120.0
"""A cluster of 10,000 jobs is answered in a few seconds."""
PREFIX = "whatif: "
"""Before each of its errors."""
STDIN = "-"


class BadQuestion(ValueError):
    """A line that says what is wrong."""


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    question: Literal["submit", "allocation", "drain"]
    # YAML or JSON, of a Job or a ComputeAllocation
    manifest: str = ""
    # of the Job, if it names none
    namespace: str = ""
    # to drain
    nodes: Sequence[str] = ()


def read_question(body: bytes) -> Question:
    """Raises BadQuestion."""
    try:
        question = msgspec.json.decode(body, type=Question)
    except msgspec.DecodeError as error:
        raise BadQuestion(f"this is no question: {error}") from error
    if question.question == "drain" and not question.nodes:
        raise BadQuestion("no node is named: name those that are drained")
    if question.question != "drain" and not question.manifest.strip():
        raise BadQuestion("there is no manifest: paste the YAML of the object")
    return question


class Predictions:
    """Answers one question after the other."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def answer(
        self,
        question: Question,
        kubeconfig: str | None,
        context: str | None = None,
        open_files: Sequence[int] = (),
    ) -> Prediction:
        """With the rights of the kubeconfig. What goes wrong is in the answer."""
        if not is_installed():
            return Prediction(2, "", NOT_HERE)
        try:
            async with self._turn, asyncio.timeout(LONGEST_S):
                answer = await _ask(question, kubeconfig, context, open_files)
        except TimeoutError:
            return Prediction(1, "", f"there was no answer within {LONGEST_S:.0f} s")
        errors = (line.removeprefix(PREFIX) for line in answer.errors.splitlines())
        return Prediction(answer.code, answer.text, "\n".join(errors))


async def _ask(
    question: Question, kubeconfig: str | None, context: str | None, open_files: Sequence[int]
) -> Prediction:
    options = {"kubeconfig": kubeconfig, "context": context, "output": "text"}
    if question.question == "drain":
        words = list(question.nodes)
        return await predict("drain", options, words, manifest=b"", open_files=open_files)
    options["filename"] = STDIN
    if question.question == "submit":
        options["namespace"] = question.namespace or None
    return await predict(
        question.question,
        options,
        manifest=question.manifest.encode(),
        open_files=open_files,
    )
