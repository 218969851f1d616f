"""Results of evaluations are kept for as long as the state is the same."""

import torch

from elastic_runtime.training.evaluation_results import EvaluationResults
from elastic_runtime.training.evaluation_sums import Sums


def test_a_result_is_a_copy() -> None:
    results = EvaluationResults()
    results.add((3, True, 0), Sums({"a": torch.ones(2)}))
    first = results.get((3, True, 0))
    assert first
    first["a"].zero_()
    second = results.get((3, True, 0))
    assert second
    assert second["a"].tolist() == [1, 1]


def test_results_of_another_step_are_dropped() -> None:
    results = EvaluationResults()
    results.add((3, True, 0), Sums({"a": 1}))
    results.add((3, True, 1), Sums())
    assert results.numbers() == [(3, True, 0), (3, True, 1)]
    results.add((4, True, 0), Sums({"a": 2}))
    assert results.numbers() == [(4, True, 0)]
    assert results.get((3, True, 0)) is None


def test_another_rank_is_given_all_of_them() -> None:
    results = EvaluationResults()
    results.add((3, False, 0), Sums({"a": torch.ones(2), "b": 1.5}))
    results.add((3, True, 0), Sums())
    other = EvaluationResults()
    other.update(3, results.pack())
    assert other.numbers() == results.numbers()
    given = other.get((3, False, 0))
    assert given
    assert given["b"] == 1.5
    incomplete = other.get((3, True, 0))
    assert incomplete is not None
    assert not incomplete.is_complete


def test_results_of_another_state_are_not_taken() -> None:
    results = EvaluationResults()
    results.add((3, False, 0), Sums({"a": 1}))
    other = EvaluationResults()
    other.update(4, results.pack())
    assert not other.numbers()


def test_there_may_be_none() -> None:
    assert EvaluationResults().pack() == b""
    EvaluationResults().update(3, b"")
