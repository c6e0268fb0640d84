"""RFC 6962 Merkle trees: an append-only root, and proofs about it.

Invariants
1. A leaf's hash is SHA-256(0x00 || bytes), a node's is SHA-256(0x01 || left || right): a leaf can never
   pass for a node (RFC 6962, section 2.1).
2. `MerkleTree` keeps only the roots of the complete subtrees along the right edge, one for each one-bit
   of its size, largest first. A push costs one hash on average, whatever the size.
3. Checks of proofs return False for whatever is malformed; they never raise.

Source: RFC 6962 section 2.1; the verification loops follow RFC 9162 sections 2.1.3.2 and 2.1.4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(stored: bytes) -> bytes:
    """Hash of one stored record, over exactly its stored bytes."""
    return sha256(b"\x00" + stored).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an inner node."""
    return sha256(b"\x01" + left + right).digest()


class MerkleTree:
    """A growing tree that knows its size and root. Memory: 32 bytes per one-bit of the size."""

    __slots__ = ("_edge", "size")

    def __init__(self, size: int = 0, frontier: Sequence[bytes] = ()) -> None:
        """An empty tree, or the one whose right edge is `frontier`. Raises `ValueError` on a misfit."""
        if size < 0 or size.bit_count() != len(frontier):
            raise ValueError("the frontier has one hash for each one-bit of the size")
        if any(len(node) != HASH_BYTES for node in frontier):
            raise ValueError("every hash of a frontier is 32 bytes")
        self.size = size
        self._edge = list(frontier)

    def push(self, leaf: bytes) -> None:
        """Append the hash of the next leaf."""
        edge = self._edge
        size = self.size
        node = leaf
        while size & 1:
            node = sha256(b"\x01" + edge.pop() + node).digest()
            size >>= 1
        edge.append(node)
        self.size += 1

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Append many leaf hashes in order."""
        for leaf in leaves:
            self.push(leaf)

    @property
    def frontier(self) -> tuple[bytes, ...]:
        """The right edge, largest subtree first. With `size` it restores the tree."""
        return tuple(self._edge)

    def root(self) -> bytes:
        """Root over all leaves so far; of an empty tree the hash of nothing."""
        if not self._edge:
            return EMPTY_ROOT
        node = self._edge[-1]
        for left in reversed(self._edge[:-1]):
            node = node_hash(left, node)
        return node

    def copy(self) -> MerkleTree:
        """An independent tree with the same leaves."""
        return MerkleTree(self.size, self._edge)


class ProofTree:
    """All complete subtrees over known leaf hashes: proofs of any leaf and between any two sizes.

    Memory: about 64 bytes a leaf. Each proof takes O(log n) look-ups.
    """

    __slots__ = ("_levels", "size")

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self.size = len(leaves)
        level = list(leaves)
        self._levels = [level]
        while len(level) > 1:
            level = [node_hash(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
            self._levels.append(level)

    def root(self, size: int | None = None) -> bytes:
        """Root of the first `size` leaves (all when not given). Raises `ValueError` out of bounds."""
        size = self.size if size is None else size
        self._check(0, size)
        return self._range(0, size) if size else EMPTY_ROOT

    def inclusion(self, index: int, size: int | None = None) -> tuple[bytes, ...]:
        """Path from leaf `index` to the root of the first `size` leaves, lowest sibling first."""
        size = self.size if size is None else size
        self._check(index + 1, size)
        path: list[bytes] = []
        low, high = 0, size
        while high - low > 1:
            middle = low + _split(high - low)
            if index < middle:
                path.append(self._range(middle, high))
                high = middle
            else:
                path.append(self._range(low, middle))
                low = middle
        return tuple(reversed(path))

    def consistency(self, old: int, new: int | None = None) -> tuple[bytes, ...]:
        """Proof that the tree of `old` leaves is a prefix of the one of `new`; empty for 0 and equals."""
        new = self.size if new is None else new
        self._check(old, new)
        if old in (0, new):
            return ()
        path: list[bytes] = []
        low, high = 0, new
        whole = True  # the old tree is a complete subtree of the walk so far
        while old != high:
            middle = low + _split(high - low)
            if old <= middle:
                path.append(self._range(middle, high))
                high = middle
            else:
                path.append(self._range(low, middle))
                low = middle
                whole = False
        if not whole:
            path.append(self._range(low, high))
        return tuple(reversed(path))

    def _check(self, low: int, high: int) -> None:
        if not 0 <= low <= high <= self.size:
            raise ValueError(f"expected 0 <= {low} <= {high} <= {self.size}")

    def _range(self, low: int, high: int) -> bytes:
        width = high - low
        if width & (width - 1) == 0:
            return self._levels[width.bit_length() - 1][low // width]
        middle = low + _split(width)
        return node_hash(self._range(low, middle), self._range(middle, high))


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """True when `proof` leads from `leaf` at `index` to `root` of a tree of `size` leaves."""
    if not 0 <= index < size or any(len(node) != HASH_BYTES for node in proof):
        return False
    position, last, node = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if position & 1 or position == last:
            node = node_hash(sibling, node)
            while not position & 1 and position:
                position >>= 1
                last >>= 1
        else:
            node = node_hash(node, sibling)
        position >>= 1
        last >>= 1
    return last == 0 and node == root


def verify_consistency(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """True when the tree of `old` leaves with `old_root` is a prefix of that of `new` leaves."""
    if not 0 <= old <= new or any(len(node) != HASH_BYTES for node in proof):
        return False
    if old in (0, new):
        start_holds = old_root == (EMPTY_ROOT if old == 0 else new_root)
        return not proof and start_holds
    path = list(proof)
    if old & (old - 1) == 0:
        path.insert(0, old_root)
    if not path:
        return False
    position, last = old - 1, new - 1
    while position & 1:
        position >>= 1
        last >>= 1
    first = second = path[0]
    for node in path[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            first = node_hash(node, first)
            second = node_hash(node, second)
            while not position & 1 and position:
                position >>= 1
                last >>= 1
        else:
            second = node_hash(second, node)
        position >>= 1
        last >>= 1
    return last == 0 and first == old_root and second == new_root


def _split(width: int) -> int:
    """Largest power of two smaller than `width` (at least 2)."""
    return 1 << ((width - 1).bit_length() - 1)
