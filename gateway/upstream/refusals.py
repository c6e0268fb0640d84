"""What a destination's failure means to the client: pure tables from status and error code.

A provider's own words never pass: they may quote the prompt, a key or an internal name. Only codes
from a closed list do.
"""

from __future__ import annotations

import msgspec

from gateway.errors import (
    Refusal,
    UpstreamFailed,
    UpstreamLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnavailable,
)

#: Error codes of OpenAI-compatible servers that help a client and say nothing else.
KNOWN_CODES = frozenset(
    {
        "context_length_exceeded",
        "content_policy_violation",
        "content_filter",
        "rate_limit_exceeded",
        "insufficient_quota",
        "unsupported_parameter",
        "unsupported_value",
        "invalid_value",
        "string_above_max_length",
    }
)
_REFUSED_STATUSES = frozenset({400, 413, 422})
#: What vLLM and Anthropic say when prompt and output do not fit into the model.
_TOO_LONG = ("maximum context length", "max_model_len", "prompt is too long")
DEFAULT_RETRY_SECONDS = 5
MAX_RETRY_SECONDS = 3600


class _ErrorObject(msgspec.Struct):
    code: str | int | None = None
    message: str | None = None


class _ErrorBody(msgspec.Struct):
    error: _ErrorObject | None = None


def error_code(body: bytes) -> str | None:
    """The closed code in an OpenAI-shaped error body, or None. Never raises."""
    try:
        parsed = msgspec.json.decode(body, type=_ErrorBody)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if parsed.error is None:
        return None
    if isinstance(parsed.error.code, str) and parsed.error.code in KNOWN_CODES:
        return parsed.error.code
    if parsed.error.message and any(words in parsed.error.message for words in _TOO_LONG):
        return "context_length_exceeded"
    return None


def retry_after_seconds(value: str | None) -> int | None:
    """A provider's Retry-After in whole seconds within 1..3600; None for a date or nonsense."""
    text = "" if value is None else value.strip(" \t")
    if not (text.isascii() and text.isdigit()) or len(text) > 8:
        return None
    return min(max(1, int(text)), MAX_RETRY_SECONDS)


def from_status(status: int, retry_after: str | None, body: bytes) -> Refusal:
    """The refusal for any status other than 200."""
    wait = retry_after_seconds(retry_after)
    detail = f"upstream-status-{status}"
    if status in _REFUSED_STATUSES:
        code = error_code(body)
        return UpstreamRejected(
            "The destination refused the request as invalid. Check its parameters and its length.",
            upstream_status=status,
            code=code,
            detail=detail,
        )
    if status == 429:
        return UpstreamLimited(
            "The destination is at its own rate limit. Try again later.",
            upstream_status=429,
            code="upstream-rate-limited",
            retry_after_seconds=wait or DEFAULT_RETRY_SECONDS,
            detail=detail,
        )
    # 529: Anthropic is overloaded.
    if status in {503, 529}:
        return UpstreamUnavailable(
            "The destination is not available just now. Try again later.",
            retry_after_seconds=wait or DEFAULT_RETRY_SECONDS,
            detail=detail,
        )
    if status in {408, 504}:
        return UpstreamTimeout("The destination did not answer in time. Try again later.", detail=detail)
    return UpstreamFailed("The destination did not give a valid answer.", detail=detail)
