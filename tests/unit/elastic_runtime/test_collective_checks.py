"""Mistakes in a script's collectives, each in one line with the cure."""

from collections.abc import Iterable

import pytest
import torch

from elastic_runtime import collective_checks as checks


class ShardedTensor:
    def to_local(self) -> torch.Tensor:
        raise AssertionError


@pytest.mark.parametrize(
    ("mistakes", "text"),
    [
        pytest.param(
            [checks.not_everywhere("step.all_gather")],
            "step.all_gather was called by some workers, and others went on without it: call it on "
            "all of them",
            id="on some workers",
        ),
        pytest.param(
            [checks.different_calls(["b", "a"])],
            "a worker called a, and another called b: make the same calls on all workers",
            id="different ones",
        ),
        pytest.param(
            checks.tensor_mistakes("step.all_gather", [1]),
            "step.all_gather was given a list: give it a tensor",
            id="no tensor",
        ),
        pytest.param(
            checks.tensor_mistakes("step.all_gather", ShardedTensor()),
            "step.all_gather was given a tensor that is sharded: give it a plain one",
            id="sharded",
        ),
        pytest.param(
            checks.reduction_mistakes("mean", has_numbers=True),
            'was given op=\'mean\': give "sum", "min" or "max"',
            id="another op",
        ),
        pytest.param(
            checks.reduction_mistakes("sum", has_numbers=False),
            "truth values or complex numbers: convert them",
            id="truth values",
        ),
        pytest.param(checks.result_mistakes([()]), "return rows", id="a number"),
        pytest.param(
            checks.result_mistakes([(2, 3), (1, 3)]),
            "returned shape (1, 3) for one micro-batch and (2, 3) for another",
            id="other rows",
        ),
        pytest.param(
            checks.insert_mistakes((6, 3), (3, 3), 3),
            "rows of shape (6, 3), and (3, 3) for one of 3 micro-batches",
            id="another number of rows",
        ),
        pytest.param(checks.insert_mistakes((6,), (), 3), "step.gather_batch returned", id="one"),
    ],
)
def test_a_mistake_is_one_line_with_the_cure(mistakes: Iterable[str], text: str) -> None:
    [line] = mistakes
    assert text in line
    assert "\n" not in line


def test_what_is_right_is_no_mistake() -> None:
    assert not [
        *checks.tensor_mistakes("step.all_reduce", torch.ones(1)),
        *checks.reduction_mistakes("min", has_numbers=True),
        *checks.result_mistakes([(2, 3), (2, 3)]),
        *checks.insert_mistakes((6, 3), (2, 3), 3),
    ]
