"""A rank's start in less than half the time: torch's compiler is imported when something compiles,
and not before.

torch's optimizers import `torch._dynamo` (torch 2.15: 4 s of a core and 200 MB) only to tell it to
leave them alone. Until anything asks
for more of it than that, a stand-in says "as you wish"; whatever else is asked of it brings the
real one.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

NAME = "torch._dynamo"


class _Later(ModuleType):
    """In `sys.modules` under the compiler's name, until an attribute is asked for that only the
    real one has."""

    def graph_break(self, msg: str = "") -> None:
        """Outside a compiled function it does nothing in the real one either."""

    def disable(
        self, fn: Callable[..., Any], recursive: bool = True, *, wrapping: bool = True
    ) -> Callable[..., Any]:
        """`fn` as it is: nothing is compiled yet that could have taken it in."""
        return fn

    def __getattr__(self, name: str) -> Any:
        # asked by the import system, and by `inspect` of every module there is
        if name in ("__spec__", "__file__", "__loader__"):
            raise AttributeError(name)
        return getattr(_bring(), name)


def _bring() -> ModuleType:
    if isinstance(sys.modules.get(NAME), _Later):
        del sys.modules[NAME]
    return importlib.import_module(NAME)


def defer_compiler() -> None:
    """Afterwards plain training does not import torch's compiler. Does nothing when it is there
    already."""
    if NAME not in sys.modules:
        sys.modules[NAME] = _Later(NAME)
