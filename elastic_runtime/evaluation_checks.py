"""Mistakes in calls of `session.evaluate`, each in one line that names its cure."""

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

OUTSIDE_LOOP = (
    "session.evaluate was called before the loop over steps, when this worker has no peers yet: "
    "call it in the loop, where step.number is 0 before the first step, or behind the loop"
)
INSIDE_STEP = (
    "session.evaluate was called inside step %d, whose micro-batches have begun: call it at the "
    "top of the body, before the loop over its micro-batches"
)
NESTED = (
    "session.evaluate was called by the function of another evaluation: call them one after the "
    "other"
)
ERROR_CAUGHT = (
    "an error inside session.evaluate was caught by the script, while other workers wait: let it "
    "end the worker, which is then started again"
)
STATE_LOST = (
    "a worker was lost behind the loop, and with it a part of the sharded model: evaluate in the "
    "loop, where the job would form again"
)


def data_mistakes(data: Any, is_loader: bool) -> Iterator[str]:
    """`is_loader`: it is a DataLoader, or was made by `session.loader`."""
    if isinstance(data, Integral) and not isinstance(data, bool):
        if data < 1:
            yield f"session.evaluate was given {data} samples: give it at least 1"
    elif is_loader:
        yield (
            f"session.evaluate was given a {type(data).__name__}: give it the dataset, which it "
            "deals out itself"
        )
    elif not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        yield (
            f"session.evaluate was given a {type(data).__name__}, without a length or an [index]: "
            "give it a dataset that has both, or the number of its samples"
        )
    elif not len(data):
        yield "the dataset of session.evaluate is empty: give it one with at least 1 sample"


def call_mistakes(function: Any, micro_batch_size: Any) -> Iterator[str]:
    if not callable(function):
        yield (
            f"session.evaluate was given a {type(function).__name__} as its function: give it one "
            "that takes a micro-batch and returns sums by name"
        )
    if not isinstance(micro_batch_size, Integral) or micro_batch_size < 1:
        yield (
            f"micro_batch_size is {micro_batch_size!r} in session.evaluate: give a whole number, "
            "at least 1"
        )


def result_mistakes(result: Any, micro_batch: int) -> Iterator[str]:
    """Of what the function returned, without its values."""
    if not isinstance(result, Mapping):
        yield (
            f"the function of session.evaluate returned a {type(result).__name__} for micro-batch "
            f'{micro_batch}: return a dict of sums, such as {{"loss": loss_sum, "count": count}}'
        )
        return
    for key in result:
        if not isinstance(key, str):
            yield (
                f"the function of session.evaluate returned the key {key!r}, a "
                f"{type(key).__name__}: use strings, such as {str(key)!r}"
            )


def not_a_number(key: str, value: Any) -> str:
    return (
        f"the function of session.evaluate returned a {type(value).__name__} for {key!r}: return "
        "numbers, or tensors of numbers, which can be summed, or texts and dicts, which are "
        "collected"
    )


def not_plain(key: str, reason: str) -> str:
    return (
        f"the function of session.evaluate returned a dict for {key!r} that cannot be sent to "
        f"other workers ({reason[:100]}): put only tensors, numbers, texts, lists and dicts into it"
    )


def best_mistakes(
    value: Any, *, is_number: bool, has_directory: bool, is_in_loop: bool
) -> Iterator[str]:
    if not is_number:
        yield (
            f"session.keep_best was given a {type(value).__name__}: give it one number, such as "
            'sums["loss"] / sums["count"]'
        )
    if not has_directory:
        yield (
            "session.keep_best needs a place for the checkpoint: create the session with "
            "checkpoint=DIRECTORY"
        )
    if not is_in_loop:
        yield (
            "session.keep_best was called before the loop over steps, when there is no state to "
            "keep: call it where the state is evaluated"
        )


# By key; a word for what is collected.
Shapes = dict[str, tuple[int, ...] | str]


def difference(first: Shapes, first_place: str, other: Shapes, other_place: str) -> Iterator[str]:
    """If results differ in their keys or shapes. `..._place`: which micro-batch they are of."""
    if first.keys() != other.keys():
        yield (
            f"the function of session.evaluate returned {_names(first)} for {first_place} and "
            f"{_names(other)} for {other_place}: return the same keys each time, with 0 where "
            "there is nothing"
        )
        return
    for key, shape in first.items():
        if other[key] != shape:
            yield (
                f"the function of session.evaluate returned {key!r} {_form(shape)} for "
                f"{first_place} and {_form(other[key])} for {other_place}: return sums, whose "
                "shape does not depend on the micro-batch"
            )


def _form(shape: tuple[int, ...] | str) -> str:
    return f"as a {shape}" if isinstance(shape, str) else f"in shape {shape}"


def _names(shapes: Shapes) -> str:
    return ", ".join(shapes) or "nothing"


def agreement_mistakes(calls: Sequence[tuple[int, int]]) -> Iterator[str]:
    """`calls`: samples and micro-batch size of the ranks that are in one evaluation."""
    if len({*calls}) > 1:
        texts = sorted(f"{count} samples in micro-batches of {size}" for count, size in {*calls})
        yield (
            f"session.evaluate was given {' and '.join(texts)} on different workers: give all of "
            "them the same"
        )
