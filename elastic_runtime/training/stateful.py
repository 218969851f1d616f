"""What a script may give a session to keep with the state."""

from typing import Any, Protocol


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


class Schedule(Stateful, Protocol):
    """Stepped once when a step is committed."""

    def step(self) -> Any: ...
