"""Links and images that could carry data out: the address goes, the text stays.

An image is fetched when the answer is shown, with no click. So whoever can make the model write one (by a
text that it was given to read) reads from its address what the model knows. A link needs a click.

What is watched: inline links and images of Markdown, definitions of reference-style ones, autolinks in angle
brackets and bare ones with room for data, attributes of HTML that take an address, `url(...)` of CSS.

Invariants
1. An address is held from its first character (a bare one from the sign behind its scheme) to its end, at
   most `HOLD_CHARS` characters. A longer one that leads anywhere is data.
2. Prose is never held: it has no `](`, `]:`, `url(`, `www.`, `href=` and no scheme with a colon.
3. Arguments of tool calls are not watched: an address there is data for a tool, and the tool gate's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from gateway.output.addresses import Leads, has_data, leads
from gateway.output.guard import Asked, Watch, WatchMaker
from gateway.output.judge import Mask
from gateway.output.pieces import Piece, verbatim
from gateway.output.rules import Action

#: Characters of one address that are held.
HOLD_CHARS = 512
#: Characters to the left in which the beginning of an image is looked for.
_LEFT = 256
_BLOCK = 2048
#: Written for an address in a link: a place on the same page, which fetches nothing.
REMOVED = "#link-removed"
#: Written behind the scheme of an autolink. A blank ends every autolink before it.
REMOVED_AUTOLINK = " [link removed]"


class Target(Enum):
    """What an address is for."""

    IMAGE = "image"  # fetched when the answer is shown
    LINK = "link"  # followed by a click
    AUTOLINK = "autolink"  # made into a link by what shows the answer


class _Form(Enum):
    """How an address is written, which says what ends it."""

    INLINE = "inline"
    REFERENCE = "reference"
    BRACKETED = "bracketed"
    ANGLED = "angled"
    BARE = "bare"
    UNQUOTED = "unquoted"
    CSS = "css"
    QUOTED = "quoted"
    APOSTROPHES = "apostrophes"
    GRAVES = "graves"


_ENDS = {
    # CommonMark ends an address at ASCII blanks only; brackets inside it come in pairs.
    _Form.INLINE: re.compile(r"[\x00-\x20\x7f()]"),
    _Form.REFERENCE: re.compile(r"[\x00-\x20\x7f]"),
    _Form.BRACKETED: re.compile(r">"),
    _Form.ANGLED: re.compile(r"[\s<>]"),
    _Form.BARE: re.compile(r"[\s<>]|\](?=[(\[])"),
    _Form.UNQUOTED: re.compile(r"[\s>]"),
    _Form.CSS: re.compile(r"[\s)]"),
    _Form.QUOTED: re.compile(r"\""),
    _Form.APOSTROPHES: re.compile(r"'"),
    _Form.GRAVES: re.compile(r"`"),
}
_SWALLOWED = re.compile(r"[^\s\"'`<>)]*")
_CANDIDATE = re.compile(r"\((?<=[\]lL]\()|[:=]|\.(?<=[wW]\.)")
_ATTRIBUTE = re.compile(
    r"(?i)(?<![a-z0-9])(src|srcset|imagesrcset|poster|background|data|lowsrc|dynsrc|(?:xlink:)?href|action"
    r"|formaction|ping|longdesc|cite)\s{0,8}=\Z"
)
#: Attributes that wait for a click.
_CLICKED = frozenset({"action", "formaction", "ping", "longdesc", "cite"})
_SCHEME = re.compile(r"(?i)(https?|ftp|wss?|file):\Z")
_BRACKETED_SCHEME = re.compile(r"(?i)<([a-z][a-z0-9+.-]{1,31}):\Z")
_WWW = re.compile(r"(?i)(?<![a-z0-9])www\.\Z")
_QUOTES = {'"': _Form.QUOTED, "'": _Form.APOSTROPHES, "`": _Form.GRAVES}
#: What ends a sentence, or wraps an address, and is no part of it (GitHub Flavored Markdown, 6.9).
_TRAILING = ".,;:!?'\")]}*_~`|"


@dataclass(frozen=True, slots=True)
class LinkRule:
    """Acts on addresses of `targets` whose host is not among `allowed`, and on all that are no web page."""

    name: str
    allowed: tuple[str, ...] = ()
    targets: frozenset[Target] = frozenset(Target)
    action: Action = Action.NEUTRALISE

    @property
    def is_first(self) -> bool:
        """False: a placeholder for a finding may stand in an address."""
        return False

    def prepare(self, asked: Asked) -> WatchMaker:
        """The same for every request."""
        return self._watch

    def _watch(self, is_json: bool) -> Watch:
        return _Unwatched() if is_json else LinkWatch(self)

    def mask(self, address: str, target: Target, *, is_whole: bool) -> tuple[str, Action] | None:
        """Kind and action for an address, or None when it may stay."""
        where = leads(address, self.allowed)
        if where is Leads.RUNS:
            return "script-address", self.action
        if where is Leads.NOWHERE or (where is Leads.LISTED and is_whole) or target not in self.targets:
            return None
        if target is Target.AUTOLINK and is_whole and not has_data(address):
            return None
        return f"{target.value}-address", self.action


class _Unwatched:
    """Watch of a text that the rule is not about."""

    held_count = 0

    def passes(self, text: str) -> bool:
        return True

    def feed(self, text: str) -> list[Piece]:
        return [verbatim(text)]

    def flush(self) -> list[Piece]:
        return []


class _Mode(Enum):
    PROSE = 1
    OPENED = 2  # behind the sign that an address follows, blanks passed
    HELD = 3
    SWALLOW = 4  # the rest of an address that is gone
    STOPPED = 5


class LinkWatch:
    """Watch of one text for one `LinkRule`."""

    __slots__ = ("_form", "_held", "_left", "_mode", "_rule", "_scheme", "_target")

    def __init__(self, rule: LinkRule) -> None:
        self._rule = rule
        self._mode = _Mode.PROSE
        self._left = ""  # the last characters of the text that are decided, as they came
        self._held = ""
        self._form = _Form.BARE
        self._target = Target.AUTOLINK
        self._scheme = ""  # what of an autolink is released already

    @property
    def held_count(self) -> int:
        """Characters that are held back now."""
        return len(self._held)

    def passes(self, text: str) -> bool:
        """Take `text` when no address begins in it."""
        if self._mode is not _Mode.PROSE:
            return False
        base = len(self._left)
        raw = self._left + text
        if _CANDIDATE.search(raw, base) is not None and self._opening(raw, base) >= 0:
            return False
        self._left = raw[-_LEFT:]
        return True

    def feed(self, text: str) -> list[Piece]:
        """Pieces that are decided now."""
        pieces: list[Piece] = []
        for begin in range(0, len(text), _BLOCK):
            rest = text[begin : begin + _BLOCK]
            while rest:
                rest = self._step(rest, pieces)
        return pieces

    def flush(self) -> list[Piece]:
        """Decide the address that the text ends in."""
        pieces: list[Piece] = []
        if self._held:
            self._decide(len(self._held), pieces, is_whole=True)
        return pieces

    def _step(self, rest: str, pieces: list[Piece]) -> str:
        match self._mode:
            case _Mode.PROSE:
                return self._prose(rest, pieces)
            case _Mode.OPENED:
                return self._opened(rest, pieces)
            case _Mode.HELD:
                return self._hold(rest, pieces)
            case _Mode.SWALLOW:
                return self._swallow(rest, pieces)
            case _Mode.STOPPED:
                pieces.append(Piece(len(rest), ""))
                return ""

    def _release(self, text: str, pieces: list[Piece]) -> None:
        if text:
            pieces.append(verbatim(text))
            self._left = (self._left + text)[-_LEFT:]

    # --- where an address begins -----------------------------------------------------------------------

    def _prose(self, rest: str, pieces: list[Piece]) -> str:
        base = len(self._left)
        raw = self._left + rest
        at = self._opening(raw, base)
        if at < 0:
            self._release(rest, pieces)
            return ""
        begin, self._mode, self._form, self._target, self._scheme = self._opened_by(raw, at)
        self._release(raw[base:begin], pieces)
        return raw[begin:]

    def _opening(self, raw: str, base: int) -> int:
        """Index of the first sign from `base` on behind which an address begins, or -1."""
        for match in _CANDIDATE.finditer(raw, base):
            if self._opened_by(raw, match.start())[0] >= 0:
                return match.start()
        return -1

    @staticmethod
    def _opened_by(raw: str, at: int) -> tuple[int, _Mode, _Form, Target, str]:
        """Where holding begins behind the sign at `at` (-1: nowhere), and for what kind of address."""
        left = raw[max(0, at - 40) : at + 1]
        if left.endswith("]("):
            target = Target.IMAGE if _is_image(raw[max(0, at - _LEFT) : at]) else Target.LINK
            return at + 1, _Mode.OPENED, _Form.INLINE, target, ""
        if left.endswith("]:"):
            # A definition does not say what it is used for.
            return at + 1, _Mode.OPENED, _Form.REFERENCE, Target.IMAGE, ""
        if left[-4:].casefold() == "url(":
            return at + 1, _Mode.OPENED, _Form.CSS, Target.IMAGE, ""
        if left[-1] == "=" and (match := _ATTRIBUTE.search(left)) is not None:
            name = match[1].casefold()
            is_link = name in _CLICKED or name.endswith("href")
            return at + 1, _Mode.OPENED, _Form.UNQUOTED, Target.LINK if is_link else Target.IMAGE, ""
        if left[-1] == ":":
            if (match := _BRACKETED_SCHEME.search(left)) is not None:
                return at, _Mode.HELD, _Form.ANGLED, Target.AUTOLINK, match[1]
            if (match := _SCHEME.search(left)) is not None:
                return at, _Mode.HELD, _Form.BARE, Target.AUTOLINK, match[1]
        if left[-1] == "." and _WWW.search(left) is not None:
            return at, _Mode.HELD, _Form.BARE, Target.AUTOLINK, "//www"
        return -1, _Mode.PROSE, _Form.BARE, Target.AUTOLINK, ""

    def _opened(self, rest: str, pieces: list[Piece]) -> str:
        """Pass blanks, then the sign that says how the address ends."""
        bare = rest.lstrip()
        self._release(rest[: len(rest) - len(bare)], pieces)
        if not bare:
            return ""
        self._mode = _Mode.HELD
        first = bare[0]
        if first == "<" and self._form in {_Form.INLINE, _Form.REFERENCE}:
            self._form = _Form.BRACKETED
        elif first in _QUOTES and self._form in {_Form.UNQUOTED, _Form.CSS}:
            self._form = _QUOTES[first]
        else:
            return bare
        self._release(first, pieces)
        return bare[1:]

    # --- where it ends ---------------------------------------------------------------------------------

    def _hold(self, rest: str, pieces: list[Piece]) -> str:
        room = HOLD_CHARS - len(self._held)
        seen = max(len(self._held) - 1, 0)
        view = self._held + rest[:room]
        rest = rest[room:]
        self._held = view
        if (end := self._end(view, seen)) >= 0:
            self._decide(end, pieces, is_whole=True)
            return view[end:] + rest
        if len(view) == HOLD_CHARS:
            self._decide(len(view), pieces, is_whole=False)
        return rest

    def _end(self, view: str, seen: int) -> int:
        """Index of the character that ends the address, or -1."""
        ends = _ENDS[self._form]
        if self._form is not _Form.INLINE:
            match = ends.search(view, seen)
            return -1 if match is None else match.start()
        depth = view.count("(", 0, seen) - view.count(")", 0, seen)
        for match in ends.finditer(view, seen):
            if match[0] == "(":
                depth += 1
            elif match[0] == ")" and depth > 0:
                depth -= 1
            else:
                return match.start()
        return -1

    def _decide(self, end: int, pieces: list[Piece], *, is_whole: bool) -> None:
        """Release the held address up to `end`, or what stands in its place."""
        held, self._held = self._held[:end], ""
        self._mode = _Mode.PROSE
        is_auto = self._target is Target.AUTOLINK
        body = held.rstrip(_TRAILING) if is_auto and is_whole and self._form is _Form.BARE else held
        decided = self._rule.mask(self._scheme + body, self._target, is_whole=is_whole) if body else None
        if decided is None:
            self._release(held, pieces)
            if held:  # an empty one, "[x]()", ends where it began
                self._reopen()
            return
        kind, action = decided
        written = REMOVED_AUTOLINK if is_auto else REMOVED
        mask = Mask(0, len(body), action, kind, self._rule.name, written)
        self._left = (self._left + held)[-_LEFT:]
        if action is Action.FLAG:
            pieces.append(Piece(len(held), held, is_verbatim=True, mask=mask))
        elif action is Action.STOP:
            pieces.append(Piece(len(held), "", mask=mask, stops=True))
            self._mode = _Mode.STOPPED
        else:
            pieces.append(Piece(len(body), written, mask=mask))
            if len(body) < len(held):
                pieces.append(verbatim(held[len(body) :]))
            if not is_whole:
                self._mode = _Mode.SWALLOW
        if self._mode is _Mode.PROSE:
            self._reopen()

    def _reopen(self) -> None:
        """What was held may end in the sign behind which the next address begins ("[1]:")."""
        opened = self._opened_by(self._left, len(self._left) - 1)
        if opened[1] is _Mode.OPENED:
            _, self._mode, self._form, self._target, self._scheme = opened

    def _swallow(self, rest: str, pieces: list[Piece]) -> str:
        """Drop the rest of an address, to the first blank, quote or bracket that may end it."""
        match = _SWALLOWED.match(rest)
        end = 0 if match is None else match.end()
        if end < len(rest):
            self._mode = _Mode.PROSE
        if end:
            pieces.append(Piece(end, ""))
            self._left = (self._left + rest[:end])[-_LEFT:]
        return rest[end:]


def _is_image(left: str) -> bool:
    """Whether the brackets that end `left` began with an exclamation mark, or too far away to see."""
    depth = 0
    for at in range(len(left) - 1, -1, -1):
        if left[at] == "]":
            depth += 1
        elif left[at] == "[":
            depth -= 1
            if not depth:
                return left[at - 1 : at] == "!"
    return True
