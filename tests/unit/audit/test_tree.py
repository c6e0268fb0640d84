"""RFC 6962 trees."""

from __future__ import annotations

import pytest

from gateway.audit.tree import (
    EMPTY_ROOT,
    MerkleTree,
    ProofTree,
    leaf_hash,
    verify_consistency,
    verify_inclusion,
)

#: The leaves and roots that Certificate Transparency implementations test with.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def test_root_of_nothing_is_the_hash_of_nothing() -> None:
    assert MerkleTree().root() == EMPTY_ROOT
    assert ProofTree([]).root() == EMPTY_ROOT


def test_roots_are_those_of_certificate_transparency() -> None:
    tree = MerkleTree()
    for leaf, root in zip(LEAVES, ROOTS, strict=True):
        tree.push(leaf_hash(leaf))
        assert tree.root().hex() == root
    assert [ProofTree([leaf_hash(leaf) for leaf in LEAVES]).root(n + 1).hex() for n in range(8)] == ROOTS


def test_continues_from_its_frontier() -> None:
    leaves = [leaf_hash(leaf) for leaf in LEAVES]
    for size in range(9):
        first = MerkleTree()
        first.extend(leaves[:size])
        second = MerkleTree(size, first.frontier)
        second.extend(leaves[size:])
        assert second.root().hex() == ROOTS[7]


@pytest.mark.parametrize(("size", "frontier"), [(1, ()), (2, (b"x" * 32, b"y" * 32)), (-1, ()), (1, (b"x",))])
def test_refuses_a_frontier_that_does_not_fit_the_size(size: int, frontier: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="frontier"):
        MerkleTree(size, frontier)


def test_copy_grows_apart_from_its_original() -> None:
    tree = MerkleTree()
    tree.push(leaf_hash(b"a"))
    other = tree.copy()
    other.push(leaf_hash(b"b"))
    assert (tree.size, other.size) == (1, 2)
    assert tree.root() == leaf_hash(b"a")


def test_inclusion_proof_fails_for_another_leaf_index_size_or_root() -> None:
    leaves = [leaf_hash(bytes([n])) for n in range(7)]
    tree = ProofTree(leaves)
    proof = tree.inclusion(5, 7)
    assert verify_inclusion(leaves[5], 5, 7, proof, tree.root())
    assert not verify_inclusion(leaves[4], 5, 7, proof, tree.root())
    assert not verify_inclusion(leaves[5], 4, 7, proof, tree.root())
    assert not verify_inclusion(leaves[5], 5, 6, proof, tree.root())
    assert not verify_inclusion(leaves[5], 5, 7, proof, tree.root(6))
    assert not verify_inclusion(leaves[5], 5, 7, (*proof, proof[0]), tree.root())
    assert not verify_inclusion(leaves[5], 5, 7, (b"short", *proof[1:]), tree.root())
    assert not verify_inclusion(leaves[5], 7, 7, proof, tree.root())


def test_consistency_proof_fails_for_another_root_or_size() -> None:
    tree = ProofTree([leaf_hash(bytes([n])) for n in range(7)])
    proof = tree.consistency(4, 7)
    assert verify_consistency(4, 7, tree.root(4), tree.root(7), proof)
    assert not verify_consistency(4, 7, tree.root(3), tree.root(7), proof)
    assert not verify_consistency(4, 7, tree.root(4), tree.root(6), proof)
    assert not verify_consistency(3, 7, tree.root(4), tree.root(7), proof)
    assert not verify_consistency(4, 7, tree.root(4), tree.root(7), (*proof, proof[0]))
    assert not verify_consistency(3, 7, tree.root(3), tree.root(7), ())
    assert not verify_consistency(8, 7, tree.root(7), tree.root(7), ())
    assert not verify_consistency(0, 7, tree.root(1), tree.root(7), ())
    assert verify_consistency(0, 7, EMPTY_ROOT, tree.root(7), ())
    assert verify_consistency(7, 7, tree.root(7), tree.root(7), ())


def test_refuses_proofs_out_of_bounds() -> None:
    tree = ProofTree([leaf_hash(b"a")])
    with pytest.raises(ValueError, match="expected"):
        tree.inclusion(1, 1)
    with pytest.raises(ValueError, match="expected"):
        tree.consistency(1, 2)
