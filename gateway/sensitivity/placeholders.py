"""What stands where a secret would stand and is none: placeholder words, masks, templates.

A placeholder word clears a value only when it makes up most of it and what is left over is too short for a
secret: `todoHunter2!9` is a password.
"""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(
    rb"(?i)x{4,}|\*{3,}|\.{3,}|_{4,}|-{4,}|0{8,}|1234567890|abcdefgh|your[_-]|example|placeholder"
    rb"|change[_-]?me"
    rb"|redacted|dummy|sample|insert|replace|todo|here$"
)
#: The same without words that a long random value may hold by chance.
_MASKED = re.compile(rb"(?i)x{6,}|\*{3,}|\.{4,}|0{12,}|your[_-]|placeholder|changeme|redacted")


#: Words that stand beside those in placeholders.
_GENERIC = re.compile(
    rb"(?i)(?<![a-z])(?:my|the|your|an?|api|key|token|secret|passw(?:or)?d|pass|pwd|user|name|value|string"
    rb"|here|test|some|new|with|for|real|actual|access|account|client|db|database|server|app|id|in|of|from"
    rb"|this|auth|private|public|admin|service|env|goes|to|me)(?![a-z])|[-_.]"
)
#: A value of which only the ends are printed.
_ELIDED = re.compile(rb"[^.*]{0,6}(?:\.{3,}|\*{3,})[^.*]{0,6}$")
#: Longest rest beside placeholder words that is no secret of its own, in characters.
_MOST_BESIDE_WORDS = 6
_MOST_BESIDE_MASK = 12


def _is_mostly(pattern: re.Pattern[bytes], value: bytes, most: int) -> bool:
    """Whether the pattern and generic words make up more than half of the value and leave no secret over."""
    rest, count = pattern.subn(b"", value)
    if not count:
        return False
    rest = _GENERIC.sub(b"", rest)
    return len(rest) <= most and 2 * len(rest) < len(value)


def is_placeholder(value: bytes) -> bool:
    """Whether the value is words that stand for a password, with no password beside them."""
    return _ELIDED.match(value) is not None or _is_mostly(_PLACEHOLDER, value, _MOST_BESIDE_WORDS)


def is_masked(value: bytes) -> bool:
    """Whether the value is a mask or a template."""
    is_mask = _is_mostly(_MASKED, value, _MOST_BESIDE_MASK)
    return is_mask or b"${" in value or b"{{" in value or b"<" in value


def looks_random(value: bytes) -> bool:
    """Whether a token part can be a drawn secret: digits and letters, many different characters."""
    if _is_mostly(_MASKED, value, _MOST_BESIDE_MASK):
        return False
    has_digit = any(0x30 <= byte <= 0x39 for byte in value)
    return has_digit and len(set(value)) >= min(10, len(value) // 2)
