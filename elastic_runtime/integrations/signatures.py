"""The parameters of functions of others."""

import inspect
import sys
from collections.abc import Callable
from typing import Any


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """Without evaluating its annotations, which may name what is imported for type checkers only.

    Python evaluates them with the function until 3.13, and by default here from 3.14 on.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.STRING)
    return inspect.signature(function)
