"""Typed reading of a document tree: each reader gives a checked value or an error with its place.

Invariants
1. A key that is not asked for is refused (`Section.only`), so that a misspelt key cannot be ignored.
2. Every error names file, line, column and path.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.policy.document import Mapping, Mark, Node, Scalar, Sequence, fault, shown

#: Names of models, tenants, destinations, rules, profiles. They become record fields and metric labels.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
LEVELS = "public, internal, confidential, restricted"
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Field:
    """One node with its place in the file. `path` reads like `rules[2].labels`."""

    file: str
    path: str
    node: Node

    @property
    def mark(self) -> Mark:
        """Where the value starts."""
        return self.node.mark

    def fault(self, expected: str, found: str | None = None) -> ConfigurationError:
        """An error at this value; `found` defaults to a picture of the value."""
        return fault(self.file, self.mark, self.path, expected, found or shown(self.node))

    def section(self) -> Section:
        """The value as a mapping."""
        if not isinstance(self.node, Mapping):
            raise self.fault("a mapping")
        return Section(self.file, self.path, self.node)

    def items(self) -> tuple[Field, ...]:
        """The value as a list."""
        if not isinstance(self.node, Sequence):
            raise self.fault("a list")
        return tuple(
            Field(self.file, f"{self.path}[{index}]", item) for index, item in enumerate(self.node.items)
        )

    def text(self, max_characters: int = 500) -> str:
        """The value as text that is not empty."""
        value = self._value()
        if not isinstance(value, str) or not value.strip():
            hint = " (put it in quotes)" if isinstance(value, (int, float)) else ""
            raise self.fault(f"text{hint}")
        if len(value) > max_characters:
            raise self.fault(f"at most {max_characters} characters", f"{len(value)}")
        return value

    def name(self) -> str:
        """The value as a name: letters, digits, `.`, `_`, `/`, `-`; at most 128 characters."""
        value = self.text()
        if not NAME.fullmatch(value):
            raise self.fault("a name of letters, digits, '.', '_', '/' and '-' (at most 128)")
        return value

    def boolean(self) -> bool:
        """The value as `true` or `false`."""
        value = self._value()
        if not isinstance(value, bool):
            raise self.fault("true or false")
        return value

    def integer(self, lowest: int, highest: int) -> int:
        """The value as an integer between two bounds, both included."""
        value = self._value()
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise self.fault(f"an integer from {lowest} to {highest}")
        return value

    def level(self) -> Level:
        """The value as a sensitivity level."""
        value = self._value()
        try:
            return Level.parse(value if isinstance(value, str) else "")
        except ValueError:
            raise self.fault(f"one of {LEVELS}") from None

    def choice(self, allowed: Iterable[str], kind: str) -> str:
        """The value as one of `allowed`; `kind` says what it should be."""
        value = self._value()
        names = tuple(allowed)
        if not isinstance(value, str) or value not in names:
            raise self.fault(f"{kind}{nearest(value, names)}")
        return value

    def distinct(self, read: Callable[[Field], _Item]) -> tuple[_Item, ...]:
        """The value as a list with at least one entry, each read by `read`, none twice."""
        found: list[_Item] = []
        for item in self.items():
            value = read(item)
            if value in found:
                raise item.fault("each entry once", f"{shown(item.node)} again")
            found.append(value)
        if not found:
            raise self.fault("at least one entry", "an empty list")
        return tuple(found)

    def _value(self) -> str | int | float | bool | None:
        return self.node.value if isinstance(self.node, Scalar) else None


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping with its place in the file."""

    file: str
    path: str
    node: Mapping

    def only(self, *allowed: str) -> Section:
        """This section, when it has no key outside `allowed`."""
        for key in self.node.entries:
            if key not in allowed:
                hint = nearest(key, allowed) or f" ({', '.join(allowed)})"
                raise fault(
                    self.file, self.node.key_marks[key], self._join(key), f"a known key{hint}", shown(key)
                )
        return self

    def __getitem__(self, key: str) -> Field:
        """The field that must be there."""
        if key not in self.node.entries:
            raise fault(self.file, self.node.mark, self._join(key), "a value", "nothing")
        return Field(self.file, self._join(key), self.node.entries[key])

    def get(self, key: str) -> Field | None:
        """The field, or None when the key is absent."""
        return self[key] if key in self.node.entries else None

    def __contains__(self, key: str) -> bool:
        return key in self.node.entries

    def __iter__(self) -> Iterator[tuple[str, Field]]:
        for key in self.node.entries:
            yield key, self[key]

    def named(self) -> Iterator[tuple[str, Field]]:
        """Like iteration, with every key checked to be a name."""
        for key, value in self:
            if not NAME.fullmatch(key):
                expected = "a name of letters, digits, '.', '_', '/' and '-' (at most 128)"
                raise fault(self.file, self.node.key_marks[key], self._join(key), expected, shown(key))
            yield key, value

    def fault(self, expected: str, found: str) -> ConfigurationError:
        """An error about the section as a whole."""
        return fault(self.file, self.node.mark, self.path, expected, found)

    def _join(self, key: str) -> str:
        shown_key = key if NAME.fullmatch(key) else shown(key)
        return f"{self.path}.{shown_key}" if self.path else shown_key


def nearest(word: object, names: Iterable[str]) -> str:
    """` (did you mean …?)` when a known name is close to `word`, else empty."""
    close = difflib.get_close_matches(str(word)[:128], list(names), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
