"""PURE. A request to save a running job now: what the user writes on the Job, and the answer."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from cede.api import names
from cede.api.reasons import SaveState

MAX_REQUEST = 64
"""Characters of a request that count."""
MAX_MESSAGE = 500
# JSON has at most 12 characters for one of a text
_MAX_ANSWER = 8192
_STATES = {state.value: state for state in SaveState}


@dataclass(frozen=True, slots=True)
class SaveAnswer:
    """What became of a request."""

    request: str
    state: SaveState
    # RFC 3339: since when
    time: str
    # how often the job was asked
    attempts: int = 0
    # of the job when it was asked; once it has saved, the step that is saved
    step: int = 0
    # why it has not saved; while it is asked, what it reports of an earlier save that failed
    message: str = ""

    @property
    def is_final(self) -> bool:
        return self.state in (SaveState.SAVED, SaveState.NOT_SAVED)

    def text(self) -> str:
        """Of the annotation."""
        return json.dumps(asdict(self) | {"message": self.message[:MAX_MESSAGE]})


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """Any text; another text is another request."""

    text: str
    # None while the scheduler has not seen it
    answer: SaveAnswer | None = None

    @property
    def is_open(self) -> bool:
        return self.answer is None or not self.answer.is_final


def read(annotations: Mapping[str, str]) -> SaveRequest | None:
    """The request of a Job; None if it has none."""
    text = annotations.get(names.SAVE_REQUESTED, "")[:MAX_REQUEST]
    if not text:
        return None
    answer = _parse(annotations.get(names.SAVE_ANSWER, ""))
    return SaveRequest(text, answer if answer and answer.request == text else None)


def _parse(text: str) -> SaveAnswer | None:
    """None for what no scheduler wrote: users may write anything into annotations."""
    if not text or len(text) > _MAX_ANSWER:
        return None
    try:
        raw = json.loads(text)
        answer = SaveAnswer(**raw | {"state": _STATES[raw["state"]]})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    texts = (answer.request, answer.time, answer.message)
    # True is a number in Python
    numbers = (type(answer.attempts), type(answer.step))
    is_ours = all(isinstance(value, str) for value in texts) and numbers == (int, int)
    return answer if is_ours and answer.attempts >= 0 else None
