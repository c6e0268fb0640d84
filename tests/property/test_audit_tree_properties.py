"""The tree against an independent implementation (pymerkle), and its proofs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from pymerkle import InmemoryTree, InvalidProof
from pymerkle import verify_consistency as oracle_consistency
from pymerkle import verify_inclusion as oracle_inclusion

from gateway.audit.tree import MerkleTree, ProofTree, leaf_hash, verify_consistency, verify_inclusion

_ENTRIES = st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=70)


@settings(max_examples=60, deadline=None)
@given(_ENTRIES, st.data())
def test_roots_and_proofs_equal_those_of_pymerkle(entries: list[bytes], data: st.DataObject) -> None:
    oracle = InmemoryTree(algorithm="sha256")
    tree = MerkleTree()
    for stored in entries:
        oracle.append_entry(stored)
        tree.push(leaf_hash(stored))
    size = len(entries)
    proofs = ProofTree([leaf_hash(stored) for stored in entries])
    assert tree.root() == oracle.get_root() == proofs.root()

    index = data.draw(st.integers(0, size - 1))
    path = proofs.inclusion(index, size)
    assert verify_inclusion(leaf_hash(entries[index]), index, size, path, tree.root())
    theirs = oracle.prove_inclusion(index + 1)
    oracle_inclusion(leaf_hash(entries[index]), oracle.get_root(), theirs)
    assert list(path) == [bytes.fromhex(node) for node in theirs.serialize()["path"]][1:]

    old = data.draw(st.integers(1, size))
    path = proofs.consistency(old, size)
    assert verify_consistency(old, size, proofs.root(old), tree.root(), path)
    try:
        oracle_consistency(oracle.get_root(old), oracle.get_root(), oracle.prove_consistency(old, size))
    except InvalidProof as error:
        raise AssertionError("the oracle contradicts itself") from error
    assert oracle.get_root(old) == proofs.root(old)


@settings(max_examples=60, deadline=None)
@given(_ENTRIES, st.data())
def test_a_changed_proof_proves_nothing(entries: list[bytes], data: st.DataObject) -> None:
    size = len(entries)
    proofs = ProofTree([leaf_hash(stored) for stored in entries])
    index = data.draw(st.integers(0, size - 1))
    path = list(proofs.inclusion(index, size))
    if not path:
        return
    place = data.draw(st.integers(0, len(path) - 1))
    bit = data.draw(st.integers(0, 255))
    node = bytearray(path[place])
    node[bit // 8] ^= 1 << (bit % 8)
    path[place] = bytes(node)
    assert not verify_inclusion(leaf_hash(entries[index]), index, size, path, proofs.root())
