"""The detector set: all rows over all views of one text.

Invariants
1. `find` gives spans of the text it was given, sorted, none nested in another; where two were nested the
   outer one carries the label of both, so merging never loses a label.
2. Findings are the same with either engine.
3. Work is bounded: a view is decoded at most `MAX_DEPTH` times, and no view is longer than the text it
   came from but for `views.MAX_EXPANSION`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import unicodedata
from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level, Tag
from gateway.errors import ConfigurationError
from gateway.sensitivity import examples, identifiers, national, secrets, views
from gateway.sensitivity.engine import PatternEngine, open_engine
from gateway.sensitivity.rule import Rule

#: How many layers of escapes and encodings are taken off.
MAX_DEPTH = 3
#: Candidates between two looks at the clock.
_CHECK_EVERY = 64

_OPAQUE = "opaque-blob@1"
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


class DetectorSet:
    """Rows over one engine, and any further detectors. Immutable; safe to share between threads."""

    def __init__(self, rules: Sequence[Rule], engine: str, extra: Sequence[Detector] = ()) -> None:
        patterns = list(dict.fromkeys(rule.pattern for rule in rules))
        self._rows = [[rule for rule in rules if rule.pattern == pattern] for pattern in patterns]
        self._escape, self._base64, self._hex = range(len(patterns), len(patterns) + 3)
        patterns += [views.ESCAPE_TRIGGER, views.BASE64_TRIGGER, views.HEX_TRIGGER]
        self._engine: PatternEngine = open_engine(engine, patterns, once=frozenset({self._escape}))
        self._scan = self._engine.scan
        self._extra = tuple(extra)
        built_in = dict.fromkeys(rule.identity for rule in rules)
        self.versions: tuple[str, ...] = (*built_in, _OPAQUE, *(detector.identity for detector in extra))
        if len(set(self.versions)) != len(self.versions):
            raise ConfigurationError("detectors: expected distinct name@version, found one twice")
        self.sha256 = self._digest(rules)

    def _digest(self, rules: Sequence[Rule]) -> str:
        digest = hashlib.sha256()
        facts = [
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

    def find(self, text: str, check: Callable[[], None] | None = None) -> tuple[Finding, ...]:
        """Findings in `text`, by place. `check` is called now and then and may raise to end the scan.

        Raises what the engine or a further detector raises; the caller must not take that for "nothing".
        """
        if text.isascii():  # most chunks end here, with one call of the engine
            hits = self._scan(text.encode("ascii"))
            if not hits and not self._extra:
                return ()
            view = views.View(text, "plain", None)
        else:
            view = views.canonical(text)
            hits = self._scan(view.data)
        findings: list[Finding] = []
        if hits:
            self._examine(view, hits, findings, 0, check)
        if view.text is not text:
            tags = views.hidden_tags(text)
            if tags is not None:
                self._examine(tags, self._scan(tags.data), findings, 1, check)
        for detector in self._extra:
            findings += detector.find(text)
        return merge(findings)

    def _examine(
        self,
        view: views.View,
        hits: Sequence[tuple[int, int, int]],
        findings: list[Finding],
        depth: int,
        check: Callable[[], None] | None,
    ) -> None:
        deeper: list[views.View] = []
        row_count = len(self._rows)
        has_escapes = False
        for count, (index, start, end) in enumerate(hits):
            if check is not None and count % _CHECK_EVERY == 0:
                check()
            if index < row_count:
                for rule in self._rows[index]:
                    for first, last in rule.examine(view, start, end):
                        place = view.origin(first, last)
                        findings.append(Finding(rule.kind, rule.identity, rule.label, *place))
            elif index == self._escape:
                has_escapes = True
            else:
                inner = self._decode(view, index, start, end, findings)
                if inner is not None:
                    deeper.append(inner)
        if depth >= MAX_DEPTH:
            return
        if has_escapes:
            deeper.append(views.unescaped(view))
        for inner in deeper:
            if check is not None:
                check()
            self._examine(inner, self._scan(inner.data), findings, depth + 1, check)

    def _decode(
        self, view: views.View, index: int, start: int, end: int, findings: list[Finding]
    ) -> views.View | None:
        if index == self._hex:
            return views.from_hex(view, start, end)
        inner = views.from_base64(view, start, end)
        if (inner is None or inner.step != "base64") and views.is_opaque(view.text[start:end]):
            findings.append(Finding("opaque-blob", _OPAQUE, _OPAQUE_LABEL, *view.origin(start, end)))
        return inner


#: Every row that the product carries.
RULES: tuple[Rule, ...] = identifiers.RULES + national.RULES + secrets.RULES


def build_detectors(engine: str = "hyperscan", extra: Sequence[Detector] = ()) -> DetectorSet:
    """The built-in rows over this engine (`hyperscan` or `re2`). Raises `ConfigurationError`."""
    return DetectorSet(RULES, engine, extra)
