"""What a check of a log found, as values."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.audit.checkpoint import SignedCheckpoint
from gateway.audit.tree import MerkleTree

EXIT_SOUND = 0
EXIT_GAPS = 1
EXIT_BROKEN = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, and the first record at which it shows.

    Whatever was found, the records before `Report.signed_tree.size` are proven and no later one is: a
    forger can move the place where a change shows, but not the size up to which a signed root holds.

    `code` is one of frame-damage, broken-chain, wrong-record, malformed-checkpoint, bad-signature,
    rogue-signature, inconsistent-checkpoint, missing-checkpoint, truncated, no-checkpoint, bad-row,
    bad-manifest.
    `offset` is a byte offset in `file`, None where there is none.
    """

    code: str
    index: int
    file: str
    offset: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A torn end of a file after a crash: bytes that were never acknowledged, and are not records.

    `after_size` records came before it. `is_declared` is True once a `gap` record names it; `is_cut`
    once the bytes are gone.
    """

    file: str
    offset: int
    length: int
    sha256: str
    after_size: int
    is_declared: bool
    is_cut: bool


@dataclass(slots=True)
class Report:
    """Result of a check; filled while the log is read.

    `open_intents` maps request ids to the record that admitted them and that none closes;
    `surplus_outcomes` are closing records that close nothing (no intent, or closed before). Neither breaks
    the log; both are listed. `signed_tree` is the tree at the last checkpoint that holds.
    """

    origin: str | None = None
    tree: MerkleTree = field(default_factory=MerkleTree)
    signed_tree: MerkleTree = field(default_factory=MerkleTree)
    last: SignedCheckpoint | None = None
    checkpoint_count: int = 0
    findings: list[Finding] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    torn_journal: Gap | None = None
    open_intents: dict[str, int] = field(default_factory=dict)
    surplus_outcomes: list[int] = field(default_factory=list)
    phase_counts: dict[str, int] = field(default_factory=dict)

    @property
    def exit_status(self) -> int:
        """0 sound, 1 sound with gaps, 2 broken."""
        if self.findings:
            return EXIT_BROKEN
        return EXIT_GAPS if self.gaps else EXIT_SOUND

    @property
    def first_bad_index(self) -> int | None:
        """The first record that is no longer proven, or None."""
        return min((finding.index for finding in self.findings), default=None)

    def as_tree(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "status": ("sound", "sound-with-gaps", "broken")[self.exit_status],
            "origin": self.origin,
            "size": self.tree.size,
            "root": self.tree.root().hex(),
            "checkpoints": self.checkpoint_count,
            "signed_size": self.signed_tree.size,
            "unsigned": self.tree.size - self.signed_tree.size,
            "first_bad_index": self.first_bad_index,
            "findings": [
                {"code": f.code, "index": f.index, "file": f.file, "offset": f.offset, "detail": f.detail}
                for f in self.findings
            ],
            "gaps": [
                {
                    "file": g.file,
                    "offset": g.offset,
                    "bytes": g.length,
                    "sha256": g.sha256,
                    "after_size": g.after_size,
                    "declared": g.is_declared,
                    "cut": g.is_cut,
                }
                for g in self.gaps
            ],
            "open_intents": self.open_intents,
            "surplus_outcomes": self.surplus_outcomes,
            "phases": dict(sorted(self.phase_counts.items())),
        }
