"""Sums do not depend on the number of ranks, and every value counts once."""

import math
from typing import Any

import numpy
import pytest
import torch

from elastic_runtime import Session
from elastic_runtime.data import batch_assignment
from elastic_runtime.mistake import Mistake
from elastic_runtime.training.evaluation_sums import RankSums, Sums, total


def sum_over(world: int, results: list[dict[str, Any]]) -> Sums:
    packed = []
    for rank in range(world):
        sums = RankSums(len(results))
        for number in batch_assignment.owned(rank, world, len(results)):
            sums.add(number, results[number])
        packed.append(sums.pack())
    return total(packed, len(results))


def test_sums_are_equal_bit_by_bit_at_every_number_of_ranks() -> None:
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(23, 4, generator=generator) * 1e6
    results = [{"number": row[0], "row": row, "count": 3} for row in draws]
    alone = sum_over(1, results)
    for world in (2, 3, 5, 8, 30):
        several = sum_over(world, results)
        assert several["number"] == alone["number"]
        assert torch.equal(several["row"], alone["row"])
        assert several["count"] == 69
    assert alone["number"] == pytest.approx(float(draws[:, 0].double().sum()))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(2, 4, id="int"),
        pytest.param(0.1, 0.2, id="float, not narrowed"),
        pytest.param(True, 2, id="bool"),
        pytest.param(torch.tensor(3), 6, id="tensor"),
        pytest.param(torch.tensor(0.5, dtype=torch.bfloat16), 1.0, id="bfloat16"),
        pytest.param(torch.tensor(0.5, requires_grad=True), 1.0, id="with a gradient"),
        pytest.param(numpy.float32(0.5), 1.0, id="numpy float32"),
        pytest.param(numpy.int64(1 << 53), 1 << 54, id="numpy int64"),
        pytest.param(numpy.bool_(True), 2, id="numpy bool"),
        pytest.param(math.inf, math.inf, id="inf"),
    ],
)
def test_a_number_of_any_kind_is_summed_and_comes_back_as_pythons(
    value: Any, expected: float
) -> None:
    sums = sum_over(2, [{"a": value}, {"a": value}])
    assert sums["a"] == expected
    assert type(sums["a"]) is type(expected)


@pytest.mark.parametrize("value", [numpy.array([1, 2]), torch.tensor([1, 2]), [1, 2]])
def test_arrays_come_back_as_tensors(value: Any) -> None:
    sums = sum_over(2, [{"a": value}, {"a": value}, {"a": value}])
    assert torch.equal(sums["a"], torch.tensor([3, 6]))


def test_texts_are_collected_in_the_order_of_the_micro_batches() -> None:
    results: list[dict[str, Any]] = [{"a": str(9 - n) * n, "b": n} for n in range(7)]
    for world in (1, 2, 5, 9):
        sums = sum_over(world, results)
        assert list(sums) == ["a", "b"]
        assert sums["a"] == [result["a"] for result in results]
        assert sums.as_plain_data() == {"a": sums["a"], "b": 21}


def test_dicts_with_tensors_are_collected_as_they_are() -> None:
    """Of any type and shape, also where the same memory is returned twice."""
    memory = torch.zeros(2, dtype=torch.bfloat16)
    packed = []
    for rank in range(2):
        sums = RankSums(4)
        for number in batch_assignment.owned(rank, 2, 4):
            memory.fill_(number)
            outputs = {"nested": [memory, (torch.ones(number), None)], "name": str(number)}
            sums.add(number, {"a": outputs, "b": 1})
        packed.append(sums.pack())
    collected = total(packed, 4)["a"]
    assert [outputs["name"] for outputs in collected] == ["0", "1", "2", "3"]
    for number, outputs in enumerate(collected):
        tensor, (ones, nothing) = outputs["nested"]
        assert torch.equal(tensor, torch.full((2,), number, dtype=torch.bfloat16))
        assert ones.shape == (number,)
        assert nothing is None


def test_a_dict_that_is_no_plain_data_is_a_mistake() -> None:
    with pytest.raises(Mistake, match="a dict for 'a' that cannot be sent") as error:
        RankSums(1).add(0, {"a": {"b": [Session]}})
    assert "\n" not in str(error.value)


def test_texts_for_some_micro_batches_only_are_a_mistake() -> None:
    sums = RankSums(2)
    sums.add(0, {"a": "x"})
    with pytest.raises(Mistake, match=r"'a' as a text for micro-batch 0 and in shape \(\) for"):
        sums.add(1, {"a": 1})


def test_large_whole_numbers_are_exact() -> None:
    assert sum_over(2, [{"a": 1 << 60}, {"a": 1}, {"a": 1}])["a"] == (1 << 60) + 2


def test_whole_numbers_and_others_under_one_key_are_summed() -> None:
    results: list[dict[str, Any]] = [{"a": 1}, {"a": 0.5}, {"a": 2}]
    assert [sum_over(world, results)["a"] for world in (1, 2, 3)] == [3.5] * 3


def test_the_same_memory_returned_twice_counts_with_its_value_then() -> None:
    counter = torch.zeros(2)
    sums = RankSums(2)
    for number in range(2):
        counter += 1
        sums.add(number, {"a": counter})
    assert total([sums.pack()], 2)["a"].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("value", "kind"),
    [(b"1", "bytes"), (None, "NoneType"), (1j, "complex"), (1 << 70, "int")],
)
def test_what_is_no_number_is_a_mistake(value: Any, kind: str) -> None:
    with pytest.raises(Mistake, match=rf"returned a {kind} for 'a': return numbers"):
        RankSums(1).add(0, {"a": value})


def test_a_key_that_is_no_string_is_a_mistake_and_not_lost() -> None:
    with pytest.raises(Mistake, match=r"returned the key 1, a int: use strings, such as '1'"):
        RankSums(1).add(0, {1: 2.0})


def test_other_keys_on_another_rank_are_a_mistake() -> None:
    with pytest.raises(Mistake, match="returned a for micro-batch 0 and b for micro-batch 1"):
        sum_over(2, [{"a": 1}, {"b": 1}])


def test_another_shape_on_the_same_rank_is_a_mistake() -> None:
    with pytest.raises(Mistake, match=r"'a' in shape \(\) for micro-batch 0 and in shape \(2,\)"):
        sum_over(1, [{"a": 1}, {"a": [1, 2]}])


def test_an_incomplete_evaluation_gives_nan_for_every_key() -> None:
    sums = Sums()
    assert not sums.is_complete
    assert math.isnan(sums["loss"])
    assert not sums.copy().is_complete


def test_a_complete_one_has_its_keys_only() -> None:
    sums = sum_over(1, [{"b": 1, "a": torch.ones(2)}])
    assert sums.is_complete
    assert list(sums) == ["b", "a"]
    with pytest.raises(KeyError):
        sums["c"]
    sums.copy()["a"].zero_()
    assert sums["a"].tolist() == [1, 1]
