"""The tree in whose order gradients are summed."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.data import batch_assignment
from elastic_runtime.strategies import summation_tree


@given(st.integers(1, 40), st.data())
def test_the_nodes_of_all_ranks_cover_each_leaf_once(leaves: int, data: st.DataObject) -> None:
    """And no two neighbouring nodes of a rank could be replaced by their parent."""
    world = data.draw(st.integers(1, leaves + 2))
    root = range(leaves)
    nodes_by_rank = [
        summation_tree.cover(batch_assignment.owned(rank, world, leaves), root)
        for rank in range(world)
    ]
    assert [leaf for nodes in nodes_by_rank for node in nodes for leaf in node] == list(root)
    neighbours = [pair for nodes in nodes_by_rank for pair in pairwise(nodes)]
    assert all(summation_tree.parent(left, right, root) is None for left, right in neighbours)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (range(8), (range(4), range(4, 8))),
        (range(10), (range(8), range(8, 10))),
        (range(4, 7), (range(4, 6), range(6, 7))),
    ],
)
def test_the_left_half_has_a_power_of_two_leaves(
    node: range, expected: tuple[range, range]
) -> None:
    left, right = expected
    assert summation_tree.halves(node) == expected
    assert summation_tree.parent(left, right, node) == node
    assert summation_tree.parent(right, left, node) is None
