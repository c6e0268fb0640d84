"""The label of a whole request: every part scanned, said to hold nothing, or counted as the highest.

Invariants
1. `classify` never raises and never answers below `floor` or below the base level.
2. Each part that would be sent has one `PartVerdict`. `scanned` stands only where the whole text was read.
3. The label is the join over all parts; a part that cannot be read makes it restricted and opaque.
4. A cached answer equals a fresh one: the key covers the whole text and the detector set, and detectors
   are pure.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.domain.chat import ChatRequest, ResolvedRequest
from gateway.domain.finding import UNSUPPORTED_LANGUAGE, Coverage, Finding, PartVerdict, Verdict
from gateway.domain.label import UNKNOWN, Label, Level
from gateway.sensitivity import joints
from gateway.sensitivity.detectors import OPAQUE_KIND, Detector, DetectorSet, merge
from gateway.sensitivity.pieces import Opaque, Text, conversation_strands, pieces_of, side_strands

#: Shorter texts are scanned about as fast as they are hashed.
_CACHE_LEAST_CHARACTERS = 64
#: A text with more findings is not kept, so that entries have a bounded size.
_CACHE_MOST_FINDINGS = 64
#: Findings of one rule in one text after which more would add nothing to its label.
MOST_OF_A_KIND = 4


class BudgetSpent(Exception):
    """The time budget of one request is over. Never leaves this module."""


class FindingsCache:
    """Least-recently-used findings by keyed hash of a text. Process-local; holds no text.

    `key` is 16 to 64 random bytes, so that nobody can tell from a memory image which texts were seen.
    Bounds: `entry_count` entries of at most 64 findings.
    """

    __slots__ = ("_entries", "_key", "entry_count")

    def __init__(self, key: bytes, entry_count: int = 16_384) -> None:
        if not 16 <= len(key) <= 64:
            raise ValueError("cache key: expected 16 to 64 bytes")
        self._key = key
        self._entries: OrderedDict[bytes, tuple[Finding, ...]] = OrderedDict()
        self.entry_count = entry_count

    def digest(self, text: str, detectors: bytes = b"") -> bytes:
        """Key of a text under the detector set of this name (16 bytes at most) in this cache."""
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=16, key=self._key, person=detectors).digest()

    def get(self, digest: bytes) -> tuple[Finding, ...] | None:
        """Findings kept under this key, which now count as used last, or None when there are none."""
        findings = self._entries.get(digest)
        if findings is not None:
            self._entries.move_to_end(digest)
        return findings

    def put(self, digest: bytes, findings: tuple[Finding, ...]) -> None:
        """Keep findings, dropping the ones used longest ago."""
        if len(findings) > _CACHE_MOST_FINDINGS:
            return
        self._entries[digest] = findings
        if len(self._entries) > self.entry_count:
            self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)


def _thinned(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings, or the first few of each kind and label when they are too many to keep."""
    if len(findings) <= _CACHE_MOST_FINDINGS:
        return findings
    by_kind: dict[tuple[str, Label], list[Finding]] = {}
    for finding in findings:
        by_kind.setdefault((finding.kind, finding.label), []).append(finding)
    each = max(1, _CACHE_MOST_FINDINGS // len(by_kind))
    kept = [finding for same in by_kind.values() for finding in same[:each]]
    return tuple(sorted(kept, key=lambda finding: (finding.start, finding.end)))


@dataclass(slots=True)
class _Progress:
    """What is known so far about one request."""

    coverage: list[tuple[str, Coverage]] = field(default_factory=list)
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    degraded: str | None = None


class Classifier:
    """Labels requests with one detector set. One event loop at a time may use it (the cache has no lock).

    `clock_ns` is a monotonic clock. `budget_ms` bounds one request; what is not read by then counts as
    unscannable. `base_level` is the level of text in which nothing was found. `context` reads what people
    and models wrote as prose, each part alone and never the joints; a part in a language that it does not
    know (`unsupported-language`) is unscannable.
    """

    def __init__(
        self,
        detectors: DetectorSet,
        clock_ns: Callable[[], int],
        budget_ms: int = 1_000,
        cache: FindingsCache | None = None,
        base_level: Level = Level.INTERNAL,
        *,
        context: Detector | None = None,
    ) -> None:
        self._detectors = detectors
        self._clock_ns = clock_ns
        self._budget_ns = budget_ms * 1_000_000
        self._cache = cache
        self._base = Label(base_level)
        self._context = context
        facts = f"{detectors.sha256} {base_level.word}"
        if context is not None:
            facts += f" {context.identity}"
        self._sha256 = hashlib.sha256(facts.encode()).hexdigest()
        self._names = (f"detectors@{self._sha256[:16]}",)
        self._set = bytes.fromhex(detectors.sha256)[:16]
        # What was found with a context is another answer than without it, or with another one.
        self._set_in_context = bytes.fromhex(self._sha256)[:16]

    @property
    def sha256(self) -> str:
        """Digest of detector set, base level and contextual model, for the snapshot and the record."""
        return self._sha256

    def classify(self, resolved: ResolvedRequest, floor: Label) -> Verdict:
        """Verdict on exactly the request that would be sent. `floor` is joined in."""
        progress = _Progress()
        try:
            self._read(resolved.chat, progress)
        except Exception:  # noqa: BLE001
            # fail-closed: whatever breaks here, the request was not read, so it counts as the highest.
            progress.degraded = progress.degraded or "detector-raised"
        label = self._base.join(floor)
        parts = []
        for path, coverage in progress.coverage:
            found = progress.findings.get(path)
            parts.append(PartVerdict(path, coverage, merge(found) if found else ()))
            if coverage is Coverage.UNSCANNABLE:
                label = label.join(UNKNOWN)
            for finding in found or ():
                label = label.join(finding.label)
        if progress.degraded is not None:
            label = label.join(UNKNOWN)
        return Verdict(label, tuple(parts), self._names, progress.degraded)

    def _read(self, chat: ChatRequest, progress: _Progress) -> None:
        deadline_ns = self._clock_ns() + self._budget_ns

        def check() -> None:
            if self._clock_ns() > deadline_ns:
                raise BudgetSpent

        texts: list[Text] = []
        for piece in pieces_of(chat):
            if isinstance(piece, Opaque):
                # fail-closed: an image, a sound or a file was not read.
                progress.coverage.append((piece.path, Coverage.UNSCANNABLE))
            elif not piece.text:
                progress.coverage.append((piece.path, Coverage.NOTHING))
            else:
                coverage = self._scan(piece.path, piece.text, progress, check, piece.is_natural)
                progress.coverage.append((piece.path, coverage))
                texts.append(piece)
        self._read_joints(texts, progress, check)

    def _scan(
        self,
        path: str,
        text: str,
        progress: _Progress,
        check: Callable[[], None],
        is_natural: bool = False,
    ) -> Coverage:
        try:
            check()
            if is_natural and self._context is not None:
                found = self._find_in_context(text, check, self._context)
            else:
                found = self._find(text, check)
        except BudgetSpent:
            # fail-closed: no time left, so this part stays unread.
            progress.degraded = progress.degraded or "budget-spent"
            return Coverage.UNSCANNABLE
        except Exception:  # noqa: BLE001
            # fail-closed: a detector that raises has said nothing about this part.
            progress.degraded = "detector-raised"
            return Coverage.UNSCANNABLE
        if found:
            progress.findings.setdefault(path, []).extend(found)
            if any(finding.kind == UNSUPPORTED_LANGUAGE for finding in found):
                # fail-closed: the contextual model cannot read this, so nobody knows what it says.
                return Coverage.UNSCANNABLE
        return Coverage.SCANNED

    def _find(self, text: str, check: Callable[[], None]) -> tuple[Finding, ...]:
        if self._cache is None or len(text) < _CACHE_LEAST_CHARACTERS:
            return _thinned(self._detectors.find(text, check, MOST_OF_A_KIND))
        digest = self._cache.digest(text, self._set)
        found = self._cache.get(digest)
        if found is None:
            found = _thinned(self._detectors.find(text, check, MOST_OF_A_KIND))
            self._cache.put(digest, found)
        return found

    def _find_in_context(
        self, text: str, check: Callable[[], None], context: Detector
    ) -> tuple[Finding, ...]:
        """What the detectors and the contextual model find. Short texts are kept too: the model is slow."""
        digest = None
        if self._cache is not None:
            digest = self._cache.digest(text, self._set_in_context)
            known = self._cache.get(digest)
            if known is not None:
                return known
        found = self._detectors.find(text, check, MOST_OF_A_KIND)
        check()
        found = _thinned(tuple(found) + tuple(context.find(text)))
        check()
        if self._cache is not None and digest is not None:
            self._cache.put(digest, found)
        return found

    def _read_joints(self, texts: list[Text], progress: _Progress, check: Callable[[], None]) -> None:
        """Texts laid end to end, as a model reads them: what was split over parts or turns is whole again."""
        for strand in conversation_strands(texts):
            if not self._read_joint(strand, progress, check, is_said=True):
                return
        for strand in side_strands(texts):
            if not self._read_joint(strand, progress, check, is_said=False):
                return

    def _read_joint(
        self, strand: joints.Strand, progress: _Progress, check: Callable[[], None], is_said: bool
    ) -> bool:
        """Whether all of the strand was read. Names laid end to end look like a blob, which says nothing."""
        for block in joints.blocks_of(strand):
            scratch = _Progress(degraded=progress.degraded)
            coverage = self._scan("", block.text, scratch, check)
            if coverage is Coverage.UNSCANNABLE:
                # fail-closed: the seams were not read, and no single part can stand for them.
                progress.degraded = scratch.degraded
                return False
            for finding in scratch.findings.get("", ()):
                if is_said or finding.kind != OPAQUE_KIND:
                    _add(progress, *block.place(finding))
        return True


def _add(progress: _Progress, path: str, finding: Finding) -> None:
    """Note the finding, unless the part holds one of its kind in that place."""
    known = progress.findings.setdefault(path, [])
    if not any(
        old.kind == finding.kind and old.start < finding.end and finding.start < old.end for old in known
    ):
        known.append(finding)
