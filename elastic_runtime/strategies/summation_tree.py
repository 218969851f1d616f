"""PURE. The fixed binary tree over a step's micro-batches in whose order gradients are summed.

A node is the range of its leaves. The left child of a node with n > 1 leaves has as many leaves as
the largest power of two below n. The tree is the same at every job size.
"""


def halves(node: range) -> tuple[range, range]:
    """The two children of a node that has more than one leaf."""
    middle = node.start + (1 << (len(node) - 1).bit_length() - 1)
    return range(node.start, middle), range(middle, node.stop)


def cover(leaves: range, node: range) -> list[range]:
    """The fewest nodes, at or below `node`, that together have exactly those of its leaves that are
    in `leaves`; from left to right."""
    if node.stop <= leaves.start or leaves.stop <= node.start or not node:
        return []
    if leaves.start <= node.start and node.stop <= leaves.stop:
        return [node]
    left, right = halves(node)
    return cover(leaves, left) + cover(leaves, right)


def parent(left: range, right: range, node: range) -> range | None:
    """The node, at or below `node`, whose children are these two; None if they are not siblings."""
    while len(node) > 1:
        low, high = halves(node)
        if (left, right) == (low, high):
            return node
        node = low if left.start < low.stop else high
    return None
