"""What a detector saw, without the text it saw."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.domain.label import Label

#: Kind of a finding of a contextual model about a text in a language that it was not made to read.
UNSUPPORTED_LANGUAGE = "unsupported-language"


@dataclass(frozen=True, slots=True)
class Finding:
    """One match in one text.

    `kind` is a closed word such as `iban` or `openai-key`; `detector` is name@version. `start` and
    `end` are character offsets into the original text, end exclusive. The matched text is never kept.
    """

    kind: str
    detector: str
    label: Label
    start: int
    end: int


class Coverage(StrEnum):
    """What can be said of one part. `scanned` is never written for what was skipped."""

    SCANNED = "scanned"
    NOTHING = "nothing-to-scan"
    UNSCANNABLE = "unscannable"


@dataclass(frozen=True, slots=True)
class PartVerdict:
    """Coverage and findings of one part. `path` is like `messages[3].content[0]`."""

    path: str
    coverage: Coverage
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Label of a whole request: the join over all parts, the declared label and the floors.

    `detectors` names the active set by its digest (`detectors@` and 16 hex digits); the list of name@version
    that the digest stands for is recorded when the set is activated. `degraded` says in a closed word why the
    strict answer was taken (`detector-raised`, `budget-spent`), or is None.
    """

    label: Label
    parts: tuple[PartVerdict, ...]
    detectors: tuple[str, ...]
    degraded: str | None = None

    @property
    def finding_count(self) -> int:
        """Number of findings over all parts."""
        return sum(len(part.findings) for part in self.parts)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Distinct finding kinds, sorted."""
        return tuple(sorted({finding.kind for part in self.parts for finding in part.findings}))
