"""Whether logprobs tell no more than the text that they come with.

Tokens are the text once more. Where the text was filtered, or is still to come (a provider that watches
for stop strings sends tokens before text), they would show what the filter holds back or masks.
"""

from __future__ import annotations

import re

import msgspec

from gateway.domain.chat import JsonText

#: Longest token of a vocabulary that is believed (runs of spaces are the longest real ones).
MAX_TOKEN_CHARS = 256
#: How vLLM writes a token when it is asked for numbers.
_TOKEN_NUMBER = re.compile(r"token(?:_id)?:\d{1,9}")
#: End-of-turn tokens, which have logprobs but are not in the text.
_SPECIAL_TOKENS = re.compile(r"(?:<[|/A-Za-z_]{1,40}\d{0,3}\|?>){0,4}")


class _Candidate(msgspec.Struct):
    token: str
    bytes: list[int] | None = None


class _Token(_Candidate):
    top_logprobs: list[_Candidate] | None = None


class _Logprobs(msgspec.Struct):
    content: list[_Token] | None = None
    refusal: list[_Token] | None = None


_LOGPROBS = msgspec.json.Decoder(_Logprobs)


def describes(logprobs: JsonText, text: str) -> bool:
    """Whether the tokens told are those of `text`, but for special tokens and a leading space."""
    try:
        decoded = _LOGPROBS.decode(logprobs)
        tokens = [token for row in (decoded.content, decoded.refusal) for token in row or ()]
        candidates = [item for token in tokens for item in (token, *(token.top_logprobs or ()))]
        if not all(map(_is_candid, candidates)):
            return False
        written = _written(tokens)
    except ValueError:
        return False  # fail-closed: what cannot be read cannot be compared with the text.
    if written == text:
        return True
    written, text = written.lstrip(), text.lstrip()
    return written.startswith(text) and _SPECIAL_TOKENS.fullmatch(written, len(text)) is not None


def _is_candid(item: _Candidate) -> bool:
    """Whether a token is short, and its bytes, when told, are its text."""
    if len(item.token) > MAX_TOKEN_CHARS:
        return False
    if item.bytes is None or _TOKEN_NUMBER.fullmatch(item.token):
        return True
    return item.token in {"", bytes(item.bytes).decode("utf-8", "replace")}


def _written(tokens: list[_Token]) -> str:
    """The text of all tokens, by their bytes when all have them: one character may take several."""
    if all(token.bytes is not None for token in tokens):
        return b"".join(bytes(token.bytes or ()) for token in tokens).decode("utf-8", "replace")
    return "".join(token.token for token in tokens)
