"""What logprobs tell beside the text that they come with, or that they tell too much.

The chosen tokens are the text once more. Where the text was filtered, or is still to come (a provider that
watches for stop strings sends tokens before text), they would show what the filter holds back or masks. The
alternatives are texts of their own, which nobody has scanned yet.

Invariants
1. Every string and every list of bytes is compared with the text, or is among what `beside` gives back.
2. Members other than those read here are refused, so nothing travels unread.
"""

from __future__ import annotations

import re

import msgspec

from gateway.domain.chat import JsonText
from gateway.output.shapes import is_plain

#: Longest token of a vocabulary that is believed (runs of spaces are the longest real ones).
MAX_TOKEN_CHARS = 256
#: UTF-8 bytes of such a token.
_MAX_TOKEN_BYTES = 4 * MAX_TOKEN_CHARS
#: How vLLM writes a token when it is asked for numbers. No vocabulary has more than seven digits of them.
_TOKEN_NUMBER = re.compile(r"token(?:_id)?:\d{1,7}", re.ASCII)
#: End-of-turn tokens, which have logprobs but are not in the text.
_SPECIAL_TOKENS = re.compile(r"(?:<[|/A-Za-z_]{1,40}\d{0,3}\|?>){0,4}", re.ASCII)
#: A number outside is no logarithm of a probability (-9999 stands for "too small to tell"): it carries
#: something else.
_LEAST, _MOST = -100_000.0, 1.0
#: Shorter texts of alternatives hold nothing by themselves: no detector finds so little without a word.
_TELLING_CHARS = 6


class _Candidate(msgspec.Struct, forbid_unknown_fields=True):
    token: str
    bytes: list[int] | None = None
    logprob: float = 0.0


class _Token(_Candidate, forbid_unknown_fields=True):
    top_logprobs: list[_Candidate] | None = None


class _Logprobs(msgspec.Struct, forbid_unknown_fields=True):
    content: list[_Token] | None = None
    refusal: list[_Token] | None = None


_LOGPROBS = msgspec.json.Decoder(_Logprobs)


def beside(logprobs: JsonText, text: str) -> str | None:
    """What is still to be scanned of logprobs that tell the tokens of `text`: their alternatives.

    None when they must not pass: the tokens are not those of `text` (but for special tokens and a leading
    space), or something has not the shape of logprobs. Alternatives are given by rank, each rank a line,
    joined over the tokens, as a reader would join them; plain prose is left out.
    """
    try:
        decoded = _LOGPROBS.decode(logprobs)
        tokens = [token for row in (decoded.content, decoded.refusal) for token in row or ()]
        if not all(map(_is_candid, tokens)):
            return None
        told = b"".join(map(_told, tokens)).decode("utf-8", "replace")
        ranks: list[list[bytes]] = []
        for token in tokens:
            for rank, item in enumerate(token.top_logprobs or ()):
                if not _is_candid(item):
                    return None
                if rank == len(ranks):
                    ranks.append([])
                ranks[rank].append(_told(item))
    except ValueError:
        return None  # fail-closed: what cannot be read cannot be compared with the text.
    if told != text:
        told, text = told.lstrip(), text.lstrip()
        if not told.startswith(text) or _SPECIAL_TOKENS.fullmatch(told, len(text)) is None:
            return None
    # Bytes that are no text are left out: a key with such bytes strewn in still reads as a key.
    lines = [b"".join(row).decode("utf-8", "ignore").replace("\ufffd", "") for row in ranks]
    return "\n".join([line for line in lines if len(line) >= _TELLING_CHARS and not is_plain(line, 0, False)])


def _is_candid(item: _Candidate) -> bool:
    """Whether a token is short, its bytes, when told, are its text, and its number can be a logprob."""
    if len(item.token) > MAX_TOKEN_CHARS or not _LEAST <= item.logprob <= _MOST:
        return False
    if item.bytes is None:
        return True
    if len(item.bytes) > _MAX_TOKEN_BYTES:
        return False
    if _TOKEN_NUMBER.fullmatch(item.token):
        return True
    return item.token in {"", bytes(item.bytes).decode("utf-8", "replace")}


def _told(item: _Candidate) -> bytes:
    """The token as bytes, its own where it has them: one character may take several tokens."""
    return item.token.encode() if item.bytes is None else bytes(item.bytes)
