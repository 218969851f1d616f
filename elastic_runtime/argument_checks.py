"""Values that an argument cannot have, each in one line with what to give in its place.

A value is right or wrong by itself here; what several mean together is in session_checks.py.
"""

import inspect
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from numbers import Integral, Number, Real
from typing import Any

# Such as s3://bucket, of which Path leaves s3:/bucket.
ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")
# Characters of a value that a line repeats.
MAX_SHOWN = 200

# Also for arguments that are missing.
NORM = "give the norm to which the gradient is clipped, a number above 0"
UNTIL = "give the step at which the job ends, a whole number such as 1000"
WRAP = "give a function wrap(model, mesh) that calls fully_shard"

# What to give in place of a value; empty if it is right.
Cure = Callable[[Any], str]


def directory_cure(value: Any) -> str:
    """Path would take the texts that are refused for folders below the working directory."""
    if not isinstance(value, str | os.PathLike):
        return "give the path of a directory"
    path = os.fspath(value)
    if not path:
        return "give the path of a directory, or leave the argument out"
    if ADDRESS.match(path):
        return "mount it as a directory, and give the path where it is mounted"
    if path.startswith("~"):
        return f"only a shell replaces ~, so give os.path.expanduser({path!r})"
    return ""


def norm_cure(value: Any) -> str:
    """An infinite one leaves a gradient as it is, and measures it."""
    if isinstance(value, Real) and float(value) > 0:
        return ""
    return NORM


def at_least(least: float, cure: str) -> Cure:
    """Of a whole number."""
    return lambda value: "" if isinstance(value, Integral) and int(value) >= least else cure


def list_cure(name: str) -> Cure:
    """A layer, such as an averaged model, may be a sequence of layers; an iterator is used up; of a
    dict, only the names would be taken."""

    def cure(value: Any) -> str:
        is_list = isinstance(value, Collection) and not isinstance(value, str | Mapping)
        return "" if is_list and not hasattr(value, "state_dict") else f"give a list, {name}=[...]"

    return cure


def strategy_cure(value: Any) -> str:
    if hasattr(value, "model_mistakes") and not isinstance(value, type):
        return ""
    return "give Sharded(wrap) or Deterministic(), or leave it out for replicas"


def wrap_cure(value: Any) -> str:
    try:
        inspect.signature(value).bind(None, None)
    except TypeError:
        return WRAP
    except ValueError:
        # Code that is not Python's shows no signature.
        pass
    return "" if callable(value) else WRAP


# Of the arguments by name, in whatever function has them. The default is always right.
CURES: Mapping[str, Cure] = {
    "micro_batches": at_least(1, "give a whole number, at least 1"),
    "micro_batch_size": at_least(1, "give a whole number, at least 1"),
    "samples": at_least(1, "give the length of the dataset, at least 1"),
    "seed": at_least(-math.inf, "give a whole number"),
    "until": at_least(0, UNTIL),
    "checkpoint": directory_cure,
    "local_checkpoint": directory_cure,
    "journal": directory_cure,
    "save_every": at_least(
        0,
        "give a number of steps, or 0 to save only on request, after a shrink and before a stop",
    ),
    "local_save_every": at_least(0, "give a number of steps, or 0 to save no local parts"),
    "keep": at_least(1, "give how many of the newest checkpoints stay, at least 1"),
    "keep_every": at_least(0, "give a number of steps, or 0 to keep the newest only"),
    "clip": norm_cure,
    "max_norm": norm_cure,
    "lr_schedulers": list_cure("lr_schedulers"),
    "stateful": list_cure("stateful"),
    "strategy": strategy_cure,
    "wrap": wrap_cure,
    "shard_group_size": at_least(1, "give a number of workers, at least 1, or leave it out"),
    "peer_copy_every": at_least(0, "give a number of steps, or 0 for no copies"),
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
        return repr(os.fspath(value) if isinstance(value, os.PathLike) else value)[:MAX_SHOWN]
    if isinstance(value, type):
        return f"the class {value.__name__}"
    shape = getattr(value, "shape", None)
    of_shape = "" if shape is None else f" of shape {tuple(shape)}"
    return f"a {type(value).__name__}{of_shape}"
