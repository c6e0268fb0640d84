"""What is sound in detectors.yaml and yet does nothing, or fires on ordinary text.

Each note begins with file, line and column. Terms are named by their number, never quoted: a dictionary of
clients is itself confidential.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import re2

from gateway.domain.custom import CustomDetectors, CustomDictionary, CustomPattern
from gateway.domain.label import Level

#: Ordinary text of several kinds and languages in which a tenant's detector has nothing to find.
_ORDINARY = (
    "Could you explain how compound interest works with an example? Please list three causes and thank you.",
    "the quick brown fox jumps over the lazy dog while we are waiting for the next train in the morning",
    "Der Zug fahrt uber die Brucke, wahrend es regnet. Die nachste Sitzung ist am Montag um 10:30 Uhr.",
    "La prochaine reunion aura lieu en salle B. El manual interno se actualiza antes de marzo de 2026.",
    "for index in range(10): total += values[index]  # see docs/reference.md, version 3.11.9, 2024-01-15",
)
_WORD = re.compile(r"[^\W_]+")
#: Letters of a lone word below which it is found in many texts that do not mean it.
_SHORT = 4
#: Notes about one dictionary; more of the same help nobody.
_MOST = 10


def detector_notes(own: CustomDetectors, base_level: Level) -> tuple[str, ...]:
    """Notes about the tenant's own detectors, in the order of the file."""
    found: list[str] = []
    for pattern in own.patterns:
        found += (f"{pattern.where}: pattern {pattern.name} {words}" for words in _pattern(pattern))
        found += _level(pattern, base_level)
    seen: dict[tuple[str, ...], tuple[CustomDictionary, int]] = {}
    for dictionary in own.dictionaries:
        notes = [
            f"{dictionary.where}: dictionary {dictionary.name} {words}" for words in _terms(dictionary, seen)
        ]
        found += notes[:_MOST]
        if len(notes) > _MOST:
            more = len(notes) - _MOST
            found.append(f"{dictionary.where}: dictionary {dictionary.name} has {more} more such terms")
        found += _level(dictionary, base_level)
    return tuple(found)


def _level(each: CustomPattern | CustomDictionary, base_level: Level) -> Iterator[str]:
    if each.label.level <= base_level and not each.label.tags:
        yield f"{each.where}: {each.name} raises nothing: every text has {base_level.word} or more anyway"


def _pattern(pattern: CustomPattern) -> Iterator[str]:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    expression = re2.compile(pattern.pattern.encode("ascii"), options)
    hits = sum(expression.search(text.encode("ascii")) is not None for text in _ORDINARY)
    if hits and not pattern.near and pattern.at_least == 1:
        yield f"fires on ordinary text ({hits} of {len(_ORDINARY)} samples): narrow it, or give it near"
    for sign, meaning in (("^", "the beginning"), ("$", "the end")):
        is_anchor = pattern.pattern.startswith(sign) if sign == "^" else pattern.pattern.endswith(sign)
        if is_anchor and not pattern.pattern.endswith(r"\$"):
            yield f"is found only at {meaning} of a whole text: write `(?m)` or `\\b`"


def _folded(term: str) -> tuple[str, ...]:
    """The words of a term as they are compared: without accents, in small letters."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", term) if not unicodedata.combining(sign))
    return tuple(_WORD.findall(plain.casefold()))


def _terms(
    dictionary: CustomDictionary, seen: dict[tuple[str, ...], tuple[CustomDictionary, int]]
) -> Iterator[str]:
    for number, term in enumerate(dictionary.terms, 1):
        words = _folded(term)
        if not words:
            yield f"term {number} has no word and is never found"
            continue
        if re.search(r"[^\w\s]{4,}|\s{4,}|(?:[^\w]|_){4,}", term):
            yield f"term {number} has more than three signs between two words and is never found"
        elif len(words) == 1 and len(words[0]) < _SHORT and words[0].isascii():
            yield f"term {number} is one word of {len(words[0])} letters: it is found in many texts"
        known = seen.setdefault(words, (dictionary, number))
        if known != (dictionary, number):
            other = "" if known[0] is dictionary else f" of {known[0].name}"
            yield f"term {number} reads like term {known[1]}{other}"
