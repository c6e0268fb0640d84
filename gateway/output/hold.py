"""One text of an answer, released as soon as what is left of it can no longer be part of a finding.

Invariants
1. What is released, and where it is masked, is a function of the text alone: every decision is the one
   that would be taken if the text came character by character.
2. Prose is released at once. From the first character that prose would not have there, to the end of the
   token (and over single separators inside numbers in groups), text is held, then scanned with what was
   released before it and the character that ended it, then released or masked. Only a number of nine digits
   or more, or of capitals and digits mixed, waits for `RIGHT` more characters, because words behind it may
   say what it is.
3. At most `bound` characters are held. When they are not over by then, the older half is decided.
4. A finding is masked from the first held character on; what prose could have too ("alice" before "@") is
   out already. So no finding leaves in full.
5. The body of a PEM private key, and a token that begins like a key and is longer than `bound`, are
   swallowed from the moment they are known; their end is never waited for.
6. What a detector finds when a quote, or the host of a URL, stands behind it is masked where the text ends
   before them too.
7. Behind a mail address, words are held until their ends: a password may stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum

from gateway.output.json_text import Unescaped, bare_quote, unescape
from gateway.output.judge import Judge, Mask
from gateway.output.numbers import (
    RIGHT,
    is_short_name,
    is_small_number,
    may_be_named_later,
    without_digits,
    without_numbers,
)
from gateway.output.pieces import Piece, render, render_number, verbatim
from gateway.output.shapes import (
    BREAK,
    JSON_BREAK,
    LEFT,
    NEAR,
    PEM_BODY_WITHIN,
    PEM_END,
    PUTTY_BODY,
    Joint,
    first_trigger,
    fold,
    hides_in_escapes,
    is_long_key,
    is_open_url,
    is_pem_body,
    is_plain,
    joint,
    pem_header_end,
    token_before,
)

#: Longest piece worked on at once, so that copying stays linear in the text.
_BLOCK = 2048
#: Characters behind a mail address in which a password that belongs to it may begin.
_PAIR_WITHIN = 8
#: Released text is kept up to this, then cut to the last `LEFT` characters.
_KEPT = 1024


class _Mode(Enum):
    PROSE = 1
    HELD = 2
    TOKEN = 3  # a masked token goes on: swallow to its end
    PEM = 4  # a masked PEM block goes on: swallow to its END line
    STOPPED = 5


class Hold:
    """Filter of one text: a channel of a choice, or the arguments of one tool call (`is_json`).

    Order: the sizes of all pieces add up to the text that was fed, once `flush` was called.
    """

    __slots__ = (
        "_armed", "_before", "_bound", "_held", "_is_json", "_judge", "_mode", "_paired", "_quotes", "_raw",
        "_seen",
    )  # fmt: skip

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
        self._armed = 0  # characters in which the body of a private key may still begin
        self._paired = 0  # characters in which the password beside a mail address may still begin

    @property
    def held_count(self) -> int:
        """Characters that are held back now."""
        return len(self._held)

    def passes(self, text: str) -> bool:
        """Take `text` as released and say so, or say no and take nothing. The fast path of prose."""
        if self._mode is not _Mode.PROSE or self._armed or self._paired:
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
        while self._held:
            held, self._held = self._held, ""
            end = self._end_of(held) or len(held)
            size = RIGHT if may_be_named_later(self._raw, held[:end]) else 1
            self._decide(held[:end], held[end : end + size], pieces, is_end=end == len(held))
            rest = held[end:]
            while rest:
                rest = self._step(rest, pieces)
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

    # --- prose -----------------------------------------------------------------------------------------

    def _prose(self, rest: str, pieces: list[Piece]) -> str:
        raw = self._raw + rest
        begin = len(self._raw)
        at = first_trigger(raw, begin, self._is_json)
        if self._armed or self._paired:
            at = self._first_word(raw, begin, at)
        end = len(raw) if at < 0 else at
        if end > begin:
            pieces.append(verbatim(raw[begin:end]))
            if self._is_json:
                self._quotes += raw.count('"', begin, end)
        self._remember(raw[begin:end], end - begin)
        if at >= 0:
            self._mode = _Mode.HELD
            self._seen = 0
            self._before = len(token_before(self._raw))
        return raw[end:]

    def _first_word(self, raw: str, begin: int, at: int) -> int:
        """Behind the header of a private key, or a mail address, every word is held until it is no secret."""
        end = len(raw) if at < 0 else at
        for place in range(begin, min(end, begin + max(self._armed, self._paired))):
            if not BREAK.match(raw, place):
                return place
        return at

    def _remember(self, text: str, size: int) -> None:
        """Keep `text` as what stands to the left, for `size` decided characters."""
        self._raw = (self._raw + text)[-LEFT:]
        self._armed = max(0, self._armed - size)
        self._paired = max(0, self._paired - size)

    # --- held text -------------------------------------------------------------------------------------

    def _hold(self, rest: str, pieces: list[Piece]) -> str:
        room = self._bound - len(self._held)
        view = self._held + rest[:room]
        rest = rest[room:]
        end = self._end_of(view)
        if end:
            size = RIGHT if may_be_named_later(self._raw, view[:end]) else 1
            if len(view) < min(end + size, self._bound):
                self._held = view
                return rest
            self._held = ""
            self._decide(view[:end], view[end : end + size], pieces)
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
            self._seen = here
            if view[here] == "\\":
                if match.end() == here + 1:
                    return 0
                at = match.end()
                continue
            verdict, onward = joint(self._lead(view[:here])[-64:], view, here)
            if verdict is Joint.ENDS:
                return here
            if verdict is Joint.WAITS:
                return 0
            at = onward
        self._seen = len(view)
        return 0

    def _lead(self, view: str) -> str:
        """The token run up to here as it reads, with a little of what stands before it."""
        run = self._raw[-max(self._before, 8) :] + view
        return fold(unescape(run) if self._is_json else run)

    def _masks(self, segment: str, right: str) -> list[Mask]:
        """Masks of the segment, in its own offsets, clipped to it."""
        if is_small_number(self._raw, segment) or is_short_name(self._raw, self._before, segment):
            return []
        left = without_numbers(self._raw[-LEFT:], max(self._before, NEAR))
        base, length = len(left), len(segment)
        masks = self._judge.scan(left + segment + without_digits(right, 0), base, self._is_json)
        return [
            replace(mask, start=max(mask.start - base, 0), end=min(mask.end - base, length))
            for mask in masks
            if mask.start < base + length
        ]

    def _decide(self, segment: str, right: str, pieces: list[Piece], is_end: bool = False) -> None:
        """Release or mask a segment that is over; `is_end`: and so is the text."""
        self._mode = _Mode.PROSE
        if self._is_key_body(segment, pieces):
            return
        masks = self._masks(segment, right)
        if is_end and not masks:
            masks = self._masks_if_more_came(segment)
        self._render(segment, masks, pieces)

    def _masks_if_more_came(self, segment: str) -> list[Mask]:
        """Masks of the last segment that a closing quote or a host behind it would have brought."""
        run = self._raw[-LEFT:] + segment
        endings = [quote for quote in "\"'`" if quote in run]
        if is_open_url(self._lead(segment)):
            endings.append("@a")
        for ending in endings:
            if masks := self._masks(segment, ending):
                return masks
        return []

    def _is_key_body(self, segment: str, pieces: list[Piece]) -> bool:
        """Mask the body of a private key and swallow on. False when the segment is none."""
        if PUTTY_BODY.search(self._raw[-16:]) is not None:
            self._armed = PEM_BODY_WITHIN + len(segment)
            return False
        reads_as_written = segment.isascii() and segment.isprintable() and "\\" not in segment
        if reads_as_written and not self._armed and "KEY" not in segment:
            return False
        lead = self._lead(segment)
        header = pem_header_end(lead)
        if header >= 0 and not is_pem_body(lead[header:]):
            self._armed = PEM_BODY_WITHIN + len(segment)
            return False
        if header < 0 and not (self._armed and is_pem_body(lead)):
            return False
        end = PEM_END.search(segment)
        size = end.end() if end else len(segment)
        mask = self._judge.open_secret("private-key", 0, size)
        if mask is None:
            return False
        self._armed = 0
        self._render(segment, [mask], pieces)
        if not end:
            self._swallow_from(segment, _Mode.PEM)
        return True

    def _overflow(self, view: str, pieces: list[Piece]) -> None:
        """Decide the older half of a held text that has reached the bound."""
        self._held = ""
        self._mode = _Mode.PROSE
        if self._is_key_body(view, pieces):
            return
        masks = self._masks(view, "")
        reaches_end = bool(masks) and masks[-1].end == len(view)
        is_key = is_long_key(self._lead(view))
        if not reaches_end and (is_key or hides_in_escapes(view)):
            # fail-closed: it begins like a key, or hides what it is, and does not end within the bound.
            mask = self._judge.open_secret("long-key" if is_key else "escaped-text", 0, len(view))
            masks = masks if mask is None else [mask]
            reaches_end = mask is not None
        in_number = self._is_json and not self._quotes % 2
        if reaches_end or (masks and in_number):
            self._render(view, masks, pieces)
            self._swallow_from(view, _Mode.TOKEN)
            return
        cut = self._cut(view, masks)
        self._mode = _Mode.HELD
        self._held = view[cut:]
        self._seen = max(self._seen - cut, 0)
        self._render(view[:cut], [mask for mask in masks if mask.end <= cut], pieces)
        self._before += cut

    def _cut(self, view: str, masks: list[Mask]) -> int:
        """The middle, or behind the mask that lies across it; never inside an escape."""
        cut = len(view) // 2
        for mask in masks:
            if mask.start < cut < mask.end:
                cut = mask.end
        return Unescaped(view).whole(cut, cut)[0] if self._is_json else cut

    def _render(self, segment: str, masks: list[Mask], pieces: list[Piece]) -> None:
        """Release `segment` with its masks, and remember what was released as what stands to the left.

        What is masked is forgotten: the next scan would only find it again, at its full price. But a mail
        address is remembered, because it says what stands beside it.
        """
        first = len(pieces)
        in_number = self._is_json and not self._quotes % 2
        goes_on = (render_number if masks and in_number else render)(segment, masks, pieces)
        self._remember("".join(_known(segment, pieces[first:])), len(segment))
        if any("@" in segment[mask.start : mask.end] for mask in masks):
            self._paired = _PAIR_WITHIN
        if not goes_on:
            self._mode = _Mode.STOPPED
            self._held = ""

    # --- swallowing ------------------------------------------------------------------------------------

    def _swallow_from(self, segment: str, mode: _Mode) -> None:
        """Swallow on behind a masked segment, whose last characters may begin an escape or the end marker."""
        if self._mode is not _Mode.STOPPED:
            self._mode = mode
            self._raw = segment[-LEFT:]

    def _swallow(self, rest: str, end: int, pieces: list[Piece]) -> str:
        """Drop `rest[:end]`."""
        if end:
            pieces.append(Piece(end, ""))
            self._remember(rest[:end], end)
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
        base = len(self._raw)
        raw = self._raw + rest
        ends = [match.end() for match in PEM_END.finditer(raw) if match.end() > base]
        if self._is_json and self._quotes % 2 and (quote := bare_quote(raw, base)) >= 0:
            ends.append(quote)
        if not ends:
            return self._swallow(rest, len(rest), pieces)
        self._mode = _Mode.PROSE
        return self._swallow(rest, min(ends) - base, pieces)


def _known(segment: str, pieces: list[Piece]) -> Iterator[str]:
    """What is remembered of a decided segment, piece by piece."""
    done = 0
    for piece in pieces:
        came = segment[done : done + piece.size]
        yield came if piece.mask is not None and "@" in came else piece.text
        done += piece.size
