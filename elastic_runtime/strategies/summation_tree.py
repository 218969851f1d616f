"""The fixed binary tree over a step's micro-batches by whose order gradients are added up. Pure.

A node is the range of its leaves; one of n > 1 leaves has the largest power of two below n on its
left. Every job size uses the same tree.
"""


def halves(node: range) -> tuple[range, range]:
    """The two children of a node of more than one leaf."""
    middle = node.start + (1 << (len(node) - 1).bit_length() - 1)
    return range(node.start, middle), range(middle, node.stop)


def cover(mine: range, node: range) -> list[range]:
    """The fewest nodes at or below `node` that together are those of its leaves that are in `mine`,
    from left to right."""
    if node.stop <= mine.start or mine.stop <= node.start or not node:
        return []
    if mine.start <= node.start and node.stop <= mine.stop:
        return [node]
    left, right = halves(node)
    return cover(mine, left) + cover(mine, right)


def parent(left: range, right: range, node: range) -> range | None:
    """The node at or below `node` whose children these two are; None if they are no siblings."""
    while len(node) > 1:
        low, high = halves(node)
        if (left, right) == (low, high):
            return node
        node = low if left.start < low.stop else high
    return None
