"""Imports torch's compiler only when something is compiled: a rank starts in half the time.

torch's optimizers import `torch._dynamo` (4 s of a core and 200 MB in torch 2.15) only to exclude
themselves from compilation. A placeholder module answers that; any other use of it imports the real
module.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

NAME = "torch._dynamo"


class _Placeholder(ModuleType):
    """In `sys.modules` under the compiler's name, until an attribute is used that it lacks."""

    def graph_break(self, msg: str = "") -> None:
        """Outside a compiled function the real one does nothing either."""

    def disable(
        self, fn: Callable[..., Any], recursive: bool = True, *, wrapping: bool = True
    ) -> Callable[..., Any]:
        """`fn` itself: nothing is compiled yet that could have included it."""
        return fn

    def __getattr__(self, name: str) -> Any:
        # The import system and `inspect` ask every module for these.
        if name in ("__spec__", "__file__", "__loader__"):
            raise AttributeError(name)
        return getattr(_import_compiler(), name)


def _import_compiler() -> ModuleType:
    if isinstance(sys.modules.get(NAME), _Placeholder):
        del sys.modules[NAME]
    return importlib.import_module(NAME)


def defer_compiler() -> None:
    """From now on training without compilation does not import the compiler.

    Does nothing if it is imported already.
    """
    if NAME not in sys.modules:
        sys.modules[NAME] = _Placeholder(NAME)
