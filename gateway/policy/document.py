"""YAML 1.2 core text to a tree that remembers where each key and value stands.

Invariants
1. Any text gives a tree or a `ConfigurationError`; nothing else comes out, in time linear in the text.
2. What a reviewer reads is what is parsed: no aliases, anchors, tags, directives, second documents,
   duplicate keys, bidirectional controls, zero-width characters or line breaks that only a parser sees.
3. Only `true`, `false`, `null`, `~`, empty, integers and decimal numbers are not text. `no`, `yes`,
   `on`, `off` and dates are text.
4. A tree is at most `MAX_DEPTH` deep and has at most `MAX_NODES` nodes.

Source: YAML 1.2.2 section 10.3 (core schema). The scanner and parser are libyaml's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from gateway.errors import ConfigurationError

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 16
MAX_NODES = 65_536
_SHOWN_CHARACTERS = 60

#: Python's and YAML 1.1's extra line breaks, bidirectional controls, zero-width characters: a reader
#: and the parser would disagree about the text (CVE-2021-42574 for the bidirectional ones).
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}|0o[0-7]{1,18}|0x[0-9a-fA-F]{1,15}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]{1,30}|[0-9]{1,30}(?:\.[0-9]{0,30})?)(?:[eE][-+]?[0-9]{1,2})?")
_NUMBER_LIKE = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip

Value = str | int | float | bool | None
#: A tree without positions, as another room takes it.
Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file; line and column count from 1, in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value. `text_mark` is where the first character of a text stands (behind a quote sign, on the
    line below a `|`) when all others can be found by counting from it, else None (escapes, folding)."""

    mark: Mark
    value: Value
    text_mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of nodes."""

    mark: Mark
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys, all of them text and different, in the order of the file; `key_marks` has their places."""

    mark: Mark
    entries: dict[str, Node]
    key_marks: dict[str, Mark]


Node = Scalar | Sequence | Mapping


def fault(file: str, mark: Mark, path: str, expected: str, found: str) -> ConfigurationError:
    """The error that every module of this room raises: file, line, column, key, expected, found."""
    where = f"{file}:{mark.line}:{mark.column}:"
    return ConfigurationError(f"{where} {path + ': ' if path else ''}expected {expected}, found {found}")


def shown(node: Node | Value) -> str:
    """A bounded, one-line picture of a value for an error message."""
    match node:
        case Mapping():
            return "a mapping"
        case Sequence():
            return "a list"
        case Scalar():
            return shown(node.value)
        case None:
            return "nothing"
        case bool() | int() | float():
            return json.dumps(node)
        case str():
            cut = node if len(node) <= _SHOWN_CHARACTERS else node[:_SHOWN_CHARACTERS] + "…"
            return json.dumps(cut, ensure_ascii=False)


def plain(node: Node) -> Plain:
    """The tree without positions: dictionaries, lists and values."""
    match node:
        case Scalar():
            return node.value
        case Sequence():
            return [plain(item) for item in node.items]
        case Mapping():
            return {key: plain(value) for key, value in node.entries.items()}


