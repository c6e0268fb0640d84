"""From a text to the spans that must not be released: find, decide by profile, merge.

Invariants
1. A finder that raises, answers with a span outside the text or runs over the budget ends the answer.
2. Masks come sorted, do not overlap, and end behind `start`.
3. No exception raised here carries the text: causes are cut off (`from None`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level, Tag
from gateway.errors import OutputBlocked
from gateway.output.json_text import Unescaped
from gateway.output.rules import Action, OutputProfile

#: Finds identifiers and secrets in one text; spans are character offsets into it.
Find = Callable[[str], tuple[Finding, ...]]

#: Text that one budget is meant for; a longer delta may take so many budgets.
BUDGET_CHARS = 4096
_KIND = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_OPEN_DETECTOR = "open-secret@1"
#: What MASK writes: always as many, so that the length is not told.
STARS = "****"


@dataclass(frozen=True, slots=True)
class Mask:
    """A span of a text that is not released, with what decided so."""

    start: int
    end: int
    action: Action
    kind: str
    rule: str
    text: str = ""

    @property
    def placeholder(self) -> str:
        """What stands in its place: no quote and no backslash, so it is safe inside JSON strings."""
        if self.text:
            return self.text
        return STARS if self.action is Action.MASK else f"[redacted:{self.kind}]"


def blocked(detail: str) -> OutputBlocked:
    """The refusal that ends an answer. `detail` is a closed word for operators."""
    return OutputBlocked(
        "The gateway's output filter stopped the answer. Change the request, or ask your administrator.",
        detail=detail,
    )


class Judge:
    """Scans texts for one exchange within a time budget."""

    __slots__ = ("_budget_ns", "_clock_ns", "_find", "_left_ns", "_profile")

    def __init__(
        self, find: Find, profile: OutputProfile, clock_ns: Callable[[], int], budget_ns: int
    ) -> None:
        self._find = find
        self._profile = profile
        self._clock_ns = clock_ns
        self._budget_ns = budget_ns
        self._left_ns = budget_ns

    def begin(self, size: int) -> None:
        """Start the budget of one event with `size` characters."""
        self._left_ns = self._budget_ns * (1 + size // BUDGET_CHARS)

    def extend(self, size: int) -> None:
        """Add the budget of `size` characters that belong to the event and are no part of its text."""
        self._left_ns += self._budget_ns * (1 + size // BUDGET_CHARS)

    def scan(self, text: str, start: int = 0, is_json: bool = False) -> list[Mask]:
        """Masks of `text` that end behind `start`; JSON is also read through its escapes."""
        findings = self._ask(text)
        if not is_json or "\\" not in text:
            return self._masks(findings, start)
        view = Unescaped(text)
        spans = [(finding, *view.whole(finding.start, finding.end)) for finding in findings]
        spans += [(finding, *view.origin(finding.start, finding.end)) for finding in self._ask(view.text)]
        moved = [Finding(f.kind, f.detector, f.label, begin, end) for f, begin, end in spans]
        return self._masks(tuple(moved), start)

    def open_secret(self, kind: str, start: int, end: int) -> Mask | None:
        """Mask for a secret that the filter recognises by its beginning; None when no rule is about it."""
        label = Label(Level.RESTRICTED, frozenset({Tag.SECRET}))
        masks = self._masks((Finding(kind, _OPEN_DETECTOR, label, start, end),), start)
        return masks[0] if masks else None

    def _ask(self, text: str) -> tuple[Finding, ...]:
        begun = self._clock_ns()
        try:
            findings = self._find(text)
        except Exception:  # noqa: BLE001
            # fail-closed: a finder that raises has not said that the text is clean.
            raise blocked("finder-raised") from None
        self._left_ns -= self._clock_ns() - begun
        if self._left_ns < 0:
            # fail-closed: an unscanned tail is not released to save time.
            raise blocked("budget-spent")
        for finding in findings:
            if not 0 <= finding.start < finding.end <= len(text):
                # fail-closed: a span that does not fit cannot be masked.
                raise blocked("finding-out-of-bounds")
        return findings

    def _masks(self, findings: tuple[Finding, ...], start: int) -> list[Mask]:
        masks: list[Mask] = []
        for finding in sorted(findings, key=lambda item: (item.start, -item.end, item.kind)):
            if finding.end <= start or (decided := self._profile.judge(finding)) is None:
                continue
            rule, action = decided
            kind = finding.kind if _KIND.fullmatch(finding.kind) else "item"
            text = rule.text if action is Action.REPLACE else ""
            mask = Mask(finding.start, finding.end, action, kind, rule.name, text)
            if masks and mask.start < masks[-1].end:
                mask = _joined(masks.pop(), mask)
            masks.append(mask)
        return masks


def _joined(one: Mask, other: Mask) -> Mask:
    """One mask for two that overlap, named by the stricter, then the longer, then the first."""
    lead = max(one, other, key=lambda mask: (mask.action, mask.end - mask.start))
    return replace(lead, start=min(one.start, other.start), end=max(one.end, other.end))
