"""Proofs made in one pass are those of the whole tree."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.proofs import inclusion_paths
from gateway.audit.tree import ProofTree, verify_inclusion


def leaves(count: int) -> list[bytes]:
    return [sha256(b"%d" % number).digest() for number in range(count)]


@given(st.integers(1, 300), st.integers(0, 20), st.data())
def test_the_paths_are_those_of_a_tree_that_keeps_every_node(
    size: int, more: int, data: st.DataObject
) -> None:
    known = leaves(size + more)
    indexes = data.draw(st.lists(st.integers(0, size - 1), max_size=6))
    tree = ProofTree(known)
    paths = inclusion_paths(iter(known), size, indexes)
    assert paths == {index: tree.inclusion(index, size) for index in indexes}
    root = tree.root(size)
    assert all(verify_inclusion(known[i], i, size, path, root) for i, path in paths.items())


@pytest.mark.parametrize(("index", "count"), [(5, 5), (-1, 5), (0, 4)])
def test_an_index_outside_or_a_missing_leaf_is_refused(index: int, count: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        inclusion_paths(leaves(count), 5, [index])
