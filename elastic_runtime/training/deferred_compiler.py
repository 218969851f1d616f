"""Imports torch's compiler only when something is compiled: a rank starts in half the time.

torch's optimizers import `torch._dynamo` (5 s of a core and 150 MB in torch 2.15) only to exclude
themselves from compilation. Until anything else uses it, a placeholder module answers torch's own
optimizers, and nobody else: every other use imports the real module and is answered by that. What
the placeholder answered is then asked again. So nobody but a clock notices it.

A script that wants the compiler at once imports `torch._dynamo` before this package.
"""

import importlib
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

NAME = "torch._dynamo"
# Where `torch._compile` keeps what `disable` returned for a function.
CACHE = "__dynamo_disable"

_lock = threading.Lock()
_not_disabled_yet: list[Callable[..., Any]] = []


def _graph_break() -> None:
    """Outside a compiled function the real one does nothing either."""


def _disable_later(fn: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
    """`fn` itself: nothing is compiled yet that could include it."""
    _not_disabled_yet.append(fn)
    return fn


# (module that asks, name) → answer
_ANSWERS = {
    ("torch._compile", "disable"): _disable_later,
    ("torch.optim.optimizer", "graph_break"): _graph_break,
}


class _Placeholder(ModuleType):
    """In `sys.modules` under the compiler's name, until it is used."""

    def __init__(self) -> None:
        super().__init__(NAME)
        # The import system and `inspect` ask every module for these. `__path__` is missing, so
        # that importing a submodule imports the package first (`_AlreadyImported`).
        spec = find_spec(NAME)
        assert spec
        vars(self).update(__spec__=spec, __loader__=spec.loader, __file__=spec.origin)

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":
            _import_compiler()
            if _already_imported not in sys.meta_path:
                sys.meta_path.insert(0, _already_imported)
        asker = sys._getframe(1).f_globals.get("__name__", "")
        return _ANSWERS.get((asker, name)) or getattr(_import_compiler(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_import_compiler(), name, value)

    def __dir__(self) -> list[str]:
        return dir(_import_compiler())


class _AlreadyImported(MetaPathFinder, Loader):
    """Answers one search for a module, if the module is there already: with that module.

    An import of a submodule asks the package for `__path__` when it has just seen that the
    submodule is missing. The answer imports the compiler, and with it most submodules; without this
    finder, the one that was asked for would run a second time.
    """

    def find_spec(
        self, name: str, _: object, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Another thread's import may have removed it.
        with suppress(ValueError):
            sys.meta_path.remove(self)
        # `target`: a reload.
        if target or name not in sys.modules:
            return None
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self._module = sys.modules[spec.name]
        self._spec = self._module.__spec__
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # Not by assignment: some modules refuse that.
        vars(module)["__spec__"] = self._spec


_already_imported = _AlreadyImported()


def _import_compiler() -> ModuleType:
    with _lock:
        if isinstance(sys.modules.get(NAME), _Placeholder):
            del sys.modules[NAME]
    compiler = importlib.import_module(NAME)
    while _not_disabled_yet:
        # torch asks again at the next call.
        vars(_not_disabled_yet.pop()).pop(CACHE, None)
    return compiler


def defer_compiler() -> None:
    """From now on training without compilation does not import the compiler.

    Does nothing if it is imported already.
    """
    if NAME not in sys.modules:
        sys.modules[NAME] = _Placeholder()
