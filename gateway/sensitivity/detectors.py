"""The detector set: all rows over all views of one text.

Invariants
1. `find` gives spans of the text it was given, sorted, none nested in another; where two were nested the
   outer one carries the label of both, so merging never loses a label.
2. Findings are the same with either engine.
3. Work is bounded: a view is decoded at most `MAX_DEPTH` times, and no view is longer than the text it
   came from but for `views.MAX_EXPANSION`.

Over 400 lines because decoding, reading and merging are one recursion over views.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from gateway.domain.custom import CustomDetectors
from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level, Tag
from gateway.errors import ConfigurationError
from gateway.sensitivity import (
    blobs,
    contact,
    disguises,
    dumps,
    examples,
    health,
    identifiers,
    markings,
    national,
    places,
    records,
    secrets,
    spellings,
    spoken,
    spread,
    tables,
    tokens,
    views,
)
from gateway.sensitivity.custom import TermIndex, own_rules
from gateway.sensitivity.digits import NumberReader, NumberRow
from gateway.sensitivity.engine import PatternEngine, open_engine
from gateway.sensitivity.rule import Rule
from gateway.sensitivity.work import Exhausted, Work

#: How many layers of escapes and encodings are taken off.
MAX_DEPTH = 3

#: Kind of the finding for what is encoded and could not be read.
OPAQUE_KIND = "opaque-blob"
_OPAQUE = f"{OPAQUE_KIND}@1"
_DENSE = "dense-text@1"
_OPAQUE_LABEL = Label(Level.RESTRICTED, frozenset({Tag.OPAQUE}))


class Detector(Protocol):
    """Plug point: anything that finds something in a text.

    `identity` is name@version. `find` is pure and gives spans inside the text; raising is allowed and means
    that the text counts as unscannable.
    """

    @property
    def identity(self) -> str:
        """name@version, as it goes into records."""
        ...

    def find(self, text: str) -> tuple[Finding, ...]:
        """Findings in `text`."""
        ...


def merge(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The same findings by place, each nested one taken up into the one around it.

    The span is the outer one, the label the join of both; the name is that of the higher level (a password
    inside what also looks like a mail address is reported as a password).
    """
    if len(findings) < 2:
        return tuple(findings)
    ordered = sorted(findings, key=lambda finding: (finding.start, -finding.end, -finding.label.level))
    kept: list[Finding] = []
    for finding in ordered:
        if kept and finding.end <= kept[-1].end:
            outer = kept[-1]
            named = finding if finding.label.level > outer.label.level else outer
            label = outer.label.join(finding.label)
            if named is not outer or label is not outer.label:
                kept[-1] = Finding(named.kind, named.detector, label, outer.start, outer.end)
        else:
            kept.append(finding)
    return tuple(kept)


_MakeView = Callable[[views.View, Work], views.View | None]
#: Patterns of views that are read besides the text itself, with what reads them.
_WHOLE_VIEWS: tuple[tuple[bytes, _MakeView], ...] = (
    (views.ESCAPE_TRIGGER, views.unescaped),
    (spoken.TRIGGER, spoken.in_digits),
    (spread.TRIGGER, spread.joined),
    (spread.REVERSE_TRIGGER, spread.reversed_runs),
    (spread.REVERSE_TRIGGER, spread.reversed_words),
    (spellings.GAP_TRIGGER, spellings.narrowed),
    (spellings.FLOAT_TRIGGER, spellings.written_out),
    (disguises.LEET_TRIGGER, disguises.with_digits),
    (disguises.ROMAN_TRIGGER, disguises.from_roman),
    (disguises.SPLIT_TRIGGER, disguises.unsplit),
    (disguises.ROT13_TRIGGER, disguises.unrotated),
    (dumps.CODES_TRIGGER, dumps.from_codes),
    (dumps.UU_TRIGGER, dumps.from_uuencode),
    (dumps.UTF7_TRIGGER, dumps.from_utf7),
)
_BLOB_VIEWS: tuple[tuple[bytes, Callable[[views.View, int, int], views.View | None]], ...] = (
    (blobs.BASE64_TRIGGER, blobs.from_base64),
    (blobs.BASE64_LINES_TRIGGER, blobs.from_base64_lines),
    (blobs.HEX_TRIGGER, blobs.from_hex),
    (blobs.HEX_PAIRS_TRIGGER, blobs.from_hex_pairs),
    (blobs.BASE32_TRIGGER, blobs.from_base32),
    (dumps.HEX_DUMP_TRIGGER, dumps.from_hex_dump),
    (dumps.HEX_LINES_TRIGGER, dumps.from_hex_lines),
    (dumps.BASE85_TRIGGER, dumps.from_base85),
)


