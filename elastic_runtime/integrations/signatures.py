"""The parameters of functions of others."""

import inspect
import sys
from collections.abc import Callable
from typing import Any


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """Without evaluating its annotations, which may name what is imported for type checkers only.

    From Python 3.14 on, `inspect.signature` evaluates them unless it is asked for their text.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.STRING)
    return inspect.signature(function)
