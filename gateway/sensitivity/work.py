"""How much work one text may take, counted in steps and not in time, so that the same text gives the same.

Invariants
1. A text that runs out of steps is never taken for clean: `Exhausted` becomes a finding of its own.
2. Without bounds (`Work()`) nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: Steps of a text: this many, and one more for every so many characters. A step is 2 to 4 µs.
STEPS = 20_000
CHARACTERS_PER_STEP = 32
#: Candidates between two looks at the clock.
_CHECK_EVERY = 64


class Exhausted(Exception):
    """The steps of a text are used up. Never leaves the room."""


@dataclass(slots=True)
class Work:
    """Counts for one text.

    `most`: findings of one kind after which it is not looked for any more (None: all are wanted).
    `wanted`: by identity of a rule, how many of its findings are needed whatever `most` says.
    `left`: steps left (None: no bound). `check` is called now and then and may raise to end the scan.
    """

    most: int | None = None
    left: int | None = None
    check: Callable[[], None] | None = None
    wanted: Mapping[int, int] = field(default_factory=dict)
    _found: dict[int, int] = field(default_factory=dict)
    _until_check: int = 0

    @classmethod
    def bounded(
        cls,
        length: int,
        most: int,
        check: Callable[[], None] | None,
        wanted: Mapping[int, int] | None = None,
    ) -> Work:
        """Work for the label of a text with `length` characters."""
        return cls(most, STEPS + length // CHARACTERS_PER_STEP, check, wanted or {})

    def spend(self, steps: int) -> None:
        """Use steps up; raises `Exhausted`, or what `check` raises."""
        if self.check is not None:
            self._until_check -= steps
            if self._until_check < 0:
                self._until_check = _CHECK_EVERY
                self.check()
        if self.left is not None:
            self.left -= steps
            if self.left < 0:
                raise Exhausted

    def is_done(self, rule: object) -> bool:
        """Whether enough was found of this rule."""
        if self.most is None:
            return False
        count = self._found.get(id(rule), 0)
        return count >= self.most and count >= self.wanted.get(id(rule), 0)

    def note(self, rule: object) -> None:
        """One more finding of this rule."""
        self._found[id(rule)] = self._found.get(id(rule), 0) + 1
