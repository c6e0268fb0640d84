"""Inclusion proofs for a few leaves of a long log, in one pass. Pure.

Memory: the nodes of these proofs, whatever the size of the tree. `tree.ProofTree` keeps every node; it is for
proofs of all leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.audit.tree import node_hash

#: A complete subtree: its height, and its place among those of this height.
_Node = tuple[int, int]
#: Leaves from the first number up to the second.
_Range = tuple[int, int]


def inclusion_paths(
    leaves: Iterable[bytes], size: int, indexes: Sequence[int]
) -> dict[int, tuple[bytes, ...]]:
    """The path of each of these leaves to the root of the first `size` leaves, lowest sibling first.

    Raises `ValueError` for an index out of bounds, or when there are fewer leaves.
    """
    if not all(0 <= index < size for index in indexes):
        raise ValueError(f"expected indexes of a tree of {size} leaves")
    siblings = {index: _siblings(index, size) for index in indexes}
    wanted = {node for ranges in siblings.values() for each in ranges for node in _whole(each)}
    known: dict[_Node, bytes] = {}
    edge: list[bytes] = []
    count = 0
    for leaf in leaves:
        if count == size:
            break
        height, place, node = 0, count, leaf
        while True:
            if (height, place) in wanted:
                known[height, place] = node
            if not place & 1:
                break
            node = node_hash(edge.pop(), node)
            height, place = height + 1, place >> 1
        edge.append(node)
        count += 1
    if count < size:
        raise ValueError(f"expected {size} leaves, found {count}")
    return {
        index: tuple(_join([known[node] for node in _whole(each)]) for each in ranges)
        for index, ranges in siblings.items()
    }


def _siblings(index: int, size: int) -> list[_Range]:
    """The ranges of leaves beside the way from `index` to the root, lowest first (RFC 6962, 2.1.1)."""
    found: list[_Range] = []
    low, high = 0, size
    while high - low > 1:
        middle = low + (1 << ((high - low - 1).bit_length() - 1))
        if index < middle:
            found.append((middle, high))
            high = middle
        else:
            found.append((low, middle))
            low = middle
    return found[::-1]


def _whole(leaves: _Range) -> list[_Node]:
    """The complete subtrees of a range of the tree, largest first: one for each one-bit of its width."""
    low, high = leaves
    nodes: list[_Node] = []
    while low < high:
        height = (high - low).bit_length() - 1
        nodes.append((height, low >> height))
        low += 1 << height
    return nodes


def _join(nodes: Sequence[bytes]) -> bytes:
    root = nodes[-1]
    for left in reversed(nodes[:-1]):
        root = node_hash(left, root)
    return root