_ODD_SCRIPTS: tuple[Callable[[str], views.View | None], ...] = (
    views.hidden_tags,
    spoken.han_digits,
    spoken.cyrillic_digits,
    spread.overridden,
    spellings.without_unseen_blanks,
    disguises.roman_signs,
)
#: What tells a blob that cannot be read and may carry a document.
_IS_OPAQUE: dict[Callable[[views.View, int, int], views.View | None], Callable[[str], bool]] = {
    blobs.from_base64: blobs.is_opaque,
    blobs.from_hex: blobs.is_opaque_hex,
    blobs.from_hex_pairs: blobs.is_opaque_hex,
    dumps.from_hex_dump: dumps.is_opaque_dump,
    dumps.from_hex_lines: dumps.is_opaque_lines,
}
#: Steps that take off one layer of an encoding, and give text.
_DECODED = frozenset({"unescaped", "base64", "hex", "base32", "base85", "codes", "uuencode", "utf-7"})


class DetectorSet:
    """Rows over one engine, and any further detectors. Immutable; safe to share between threads."""

    def __init__(
        self,
        rules: Sequence[Rule],
        engine: str,
        extra: Sequence[Detector] = (),
        terms: TermIndex | None = None,
        own_sha256: str = "",
    ) -> None:
        self._readers: list[_Reader] = []
        triggers: list[bytes] = []
        for pattern in dict.fromkeys(rule.pattern for rule in rules):
            triggers.append(pattern)
            self._readers.append(_reader([rule for rule in rules if rule.pattern == pattern]))
        self._row_count = len(triggers)
        self._about = frozenset(
            index
            for index, (_, reads) in enumerate(self._readers)
            if reads and all(rule.is_about for rule in reads)
        )
        # RE2 takes several times as long where it must also find a group.
        self._prices = [
            max(3 if re.compile(pattern).groups else 1, *(rule.price for rule in reads))
            for pattern, (_, reads) in zip(triggers, self._readers, strict=True)
        ]
        read_tables = tables.Tables(
            [word for rule in rules if isinstance(rule.examine, NumberRow) for word in rule.examine.words]
        )
        whole_views: tuple[tuple[bytes, _MakeView], ...] = (
            *_WHOLE_VIEWS,
            (tables.TRIGGER, read_tables.labelled_cells),
        )
        once = {pattern for pattern, _ in whole_views}
        self._whole: dict[int, list[_MakeView]] = {}
        for pattern, make in whole_views:
            if pattern not in triggers:
                triggers.append(pattern)
            self._whole.setdefault(triggers.index(pattern), []).append(make)
        self._blob = {len(triggers) + place: make for place, (_, make) in enumerate(_BLOB_VIEWS)}
        triggers += [pattern for pattern, _ in _BLOB_VIEWS]
        self._engine: PatternEngine = open_engine(
            engine, triggers, frozenset(index for index, pattern in enumerate(triggers) if pattern in once)
        )
        self._fired, self._spans = self._engine.fired, self._engine.spans
        self._extra = tuple(extra)
        self._terms = terms
        all_rules = (*rules, *(terms.rules if terms is not None else ()))
        self._least = {rule.identity: rule.at_least for rule in all_rules if rule.at_least > 1}
        self._wanted = {id(rule): rule.at_least for rule in all_rules if rule.at_least > 1}
        built_in = dict.fromkeys(rule.identity for rule in all_rules)
        self.versions: tuple[str, ...] = (
            *built_in, _OPAQUE, _DENSE, *(detector.identity for detector in extra)
        )  # fmt: skip
        if len(set(self.versions)) != len(self.versions):
            raise ConfigurationError("detectors: expected distinct name@version, found one twice")
        self.sha256 = self._digest(all_rules, own_sha256)

    def _digest(self, rules: Sequence[Rule], own_sha256: str) -> str:
        digest = hashlib.sha256()
        facts = [
            own_sha256,
            self._engine.identity,
            f"stdnum@{importlib.metadata.version('python-stdnum')}",
            f"unicode@{unicodedata.unidata_version}",
            *(
                f"{rule.identity} {rule.label.level.word} {','.join(rule.label.sorted_tags)} {rule.pattern!r}"
                for rule in rules
            ),
            *self.versions,
            *examples.fingerprint(),
        ]
        for fact in facts:
            digest.update(fact.encode() + b"\n")
        return digest.hexdigest()

    def find(
        self, text: str, check: Callable[[], None] | None = None, most: int | None = None
    ) -> tuple[Finding, ...]:
        """Findings in `text`, by place. `check` is called now and then and may raise to end the scan.

        With `most` the answer is good for a label and not for masking: a kind is looked for no further once
        it was found so often, and a text that takes more work than its length allows has a finding
        `dense-text` (restricted, opaque). Without it every span that can be masked is found, whatever it
        takes; what only says what a text is about is left out.

        Raises what the engine or a further detector raises; the caller must not take that for "nothing".
        """
        is_ascii = text.isascii()
        view = views.View(text, "plain", None) if is_ascii else views.canonical(text)
        fired = self._fired(view.data)
        if not fired and not self._extra and is_ascii and self._terms is None:
            return ()  # most chunks end here, with one call of the engine
        work = Work(None, None, check) if most is None else Work.bounded(len(text), most, check, self._wanted)
        findings: list[Finding] = []
        try:
            self._examine(view, fired, findings, 0, work)
            if not is_ascii:
                for make in _ODD_SCRIPTS:
                    inner = make(text)
                    if inner is not None:
                        self._examine(inner, self._fired(inner.data), findings, 1, work)
        except Exhausted:
            # fail-closed: what would take too long to read was not read, so it counts as the highest.
            findings.append(Finding("dense-text", _DENSE, _OPAQUE_LABEL, len(text) - 1, len(text)))
        for detector in self._extra:
            findings += detector.find(text)
        return merge(self._enough(findings) if self._least else findings)

    def _enough(self, findings: list[Finding]) -> list[Finding]:
        """Without the findings of rules that want more of them."""
        counts = Counter(finding.detector for finding in findings)
        return [each for each in findings if counts[each.detector] >= self._least.get(each.detector, 1)]

    def _examine(
        self,
        view: views.View,
        fired: Sequence[int],
        findings: list[Finding],
        depth: int,
        work: Work,
        is_layered: bool = True,
    ) -> None:
        """Read a view and what it leads to. `is_layered`: only encodings were taken off on the way here."""
        deeper: list[views.View] = []
        if self._terms is not None:
            self._read_terms(view, self._terms, findings, work)
        for index in fired:
            work.spend(1)
            if index < self._row_count:
                self._read_rows(view, index, findings, work)
            elif depth >= MAX_DEPTH and index not in self._blob:
                continue
            elif index in self._whole:
                if next(iter(self._spans(index, view.data)), None) is None:
                    continue
                for make in self._whole[index]:
                    whole = make(view, work)
                    if whole is not None and whole.text != view.text:
                        deeper.append(whole)
            else:
                self._decode(view, index, deeper, findings, work)
        if depth >= MAX_DEPTH:
            if is_layered and (views.has_escapes(view) or any(each.step in _DECODED for each in deeper)):
                # fail-closed: something is still encoded, and what it says was not read.
                span = view.origin(*(view.core or (0, len(view.text))))
                findings.append(Finding(OPAQUE_KIND, _OPAQUE, _OPAQUE_LABEL, *span))
            return
        for inner in deeper:
            work.spend(1 + (len(inner.text) >> 7))
            self._examine(
                inner,
                self._fired(inner.data),
                findings,
                depth + 1,
                work,
                is_layered and (inner.step in _DECODED or inner.step == "base64-strings"),
            )

    def _read_terms(self, view: views.View, terms: TermIndex, findings: list[Finding], work: Work) -> None:
        work.spend(1 + (len(view.text) >> 8))
        for rule, first, last in terms.find(view):
            work.spend(4)
            if view.is_around(first, last):
                continue
            work.note(rule)
            findings.append(Finding(rule.kind, rule.identity, rule.label, *view.origin(first, last)))
            if work.most is not None and all(map(work.is_done, terms.rules)):
                return

    def _read_rows(self, view: views.View, index: int, findings: list[Finding], work: Work) -> None:
        if work.most is None and index in self._about:
            return
        read, rules = self._readers[index]
        price = self._prices[index]
        for start, end in self._spans(index, view.data):
            work.spend(price + (end - start >> 6))
            for rule, first, last in read(view, start, end, work):
                if view.is_around(first, last):
                    continue
                work.note(rule)
                findings.append(Finding(rule.kind, rule.identity, rule.label, *view.origin(first, last)))
            if work.most is not None and all(map(work.is_done, rules)):
                return

    def _decode(
        self,
        view: views.View,
        index: int,
        deeper: list[views.View],
        findings: list[Finding],
        work: Work,
    ) -> None:
        make = self._blob[index]
        for start, end in self._spans(index, view.data):
            work.spend(1 + (end - start >> 6))
            if view.is_around(start, end):
                continue
            inner = make(view, start, end)
            if inner is not None or end - start > 63:
                work.spend(4)
            elif make is blobs.from_base64 and not blobs.is_name(view.text[start:end]):
                work.spend(3)  # four alignments were tried
            if inner is not None:
                deeper.append(inner)
            is_opaque = _IS_OPAQUE.get(make)
            if is_opaque is None or work.is_done(_OPAQUE):
                continue
            if (inner is None or inner.step not in _DECODED) and is_opaque(view.text[start:end]):
                work.note(_OPAQUE)
                findings.append(Finding(OPAQUE_KIND, _OPAQUE, _OPAQUE_LABEL, *view.origin(start, end)))


