"""Mistakes in calls of `session.evaluate`: one line each, with the cure."""

from collections.abc import Iterable
from typing import Any

import pytest

from elastic_runtime import evaluation_checks


class WithoutLength:
    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize(
    ("mistakes", "text"),
    [
        pytest.param(evaluation_checks.data_mistakes(0, False), "0 samples", id="no samples"),
        pytest.param(evaluation_checks.data_mistakes([], False), "is empty", id="empty dataset"),
        pytest.param(
            evaluation_checks.data_mistakes(iter([1]), False),
            "list_iterator, without a length",
            id="an iterable",
        ),
        pytest.param(
            evaluation_checks.data_mistakes(WithoutLength(), False),
            "without a length",
            id="no length",
        ),
        pytest.param(
            evaluation_checks.data_mistakes(True, False), "a bool, without", id="a truth value"
        ),
        pytest.param(
            evaluation_checks.data_mistakes([1], True), "give it the dataset", id="a loader"
        ),
        pytest.param(
            evaluation_checks.call_mistakes([], 1), "a list as its function", id="no function"
        ),
        pytest.param(
            evaluation_checks.call_mistakes(len, 0), "micro_batch_size is 0", id="no micro-batch"
        ),
        pytest.param(
            evaluation_checks.result_mistakes(1.0, 7), "a float for micro-batch 7", id="no dict"
        ),
        pytest.param(
            evaluation_checks.result_mistakes({3: 1}, 0), "the key 3, a int: use strings", id="key"
        ),
        pytest.param(
            evaluation_checks.difference({"a": ()}, "x", {"b": ()}, "y"),
            "returned a for x and b for y: return the same keys",
            id="other keys",
        ),
        pytest.param(
            evaluation_checks.difference({}, "x", {"b": ()}, "y"),
            "returned nothing for x and b for y",
            id="no keys",
        ),
        pytest.param(
            evaluation_checks.difference({"a": (2,)}, "x", {"a": (3,)}, "y"),
            "'a' in shape (2,) for x and in shape (3,) for y",
            id="other shapes",
        ),
        pytest.param(
            evaluation_checks.agreement_mistakes([(9, 2), (8, 2), (9, 2)]),
            "8 samples in micro-batches of 2 and 9 samples",
            id="other data",
        ),
    ],
)
def test_a_mistake_is_one_line_with_the_cure(mistakes: Iterable[str], text: str) -> None:
    [line] = mistakes
    assert text in line
    assert ": " in line
    assert "\n" not in line


@pytest.mark.parametrize("data", [1, [5], range(3)])
def test_a_dataset_or_a_number_is_right(data: Any) -> None:
    assert not [*evaluation_checks.data_mistakes(data, False)]


def test_equal_calls_and_results_are_right() -> None:
    assert not [*evaluation_checks.agreement_mistakes([(9, 2), (9, 2)])]
    assert not [*evaluation_checks.difference({"a": ()}, "x", {"a": ()}, "y")]
    assert not [*evaluation_checks.result_mistakes({"a": 1}, 0)]
    assert not [*evaluation_checks.call_mistakes(len, 3)]
