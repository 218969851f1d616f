"""Values that an argument cannot have, each in one line with what to give in its place.

A value is right or wrong by itself here; what several mean together is in session_checks.py.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from numbers import Number, Real
from typing import Any

# Such as s3://bucket, of which Path leaves s3:/bucket.
ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")
# Characters of a value that a line repeats.
MAX_SHOWN = 200

# What to give in place of a value; empty if it is right.
Cure = Callable[[Any], str]


def directory_cure(value: Any) -> str:
    """Path would take the texts that are refused for folders below the working directory."""
    if not isinstance(value, str | os.PathLike):
        return "give the path of a directory"
    path = str(value)
    if not path:
        return "give the path of a directory, or leave the argument out"
    if ADDRESS.match(path):
        return "mount it as a directory, and give the path where it is mounted"
    if path.startswith("~"):
        return f"only a shell replaces ~, so give os.path.expanduser({path!r})"
    return ""


def norm_cure(value: Any) -> str:
    """An infinite one leaves a gradient as it is, and measures it."""
    if isinstance(value, Real) and value > 0:
        return ""
    return "give the norm to which the gradient is clipped, above 0"


# Of the arguments by name, in whatever function has them. The default is always right.
CURES: Mapping[str, Cure] = {
    "checkpoint": directory_cure,
    "local_checkpoint": directory_cure,
    "journal": directory_cure,
    "clip": norm_cure,
}


def value_mistakes(
    named: Mapping[str, Any], defaults: Mapping[str, Any], place: str = ""
) -> Iterator[str]:
    """`place`: of which call they are, for arguments that the script gave without their names."""
    for name, value in named.items():
        if name not in CURES or name not in defaults:
            continue
        if value is not defaults[name] and (cure := CURES[name](value)):
            yield f"{name}{place} is {shown(value)}: {cure}"


def shown(value: Any) -> str:
    """In a few words; a tensor has thousands of lines."""
    if value is None or isinstance(value, str | os.PathLike | Number):
        return repr(str(value) if isinstance(value, os.PathLike) else value)[:MAX_SHOWN]
    if isinstance(value, type):
        return f"the class {value.__name__}"
    shape = getattr(value, "shape", None)
    of_shape = "" if shape is None else f" of shape {tuple(shape)}"
    return f"a {type(value).__name__}{of_shape}"
