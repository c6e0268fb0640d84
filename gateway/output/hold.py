"""One text of an answer, released as soon as what is left of it can no longer be part of a finding.

Invariants
1. What is released, and where it is masked, is a function of the text alone: every decision is the one
   that would be taken if the text came character by character.
2. Prose is released at once. From the first character that prose would not have there, to the end of the
   token (and over single separators inside numbers in groups), text is held, then scanned with what was
   released before it, then released or masked.
3. At most `bound` characters are held. When they are not over by then, the older half is decided.
4. A finding is masked from the first held character on; what prose could have too ("alice" before "@") is
   out already. So no finding leaves in full.
5. A PEM private key, and a token that begins like a key, are swallowed from the moment they are known;
   their end is never waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gateway.output.json_text import Unescaped, bare_quote, unescape
from gateway.output.judge import Judge, Mask
from gateway.output.rules import Action
from gateway.output.shapes import (
    BREAK,
    JSON_BREAK,
    LEFT,
    PEM_END,
    Joint,
    first_trigger,
    fold,
    is_long_key,
    is_plain,
    is_private_pem,
    is_small_number,
    joint,
    token_before,
)

#: Longest piece worked on at once, so that copying stays linear in the text.
_BLOCK = 2048
#: Released text is kept up to this, then cut to the last `LEFT` characters.
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """What became of the next `size` characters: `text` is released for them.

    `is_verbatim`: they are the same characters. `mask`: a placeholder begins here. `stops`: the choice
    ends before them.
    """

    size: int
    text: str
    is_verbatim: bool = False
    mask: Mask | None = None
    stops: bool = False


class _Mode(Enum):
    PROSE = 1
    HELD = 2
    TOKEN = 3  # a masked token goes on: swallow to its end
    PEM = 4  # a masked PEM block goes on: swallow to its END line
    STOPPED = 5


class Hold:
    """Filter of one text: a channel of a choice, or the arguments of one tool call.

    Order: the sizes of all pieces add up to the text that was fed, once `flush` was called.
    """

    __slots__ = ("_before", "_bound", "_held", "_is_json", "_judge", "_mode", "_quotes", "_raw", "_seen")

    def __init__(self, judge: Judge, bound: int, is_json: bool) -> None:
        self._judge = judge
        self._bound = bound
        self._is_json = is_json
        self._mode = _Mode.PROSE
        self._raw = ""
        self._held = ""
        self._seen = 0  # characters of `_held` that the search for its end is done with
        self._before = 0  # characters of the same token before `_held`
        self._quotes = 0  # bare quotes so far, JSON only: odd is inside a string

    @property
    def held_count(self) -> int:
        """Characters that are held back now."""
        return len(self._held)

    def passes(self, text: str) -> bool:
        """Take `text` as released and say so, or say no and take nothing. The fast path of prose."""
        if self._mode is not _Mode.PROSE:
            return False
        raw = self._raw
        whole = raw + text
        if not is_plain(whole, len(raw), self._is_json):
            return False
        if self._is_json:
            self._quotes += text.count('"')
        self._raw = whole if len(whole) < _KEPT else whole[-LEFT:]
        return True

    def feed(self, text: str) -> list[Piece]:
        """Pieces that are decided now. Raises `OutputBlocked`."""
        pieces: list[Piece] = []
        for begin in range(0, len(text), _BLOCK):
            rest = text[begin : begin + _BLOCK]
            while rest:
                rest = self._step(rest, pieces)
        return pieces

    def flush(self) -> list[Piece]:
        """Decide what is still held, at the end of the text. Raises `OutputBlocked`."""
        pieces: list[Piece] = []
        held, self._held = self._held, ""
        if held:
            self._mode = _Mode.PROSE
            self._release(held, pieces)
        return pieces

    def _step(self, rest: str, pieces: list[Piece]) -> str:
        """Work on `rest` until the mode changes; what is left of it."""
        match self._mode:
            case _Mode.PROSE:
                return self._prose(rest, pieces)
            case _Mode.HELD:
                return self._hold(rest, pieces)
            case _Mode.TOKEN:
                return self._swallow_token(rest, pieces)
            case _Mode.PEM:
                return self._swallow_pem(rest, pieces)
            case _Mode.STOPPED:
                pieces.append(Piece(len(rest), ""))
                return ""

    def _prose(self, rest: str, pieces: list[Piece]) -> str:
        raw = self._raw + rest
        begin = len(self._raw)
        at = first_trigger(raw, begin, self._is_json)
        end = len(raw) if at < 0 else at
        if end > begin:
            released = raw[begin:end]
            pieces.append(Piece(end - begin, released, is_verbatim=True))
            if self._is_json:
                self._quotes += released.count('"')
        self._raw = raw[:end][-LEFT:]
        if at >= 0:
            self._mode = _Mode.HELD
            self._seen = 0
            self._before = len(token_before(self._raw))
        return raw[end:]

    def _hold(self, rest: str, pieces: list[Piece]) -> str:
        room = self._bound - len(self._held)
        view = self._held + rest[:room]
        rest = rest[room:]
        end = self._end_of(view)
        if end:
            self._held = ""
            self._mode = _Mode.PROSE
            self._release(view[:end], pieces)
            return view[end:] + rest
        self._held = view
        if len(view) == self._bound:
            self._overflow(view, pieces)
        return rest

    def _end_of(self, view: str) -> int:
        """Where the held text is over, or 0 when that cannot be said yet."""
        search = (JSON_BREAK if self._is_json else BREAK).search
        at = max(self._seen, 1)
        while (match := search(view, at)) is not None:
            here = match.start()
            if view[here] == "\\":
                if match.end() == here + 1:
                    self._seen = here
                    return 0
                at = match.end()
                continue
            verdict, onward = joint(self._lead(view[:here])[-64:], view, here)
            if verdict is Joint.ENDS:
                return here
            if verdict is Joint.WAITS:
                self._seen = here
                return 0
            at = onward
        self._seen = len(view)
        return 0

    def _lead(self, view: str) -> str:
        """The token run up to here as it reads."""
        run = (self._raw[-self._before :] if self._before else "") + view
        return fold(unescape(run) if self._is_json else run)

    def _masks(self, segment: str) -> list[Mask]:
        """Masks of the segment, in its own offsets; the first may begin at 0 for what was left of it."""
        if is_small_number(self._raw, segment):
            return []
        # Whole groups of four from the token's start, so that base64 that goes on can still be decoded.
        size = LEFT if self._before <= LEFT else LEFT - (LEFT - self._before) % 4
        left = self._raw[-size:]
        base = len(left)
        masks = self._judge.scan(left + segment, base, self._is_json)
        return [
            Mask(max(mask.start - base, 0), mask.end - base, mask.action, mask.kind, mask.rule)
            for mask in masks
        ]

    def _release(self, segment: str, pieces: list[Piece]) -> None:
        """Decide a segment that is over."""
        if is_private_pem(self._lead(segment)) and self._open_pem(segment, pieces):
            return
        self._render(segment, self._masks(segment), pieces)

    def _overflow(self, view: str, pieces: list[Piece]) -> None:
        """Decide the older half of a held text that has reached the bound."""
        lead = self._lead(view)
        if is_private_pem(lead) and self._open_pem(view, pieces):
            return
        masks = self._masks(view)
        if is_long_key(lead):
            # fail-closed: it begins like a key and is longer than what can be held to see its end.
            mask = self._judge.open_secret("long-key", 0, len(view))
            masks = masks if mask is None else [mask]
        in_number = self._is_json and not self._quotes % 2
        if masks and (masks[-1].end == len(view) or in_number):
            self._held = ""
            self._mode = _Mode.TOKEN
            self._render(view, masks, pieces)
            return
        cut = self._cut(view, masks)
        self._held = view[cut:]
        self._seen = max(self._seen - cut, 0)
        self._render(view[:cut], [mask for mask in masks if mask.end <= cut], pieces)
        self._before += cut

    def _cut(self, view: str, masks: list[Mask]) -> int:
        cut = len(view) // 2
        for mask in masks:
            if mask.start < cut < mask.end:
                cut = mask.end
        return Unescaped(view).whole(cut, cut)[0] if self._is_json else cut

    def _open_pem(self, segment: str, pieces: list[Piece]) -> bool:
        """Mask a segment that opens a private key, and swallow on. False when no rule is about keys."""
        end = PEM_END.search(segment)
        size = end.end() if end else len(segment)
        mask = self._judge.open_secret("private-key", 0, size)
        if mask is None:
            return False
        self._held = ""
        self._mode = _Mode.PROSE if end else _Mode.PEM
        self._render(segment, [mask], pieces)
        return True

    def _render(self, segment: str, masks: list[Mask], pieces: list[Piece]) -> None:
        """Release `segment` with its masks, and remember it as what stands to the left."""
        self._raw = (self._raw + segment)[-LEFT:]
        if masks and self._is_json and not self._quotes % 2:
            # Outside a string the segment is a number: a string takes the place of all of it.
            mask = max(masks, key=lambda item: item.action)
            kept = segment.rstrip(" \t\r\n")
            if mask.action is Action.REDACT:
                pieces.append(Piece(len(kept), f'"{mask.placeholder}"', mask=mask))
                self._verbatim(segment[len(kept) :], pieces)
                return
            masks = [mask]
        done = 0
        for mask in masks:
            self._verbatim(segment[done : mask.start], pieces)
            if mask.action is Action.STOP:
                self._mode = _Mode.STOPPED
                self._held = ""
                pieces.append(Piece(len(segment) - mask.start, "", mask=mask, stops=True))
                return
            pieces.append(Piece(mask.end - mask.start, mask.placeholder, mask=mask))
            done = mask.end
        self._verbatim(segment[done:], pieces)

    @staticmethod
    def _verbatim(text: str, pieces: list[Piece]) -> None:
        if text:
            pieces.append(Piece(len(text), text, is_verbatim=True))

    def _swallow(self, rest: str, end: int, pieces: list[Piece]) -> str:
        """Drop `rest[:end]`."""
        if end:
            pieces.append(Piece(end, ""))
            self._raw = (self._raw + rest[:end])[-LEFT:]
        return rest[end:]

    def _swallow_token(self, rest: str, pieces: list[Piece]) -> str:
        at = 0
        if self._is_json and (len(self._raw) - len(self._raw.rstrip("\\"))) % 2:
            at = 1  # the second half of an escape
        search = (JSON_BREAK if self._is_json else BREAK).search
        while (match := search(rest, at)) is not None and rest[match.start()] == "\\":
            at = match.end()
        if match is None:
            return self._swallow(rest, len(rest), pieces)
        self._mode = _Mode.PROSE
        return self._swallow(rest, match.start(), pieces)

    def _swallow_pem(self, rest: str, pieces: list[Piece]) -> str:
        raw = self._raw[-80:]
        base = len(raw)
        raw += rest
        end = next((match.end() for match in PEM_END.finditer(raw) if match.end() > base), len(raw))
        quote = bare_quote(raw, base) if self._is_json and self._quotes % 2 else -1
        if 0 <= quote < end:
            end = quote
        elif end == len(raw) and not PEM_END.search(raw[-80:]):
            return self._swallow(rest, len(rest), pieces)
        self._mode = _Mode.PROSE
        return self._swallow(rest, end - base, pieces)