#: Reads one candidate for all rules of one pattern, and those rules.
_Reader = tuple[Callable[[views.View, int, int, Work], Iterable[tuple[Rule, int, int]]], list[Rule]]


def _reader(rules: list[Rule]) -> _Reader:
    """Number rows over one pattern are read together, all others one by one."""
    if all(isinstance(rule.examine, NumberRow) for rule in rules):
        return NumberReader(rules).read, rules

    def read(view: views.View, start: int, end: int, work: Work) -> Iterator[tuple[Rule, int, int]]:
        for rule in rules:
            if not work.is_done(rule):
                for first, last in rule.examine(view, start, end):
                    yield rule, first, last

    return read, rules


#: Every row that the product carries.
RULES: tuple[Rule, ...] = (
    identifiers.RULES
    + national.RULES
    + records.RULES
    + contact.RULES
    + places.RULES
    + secrets.RULES
    + tokens.RULES
    + health.RULES
    + markings.RULES
)


def build_detectors(
    engine: str = "hyperscan", extra: Sequence[Detector] = (), own: CustomDetectors | None = None
) -> DetectorSet:
    """The built-in rows over this engine (`hyperscan` or `re2`), and a tenant's own detectors.

    Raises `ConfigurationError`.
    """
    if own is None or not (own.patterns or own.dictionaries or own.raised):
        return DetectorSet(RULES, engine, extra)
    terms = TermIndex(own.dictionaries) if own.dictionaries else None
    return DetectorSet(own_rules(own, RULES, engine), engine, extra, terms, own.sha256)
