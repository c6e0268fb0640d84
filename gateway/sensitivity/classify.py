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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gateway.domain.chat import ChatRequest, Message, OpaquePart, ResolvedRequest, ToolDefinition
from gateway.domain.finding import Coverage, Finding, PartVerdict, Verdict
from gateway.domain.label import UNKNOWN, Label, Level
from gateway.sensitivity import joints
from gateway.sensitivity.detectors import DetectorSet, merge

#: Shorter texts are scanned faster than they are hashed.
_CACHE_LEAST_CHARACTERS = 256
#: A text with more findings is not kept, so that entries have a bounded size.
_CACHE_MOST_FINDINGS = 64
#: Findings of one rule in one text after which more would add nothing to its label.
MOST_OF_A_KIND = 16


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


@dataclass(frozen=True, slots=True)
class _Text:
    """One text of the request. `strand` names the speaker whose texts a reader would put together."""

    path: str
    text: str
    strand: str | None = None


@dataclass(frozen=True, slots=True)
class _Opaque:
    """One part that is no text."""

    path: str


@dataclass(frozen=True, slots=True)
class _NoText:
    """One part that holds only numbers."""

    path: str


_Piece = _Text | _Opaque | _NoText


def _message_pieces(path: str, message: Message) -> Iterator[_Piece]:
    role = message.role.value
    if message.name is not None:
        yield _Text(f"{path}.name", message.name)
    if message.tool_call_id is not None:
        yield _Text(f"{path}.tool_call_id", message.tool_call_id)
    if message.reasoning is not None:
        yield _Text(f"{path}.reasoning", message.reasoning, role)
    for place, part in enumerate(message.parts):
        where = f"{path}.content[{place}]"
        yield _Opaque(where) if isinstance(part, OpaquePart) else _Text(where, part.text, role)
    if message.refusal is not None:
        yield _Text(f"{path}.refusal", message.refusal, role)
    for place, call in enumerate(message.tool_calls):
        where = f"{path}.tool_calls[{place}]"
        yield _Text(f"{where}.id", call.id)
        yield _Text(f"{where}.name", call.name)
        yield _Text(f"{where}.arguments", call.arguments, role)


def _tool_pieces(path: str, tool: ToolDefinition) -> Iterator[_Piece]:
    yield _Text(f"{path}.name", tool.name)
    if tool.description is not None:
        yield _Text(f"{path}.description", tool.description)
    if tool.parameters is not None:
        yield _Text(f"{path}.parameters", tool.parameters)


def pieces_of(chat: ChatRequest) -> Iterator[_Piece]:
    """Everything in the request that would be sent, in order."""
    for place, message in enumerate(chat.messages):
        yield from _message_pieces(f"messages[{place}]", message)
    for place, tool in enumerate(chat.tools):
        yield from _tool_pieces(f"tools[{place}]", tool)
    if chat.tool_choice is not None:
        yield _Text("tool_choice", chat.tool_choice)
    if chat.response_format is not None:
        yield _Text("response_format", chat.response_format)
    for place, stop in enumerate(chat.sampling.stop):
        yield _Text(f"stop[{place}]", stop)
    if chat.sampling.logit_bias is not None:
        yield _NoText("logit_bias")
    if chat.reasoning_effort is not None:
        yield _Text("reasoning_effort", chat.reasoning_effort)
    for name, value in chat.extensions:
        yield _Text(name, value)


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
    unscannable. `base_level` is the level of text in which nothing was found.
    """

    def __init__(
        self,
        detectors: DetectorSet,
        clock_ns: Callable[[], int],
        budget_ms: int = 1_000,
        cache: FindingsCache | None = None,
        base_level: Level = Level.INTERNAL,
    ) -> None:
        self._detectors = detectors
        self._clock_ns = clock_ns
        self._budget_ns = budget_ms * 1_000_000
        self._cache = cache
        self._base = Label(base_level)
        facts = f"{detectors.sha256} {base_level.word}"
        self._sha256 = hashlib.sha256(facts.encode()).hexdigest()
        self._names = (f"detectors@{self._sha256[:16]}",)
        self._set = bytes.fromhex(detectors.sha256)[:16]

    @property
    def sha256(self) -> str:
        """Digest of the detector set and the base level, for the snapshot and the record."""
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

        strands: list[tuple[str, str, str]] = []
        for piece in pieces_of(chat):
            match piece:
                case _Opaque(path):
                    # fail-closed: an image, a sound or a file was not read.
                    progress.coverage.append((path, Coverage.UNSCANNABLE))
                case _NoText(path) | _Text(path, ""):
                    progress.coverage.append((path, Coverage.NOTHING))
                case _Text(path, text, strand):
                    progress.coverage.append((path, self._scan(path, text, progress, check)))
                    if strand is not None:
                        strands.append((path, strand, text))
        self._read_joints(strands, progress, check)

    def _scan(self, path: str, text: str, progress: _Progress, check: Callable[[], None]) -> Coverage:
        try:
            check()
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

    def _read_joints(
        self, strands: list[tuple[str, str, str]], progress: _Progress, check: Callable[[], None]
    ) -> None:
        """Texts laid end to end, as a model reads them: what was split over parts or turns is whole again."""
        for strand in joints.strands_of(strands):
            for block in joints.blocks_of(strand):
                before = progress.degraded
                scratch = _Progress(degraded=before)
                coverage = self._scan("", block.text, scratch, check)
                if coverage is Coverage.UNSCANNABLE:
                    # fail-closed: the seams were not read, and no single part can stand for them.
                    progress.degraded = scratch.degraded
                    return
                for finding in scratch.findings.get("", ()):
                    path, placed = block.place(finding)
                    known = progress.findings.setdefault(path, [])
                    if not any(
                        old.kind == placed.kind and old.start < placed.end and placed.start < old.end
                        for old in known
                    ):
                        known.append(placed)
