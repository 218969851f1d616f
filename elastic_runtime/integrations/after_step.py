"""What a framework does after a committed step, as a part of the session's state.

A step is committed first, and then the framework logs, evaluates and calls its callbacks. What
these change belongs to the state of that step. So a worker that receives the state, or reads it
from a checkpoint, either has all of it, or none and does it again.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

State = dict[str, Any]


class AfterStep:
    """Has the state_dict that the session saves, and sends to workers that join.

    `read`: the framework's state as data that JSON holds, a copy that does not change when the
    framework goes on. `write`: gives it back. `step`: the last one whose end is in the state.
    """

    def __init__(self, read: Callable[[], State], write: Callable[[State], None]) -> None:
        self._read = read
        self._write = write
        self.step = 0
        # While a step is followed: what was read before.
        self._before: State | None = None

    @contextmanager
    def following(self, step: int) -> Iterator[None]:
        """Inside, the state is what it was before; afterwards it has the end of `step`."""
        self._before = self._read()
        try:
            yield
            self.step = step
        finally:
            self._before = None

    def state_dict(self) -> State:
        """With one text: a tree would be as many entries of a checkpoint as there are log lines."""
        state = self._read() if self._before is None else self._before
        return {"step": self.step, "text": json.dumps(state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        loaded = json.loads(state["text"])
        if self._before is not None:
            if state["step"] == self.step:
                # This worker's own state, given back while it follows the same step.
                return
            # The job is at another step. The session takes back what follows here.
            self._before = loaded
        self.step = int(state["step"])
        self._write(loaded)
