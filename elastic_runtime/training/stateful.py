"""The protocols of objects that a script passes to a session."""

from typing import Any, Protocol


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...


class LRScheduler(Stateful, Protocol):
    """The session calls `step` when a step is committed."""

    def step(self) -> Any: ...
