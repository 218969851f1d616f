"""The sums of an evaluation, which are the same at every size of the job, bit by bit.

Whole numbers are summed in int64, others in float64, in the order of one fixed tree over the
micro-batches (strategies/summation_tree.py). So they depend on what the function returns for each
micro-batch, and not on which rank computed it. Texts and dicts are collected, in the order of the
micro-batches.
"""

import math
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import reduce
from typing import Any

import torch

from elastic_runtime import evaluation_checks
from elastic_runtime.evaluation_checks import Shapes
from elastic_runtime.mistake import Mistake
from elastic_runtime.script_checks import raise_mistakes
from elastic_runtime.state.state_tree import flatten, pack, unflatten, unpack
from elastic_runtime.strategies import summation_tree

# What is raised for what is no plain data.
PLAIN_DATA_ERRORS = (pickle.PickleError, AttributeError, TypeError, ValueError, RuntimeError)
# By key; a number has shape ().
Tensors = dict[str, torch.Tensor]


class Sums(dict[str, Any]):
    """What an evaluation returns: a sum by key, or a list of what is collected.

    Attributes:
        is_complete: False if the evaluation could not end, because the step was lost or
            `session.stop` was called. Then each key gives NaN.
    """

    def __init__(self, sums: Mapping[str, Any] | None = None) -> None:
        super().__init__(sums or {})
        self.is_complete = sums is not None

    def copy(self) -> "Sums":
        return Sums(self.as_plain_data())

    def as_plain_data(self) -> dict[str, Any] | None:
        """In new memory; None if it is not complete."""
        if not self.is_complete:
            return None
        return {key: deepcopy(value) for key, value in self.items()}

    def __missing__(self, key: str) -> float:
        if self.is_complete:
            raise KeyError(key)
        return math.nan


def _as_tensor(key: str, value: Any) -> torch.Tensor:
    """On the CPU, in int64 or float64. Raises Mistake if it is not numeric."""
    try:
        tensor = value.detach() if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        if tensor.is_complex():
            raise TypeError(key)
        if tensor.is_floating_point() and not isinstance(value, torch.Tensor):
            # torch's default type is narrower than Python's numbers.
            tensor = torch.as_tensor(value, dtype=torch.float64)
        is_whole = not tensor.is_floating_point()
        return tensor.to("cpu", torch.int64 if is_whole else torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise Mistake(evaluation_checks.not_a_number(key, value)) from error


def _kind(value: Any) -> str:
    """Of what is collected; empty for what is summed."""
    if isinstance(value, str):
        return "text"
    return "dict" if isinstance(value, Mapping) else ""


def _collected(key: str, value: Any) -> Any:
    """A copy whose tensors are on the CPU. Raises Mistake if it is not plain data."""
    tensors: list[torch.Tensor] = []
    skeleton = flatten(value, tensors)
    try:
        unpack(pack(skeleton))
    except PLAIN_DATA_ERRORS as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Mistake(evaluation_checks.not_plain(key, reason)) from error
    return unflatten(skeleton, [tensor.to("cpu", copy=True) for tensor in tensors])


def tensors_of(result: Any, micro_batch: int) -> Tensors:
    """What the function returned for a micro-batch to be summed. Raises Mistake."""
    raise_mistakes(evaluation_checks.result_mistakes(result, micro_batch))
    # A copy: the function may return the same memory each time.
    return {
        key: _as_tensor(key, value).clone() for key, value in result.items() if not _kind(value)
    }


def _add(left: Tensors, right: Tensors) -> Tensors:
    """By key; a key may be in only one of them."""
    both = {key: value + right[key] if key in right else value for key, value in left.items()}
    return {**right, **both}


class RankSums:
    """The sums of one rank's micro-batches, which it adds in the order of their numbers."""

    def __init__(self, micro_batches: int) -> None:
        self._root = range(micro_batches)
        self._shapes: Shapes | None = None
        self._first = 0
        # Their order does not matter.
        self._whole: Tensors = {}
        # Nodes of the tree, from left to right.
        self._nodes: list[tuple[range, Tensors]] = []
        # By key: the text or dict of each micro-batch.
        self._collected: dict[str, list[tuple[int, Any]]] = {}

    def add(self, micro_batch: int, result: Any) -> None:
        """Raises Mistake for what is not a dict of sums, or differs from what came before."""
        tensors = tensors_of(result, micro_batch)
        shapes: Shapes = {
            k: tuple(tensors[k].shape) if k in tensors else _kind(result[k]) for k in result
        }
        if self._shapes is None:
            self._shapes = shapes
            self._first = micro_batch
        places = (f"micro-batch {self._first}", f"micro-batch {micro_batch}")
        raise_mistakes(evaluation_checks.difference(self._shapes, places[0], shapes, places[1]))
        for key in shapes.keys() - tensors.keys():
            self._collected.setdefault(key, []).append((micro_batch, _collected(key, result[key])))
        is_float = {key: tensor.is_floating_point() for key, tensor in tensors.items()}
        self._whole = _add(self._whole, {k: t for k, t in tensors.items() if not is_float[k]})
        floats = {k: t for k, t in tensors.items() if is_float[k]}
        self._nodes.append((range(micro_batch, micro_batch + 1), floats))
        while len(self._nodes) > 1 and self._merge_last_two():
            pass

    def _merge_last_two(self) -> bool:
        """Replace the last two nodes by their parent; False if they are not siblings."""
        (left, left_sums), (right, right_sums) = self._nodes[-2:]
        parent = summation_tree.parent(left, right, self._root)
        if parent is None:
            return False
        self._nodes[-2:] = [(parent, _add(left_sums, right_sums))]
        return True

    def pack(self) -> bytes:
        nodes = [[node.start, node.stop, sums] for node, sums in self._nodes]
        return pack([self._shapes, self._first, self._collected, self._whole, nodes])


def total(packed: Sequence[bytes], micro_batches: int) -> Sums:
    """The sums over all ranks. `packed`: by rank, from `RankSums.pack`. Raises Mistake if the ranks
    have different keys or shapes."""
    ranks = [unpack(data) for data in packed]
    with_shapes = [rank for rank in ranks if rank[0] is not None]
    first_shapes, first, *_ = with_shapes[0]
    for shapes, other, *_ in with_shapes[1:]:
        places = (f"micro-batch {first}", f"micro-batch {other}")
        raise_mistakes(evaluation_checks.difference(first_shapes, places[0], shapes, places[1]))
    whole = reduce(_add, (rank[3] for rank in ranks))
    nodes = {
        range(start, stop): sums for *_, rank_nodes in ranks for start, stop, sums in rank_nodes
    }
    sums = _add(whole, _sum_of_node(range(micro_batches), nodes))
    plain = dict(_plain(sums.items()))
    for key in first_shapes.keys() - plain.keys():
        numbered = dict(item for rank in ranks for item in rank[2].get(key, ()))
        plain[key] = [numbered[number] for number in sorted(numbered)]
    # In the order in which the function has the keys.
    return Sums({key: plain[key] for key in first_shapes})


def _sum_of_node(node: range, nodes: Mapping[range, Tensors]) -> Tensors:
    if node in nodes:
        return nodes[node]
    left, right = summation_tree.halves(node)
    return _add(_sum_of_node(left, nodes), _sum_of_node(right, nodes))


def _plain(sums: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, Any]]:
    """Python's numbers in place of tensors of shape ()."""
    return ((key, value if value.shape else value.item()) for key, value in sums)
