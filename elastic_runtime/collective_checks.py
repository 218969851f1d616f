"""Mistakes in collectives that a script starts in a step, each in one line that names its cure."""

from collections.abc import Iterator, Sequence
from typing import Any

# What a worker that meets others is about to do; a collective says more.
EVALUATION = "session.evaluate"
REDUCTIONS = ("sum", "min", "max")
INSIDE_LOOP = (
    "%s was called inside the loop over micro-batches, of which workers have different numbers: "
    "call it before or behind that loop; for a loss over the whole batch use step.gather_batch "
    "before it and step.insert_own inside"
)
STEP_ENDED = (
    "%s was called after the end of step %d: call it in the body, on the step that is in flight"
)
TOO_LATE = "%s was called behind the loop over micro-batches: call it before that loop"
OUTSIDE_LOOP = (
    "step.insert_own was called outside the loop over micro-batches: call it inside, with what the "
    "model makes of that micro-batch"
)
EVALUATE_FIRST = (
    "session.evaluate was called after a collective of step %d: call it before, at the top of the "
    "body, since a worker that joins meanwhile begins there"
)
NO_INDICES = (
    "step.gather_batch needs samples by index, but they come from session.streams: give the "
    "session samples=len(dataset), or use session.loader(dataset)"
)
WEIGHTED = (
    "the loss of micro-batch %d has a weight, but with step.insert_own it is that of the whole "
    "batch: call step.backward(loss) without a weight"
)


def not_everywhere(call: str) -> str:
    """`call`: what some workers were about to do when others had gone on."""
    cure = "under a condition that is alike on all, such as step.number % 100 == 0, and never"
    return (
        f"{call} was called by some workers, and others went on without it: call it on all of "
        f"them, {cure} under session.rank == 0"
    )


def different_calls(calls: Sequence[str]) -> str:
    """`calls`: of workers that met, which should have made the same one."""
    first, second = sorted(calls)
    return (
        f"a worker called {first}, and another called {second}: make the same calls on all "
        "workers, in the same order, on tensors of one type and shape"
    )


def tensor_mistakes(name: str, value: Any) -> Iterator[str]:
    """`value`: what the collective `name` was given."""
    if hasattr(value, "to_local"):
        yield f"{name} was given a tensor that is sharded: give it a plain one, or its .to_local()"
    elif not hasattr(value, "is_floating_point"):
        yield f"{name} was given a {type(value).__name__}: give it a tensor"


def reduction_mistakes(op: Any, *, has_numbers: bool) -> Iterator[str]:
    """`has_numbers`: real ones, which can be summed and compared."""
    if op not in REDUCTIONS:
        yield f'step.all_reduce was given op={op!r}: give "sum", "min" or "max"'
    if not has_numbers:
        yield (
            "step.all_reduce was given truth values or complex numbers: convert them first, such "
            "as by .int() or torch.view_as_real"
        )


def result_mistakes(shapes: Sequence[tuple[int, ...]]) -> Iterator[str]:
    """`shapes`: of what the function of step.gather_batch returned for the micro-batches."""
    if not all(shapes):
        yield (
            "the function of step.gather_batch returned a single number: return rows, such as one "
            "for each sample"
        )
    elif len({*shapes}) > 1:
        first, second = sorted({*shapes})[:2]
        yield (
            f"the function of step.gather_batch returned shape {first} for one micro-batch and "
            f"{second} for another: return equally many rows for each"
        )


def insert_mistakes(
    rows: tuple[int, ...], own: tuple[int, ...], micro_batches: int
) -> Iterator[str]:
    """`rows`: the shape of what step.gather_batch returned. `own`: of a micro-batch's part."""
    if not own or rows != (own[0] * micro_batches, *own[1:]):
        yield (
            f"step.insert_own was given rows of shape {rows}, and {own} for one of {micro_batches} "
            "micro-batches: give it what step.gather_batch returned, and what its function returns "
            "for this micro-batch"
        )
