"""detectors.yaml: the base level and a tenant's own patterns and dictionaries, checked one by one.

Invariants
1. A pattern that could cost more than time linear in the text, that matches nothing or everything, or that
   no engine takes, is refused with its line and the reason.
2. A dictionary's terms are in the file itself or in `dictionaries/<file>.txt` beside it, one a line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

import re2

from gateway.domain.custom import CustomDetectors, CustomDictionary, CustomPattern
from gateway.domain.label import Label, Level, Tag
from gateway.policy.document import plain
from gateway.policy.fields import Field, Section, nearest

DICTIONARIES_PREFIX = "dictionaries/"
MAX_PATTERNS, MAX_DICTIONARIES = 200, 50
MAX_TERMS = 1_000_000
MAX_PATTERN_CHARACTERS = 512
#: Memory bound of one compiled expression in bytes; larger ones make the scan of every text slower.
_MAX_MEMORY_BYTES = 1 << 20
_KIND = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_TAGS = tuple(tag.value for tag in Tag)


def read_detectors(root: Section, files: Mapping[str, str]) -> tuple[Level, CustomDetectors]:
    """Base level and own detectors. `files` has the dictionaries by name. Raises `ConfigurationError`."""
    root.only("version", "base_level", "patterns", "dictionaries", "raise")
    root["version"].name()
    base_level = root["base_level"].level()
    names: set[str] = set()
    patterns = tuple(_pattern(item, names) for item in _items(root.get("patterns"), MAX_PATTERNS))
    dictionaries = tuple(
        _dictionary(item, names, files) for item in _items(root.get("dictionaries"), MAX_DICTIONARIES)
    )
    raised = {}
    raise_field = root.get("raise")
    if raise_field is not None:
        raised = {kind: field.level() for kind, field in raise_field.section()}
    return base_level, CustomDetectors(patterns, dictionaries, raised, _digest(root, dictionaries))


def _digest(root: Section, dictionaries: tuple[CustomDictionary, ...]) -> str:
    digest = hashlib.sha256(json.dumps(plain(root.node), sort_keys=True).encode())
    for dictionary in dictionaries:
        digest.update("\n".join(dictionary.terms).encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _items(field: Field | None, most: int) -> tuple[Field, ...]:
    items = () if field is None else field.items()
    if field is not None and len(items) > most:
        raise field.fault(f"at most {most} entries", str(len(items)))
    return items


def _common(section: Section, names: set[str]) -> tuple[str, Label, tuple[str, ...], int, str]:
    name_field = section["name"]
    name = name_field.text(64)
    if not _KIND.fullmatch(name):
        raise name_field.fault("a name of lower-case letters, digits and '-'")
    if name in names:
        raise name_field.fault("each name once", f"{name!r} again")
    names.add(name)
    tag_field, near_field, least_field = section.get("tags"), section.get("near"), section.get("at_least")
    tags = () if tag_field is None else tag_field.distinct(_tag)
    near = () if near_field is None else near_field.distinct(lambda item: item.text(64))
    least = 1 if least_field is None else least_field.integer(1, 1000)
    mark = name_field.mark
    label = Label(section["level"].level(), frozenset(tags))
    return name, label, near, least, f"{section.file}:{mark.line}:{mark.column}"


def _tag(item: Field) -> Tag:
    return Tag(item.choice(_TAGS, f"one of {', '.join(_TAGS)}"))


def _pattern(item: Field, names: set[str]) -> CustomPattern:
    section = item.section().only("name", "level", "tags", "pattern", "near", "at_least")
    name, label, near, least, where = _common(section, names)
    field = section["pattern"]
    text = field.text(MAX_PATTERN_CHARACTERS)
    reason = unsafe(text)
    if reason is not None:
        raise field.fault("an expression that is safe to run on every text", reason)
    return CustomPattern(name, label, text, near, least, where)


def unsafe(pattern: str) -> str | None:
    """Why this expression is not taken, or None. RE2 runs every one that it takes in linear time."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _MAX_MEMORY_BYTES
    options.log_errors = False
    if not pattern.isascii():
        return "signs outside ASCII (texts are matched without accents; use a dictionary for other scripts)"
    try:
        compiled = re2.compile(pattern.encode("ascii"), options)
    except re2.error as error:
        reason = error.args[0] if error.args else "no RE2 expression"
        words = reason.decode("ascii", "replace") if isinstance(reason, bytes) else str(reason)
        return f"no RE2 expression: {words} (look-around and back references are not in RE2)"
    if compiled.search(b"") is not None or compiled.fullmatch(b" ") is not None:
        return "an expression that matches nothing at all, or a blank"
    if compiled.groups > 1:
        return "more than one group (one group says what is found; write `(?:` for the others)"
    if _BROAD.match(pattern):
        return "an expression that begins with any number of any character"
    return None


_BROAD = re.compile(r"^\^?\(?(?:\?[a-z:]*)?(?:\.|\[\^.\]|\\[SWDsw])[*+{]")


def _dictionary(item: Field, names: set[str], files: Mapping[str, str]) -> CustomDictionary:
    section = item.section().only("name", "level", "tags", "terms", "file", "near", "at_least")
    name, label, near, least, where = _common(section, names)
    if ("terms" in section) == ("file" in section):
        raise section.fault("either terms or file", "both" if "terms" in section else "neither")
    if "terms" in section:
        field = section["terms"]
        terms = tuple(field.text() for field in field.items())
    else:
        field = section["file"]
        known = [file.removeprefix(DICTIONARIES_PREFIX) for file in files]
        wanted = field.choice(known, f"a file of the folder dictionaries{nearest(field.text(), known)}")
        lines = files[DICTIONARIES_PREFIX + wanted].splitlines()
        terms = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))
    if not 0 < len(terms) <= MAX_TERMS:
        raise field.fault(f"1 to {MAX_TERMS} terms", str(len(terms)))
    short = next((place for place, term in enumerate(terms) if sum(map(str.isalnum, term)) < 2), None)
    if short is not None:
        raise field.fault("terms of two letters or digits and more", f"a shorter one as number {short + 1}")
    return CustomDictionary(name, label, terms, near, least, where)
