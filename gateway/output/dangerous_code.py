"""Code in an answer that is known to be dangerous when it is run: noted in the record, nothing is changed.

An answer may rightly show such code, to explain or to warn. So the only action is FLAG.
Source of the patterns: the CWE entries named beside them.

Invariants
1. A kind is told once for each text. No match is longer than `_REACH`, so it is found however the text is
   cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.output.guard import Asked, Watch, WatchMaker
from gateway.output.judge import Mask
from gateway.output.pieces import Piece, verbatim
from gateway.output.rules import Action

#: Characters that are kept of what was searched: longer than every match, with the character before it.
_REACH = 256
#: Characters that are gathered before they are searched. Nothing is held, so this costs nobody time.
_GATHERED = 1024
#: Kind, words one of which stands in every match (to look for them is much faster), and the expression.
_PATTERNS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # CWE-494: run what was just fetched.
    (
        "code-remote-shell",
        ("curl ", "wget "),
        r"(?:curl|wget) [^\n|]{1,120}\|[ \t]{0,4}(?:sudo )?(?:ba|z|da)?sh",
    ),
    # CWE-506: a shell for somebody else; a command that hides what it is.
    (
        "code-reverse-shell",
        ("/dev/tcp/", "nc -", "bash -i"),
        r"/dev/tcp/|\bnc -[a-z]{0,4}e |bash -i >&",
    ),
    (
        "code-hidden-command",
        ("owershell", "owerShell", "OWERSHELL"),
        r"[pP](?:ower[sS]hell|OWERSHELL)(?:\.exe)?[^\n]{0,80} -[eE][nN][cC]",
    ),
    # CWE-73
    (
        "code-delete-tree",
        ("rm ", "rm\t"),
        r"\brm[ \t]{1,4}-(?:[a-zA-Z]{0,4}r[a-zA-Z]{0,4}f|[a-zA-Z]{0,4}f[a-zA-Z]{0,4}r)",
    ),
    # CWE-732
    ("code-open-permissions", ("chmod ",), r"\bchmod (?:-R )?0?777"),
    # CWE-95
    ("code-evaluation", ("eval(", "exec(", "Function("), r"(?<![\w.])(?:eval|exec)\(|new Function\("),
    # CWE-78
    (
        "code-shell-call",
        ("os.system(", "shell", "child_process"),
        r"os\.system\(|shell ?= ?True|child_process",
    ),
    # CWE-502
    (
        "code-unsafe-load",
        ("load", "unserialize(", "ObjectInputStream"),
        r"pickle\.loads?\(|marshal\.loads?\(|yaml\.load\(|unserialize\(|ObjectInputStream",
    ),
    # CWE-295
    (
        "code-no-verification",
        ("erif", "rejectUnauthorized", "VERIFYPEER"),
        r"verify ?= ?False|InsecureSkipVerify ?: ?true|rejectUnauthorized[\"']? ?: ?false"
        r"|_create_unverified_context|CURLOPT_SSL_VERIFYPEER, ?(?:0|false)",
    ),
)
_COMPILED = tuple((kind, words, re.compile(pattern)) for kind, words, pattern in _PATTERNS)
KINDS = tuple(kind for kind, _, _ in _PATTERNS)


@dataclass(frozen=True, slots=True)
class CodeRule:
    """Records which kinds of dangerous code a text holds."""

    name: str

    @property
    def is_first(self) -> bool:
        """True: it reads what the model wrote."""
        return True

    def prepare(self, asked: Asked) -> WatchMaker:
        """The same for every request."""
        return self._watch

    def _watch(self, is_json: bool) -> Watch:
        return CodeWatch(self.name)


class CodeWatch:
    """Watch of one text. All of it passes at once."""

    __slots__ = ("_gathered", "_name", "_parts", "_tail", "_told")

    held_count = 0

    def __init__(self, name: str) -> None:
        self._name = name
        self._tail = "\n"
        self._parts: list[str] = []
        self._gathered = 0
        self._told: set[str] = set()

    def passes(self, text: str) -> bool:
        """Take `text` when it is too early to search."""
        if self._gathered + len(text) >= _GATHERED:
            return False
        self._parts.append(text)
        self._gathered += len(text)
        return True

    def feed(self, text: str) -> list[Piece]:
        """`text`, and what was found in all that was gathered with it."""
        self._parts.append(text)
        return [*self._search(), verbatim(text)]

    def flush(self) -> list[Piece]:
        """What was found in the rest."""
        return self._search()

    def _search(self) -> list[Piece]:
        view = self._tail + "".join(self._parts)
        self._parts.clear()
        self._gathered = 0
        self._tail = view[-_REACH:]
        found = [
            kind
            for kind, words, pattern in _COMPILED
            if kind not in self._told
            and any(word in view for word in words)
            and pattern.search(view, 1) is not None
        ]
        self._told.update(found)
        return [Piece(0, "", is_verbatim=True, mask=self._flag(kind)) for kind in found]

    def _flag(self, kind: str) -> Mask:
        return Mask(0, 0, Action.FLAG, kind, self._name)