def parse(text: str, file: str) -> Node:
    """The tree of one YAML document; `file` is only for error messages.

    Bounds: `MAX_BYTES`, `MAX_DEPTH`, `MAX_NODES`. Raises `ConfigurationError` with line and column.
    """
    raw = _checked_bytes(text, file)
    builder = _Builder(file, raw)
    try:
        for event in yaml.parse(raw, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        place = _mark(error.problem_mark or error.context_mark)
        problem = " ".join(filter(None, (error.context, error.problem)))
        raise fault(file, place, "", "valid YAML", problem or "a syntax error") from None
    except yaml.YAMLError as error:
        raise fault(file, Mark(1, 1), "", "valid YAML", type(error).__name__) from None
    if builder.root is None:
        raise fault(file, Mark(1, 1), "", "a YAML document", "an empty file")
    return builder.root


def _mark(mark: Any) -> Mark:
    """libyaml counts from 0, people from 1."""
    return Mark(1, 1) if mark is None else Mark(mark.line + 1, mark.column + 1)


def _checked_bytes(text: str, file: str) -> bytes:
    if len(text) > MAX_BYTES:
        raise fault(file, Mark(1, 1), "", f"at most {MAX_BYTES} bytes", f"{len(text)} characters")
    # A Windows line end is one line break for readers and for the parser.
    text = text.replace("\r\n", "\n")
    unseen = _UNSEEN.search(text)
    if unseen is not None:
        start = unseen.start()
        place = Mark(text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
        # fail-closed: a character that a reviewer cannot see could hide a rule.
        raise fault(file, place, "", "characters that a reader can see", f"U+{ord(unseen[0]):04X}")
    raw = text.encode("utf-8")
    if len(raw) > MAX_BYTES:
        raise fault(file, Mark(1, 1), "", f"at most {MAX_BYTES} bytes", f"{len(raw)} bytes")
    return raw


@dataclass(slots=True)
class _Open:
    """A collection that is still being read; `key` waits for its value."""

    mark: Mark
    is_mapping: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Node] = field(default_factory=dict)
    key_marks: dict[str, Mark] = field(default_factory=dict)
    key: str | None = None


class _Builder:
    """Folds parser events into a tree. Uses a stack of its own, so depth cannot exhaust Python's."""

    def __init__(self, file: str, raw: bytes) -> None:
        self.root: Node | None = None
        self._file = file
        self._raw = raw
        self._lines: list[bytes] = []
        self._stack: list[_Open] = []
        self._node_count = 0

    def take(self, event: yaml.Event) -> None:
        """One event; raises `ConfigurationError` for what YAML allows and this project does not."""
        mark = _mark(event.start_mark)
        match event:
            case yaml.AliasEvent():
                raise fault(self._file, mark, "", "the value itself", "an alias")
            case yaml.DocumentStartEvent():
                self._start_document(event, mark)
            case yaml.ScalarEvent():
                self._check_node(event, mark)
                self._scalar(event, mark)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._check_node(event, mark)
                self._open(mark, isinstance(event, yaml.MappingStartEvent))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close()
            case _:
                pass

    def _start_document(self, event: yaml.DocumentStartEvent, mark: Mark) -> None:
        if event.version or event.tags:
            raise fault(self._file, mark, "", "no YAML directive", "a % line")
        if self.root is not None:
            raise fault(self._file, mark, "", "one document in a file", "a second one")

    def _check_node(self, event: yaml.NodeEvent, mark: Mark) -> None:
        if event.anchor is not None:
            raise fault(self._file, mark, "", "no anchor", f"&{shown(str(event.anchor))}")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise fault(self._file, mark, "", "no tag", shown(str(tag)))
        self._node_count += 1
        if self._node_count > MAX_NODES:
            raise fault(self._file, mark, "", f"at most {MAX_NODES} values in a file", "more")

    def _scalar(self, event: yaml.ScalarEvent, mark: Mark) -> None:
        style = str(event.style or "")
        value = self._resolve(event.value, mark) if style in {"", ":"} else event.value
        self._put(Scalar(mark, value, self._text_mark(event.value, style, mark, _mark(event.end_mark))))

    def _text_mark(self, text: str, style: str, mark: Mark, end: Mark) -> Mark | None:
        if style == "|":
            self._lines = self._lines or self._raw.split(b"\n")
            first = self._lines[mark.line] if mark.line < len(self._lines) else b""
            indent = len(first) - len(first.lstrip(b" "))
            # Blank first lines and an explicit indent (`|2`) keep spaces: then the lines differ.
            same = text[:1] not in {"", "\n"} and first[indent:] == text.split("\n", 1)[0].encode("utf-8")
            return Mark(mark.line + 1, indent + 1) if same else None
        quote = 1 if style in {"'", '"'} else 0
        is_literal = end.line == mark.line and end.column - mark.column == len(text) + 2 * quote
        return Mark(mark.line, mark.column + quote) if is_literal else None

    def _resolve(self, word: str, mark: Mark) -> Value:
        if word in _WORDS:
            return _WORDS[word]
        if _INTEGER.fullmatch(word):
            return int(word, 0 if word[:2] in {"0o", "0x"} else 10)
        if _FLOAT.fullmatch(word):
            return float(word)
        if _NUMBER_LIKE.fullmatch(word):
            raise fault(self._file, mark, "", "a finite number of at most 18 digits", shown(word))
        return word

    def _open(self, mark: Mark, is_mapping: bool) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise fault(self._file, mark, "", f"at most {MAX_DEPTH} levels", "a deeper one")
        if self._stack and self._stack[-1].is_mapping and self._stack[-1].key is None:
            raise fault(self._file, mark, "", "a key that is text", "a list or mapping as key")
        self._stack.append(_Open(mark, is_mapping))

    def _close(self) -> None:
        done = self._stack.pop()
        if done.is_mapping:
            self._put(Mapping(done.mark, done.entries, done.key_marks))
        else:
            self._put(Sequence(done.mark, tuple(done.items)))

    def _put(self, node: Node) -> None:
        if not self._stack:
            self.root = node
            return
        top = self._stack[-1]
        if not top.is_mapping:
            top.items.append(node)
        elif top.key is None:
            top.key = self._key(node, top)
            top.key_marks[top.key] = node.mark
        else:
            top.entries[top.key] = node
            top.key = None

    def _key(self, node: Node, top: _Open) -> str:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            raise fault(self._file, node.mark, "", "a key that is text (quote it)", shown(node))
        if node.value in top.key_marks:
            first = top.key_marks[node.value]
            found = f"{shown(node)} again (first at line {first.line})"
            raise fault(self._file, node.mark, "", "each key once", found)
        return node.value
