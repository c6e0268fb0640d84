"""What a provider of OpenAI's kind may say, as types. Fields that are not here are dropped.

Source: OpenAI's API reference for chat completion objects and chunks; vLLM 0.32 answers.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from gateway.domain.chat import JsonText
from gateway.domain.limits import Usage

#: Characters of a provider's own id, model name or fingerprint that are kept.
MAX_ID_CHARS = 256
MAX_TOOL_CALLS = 128

_ENCODER = msgspec.json.Encoder()


class _Said(Struct, gc=False):
    """Root of all answer structs: unknown fields are skipped."""


class FunctionSaid(_Said):
    """Name (first piece only) and a piece of the argument string."""

    name: str | None = None
    arguments: str | None = None


class CallSaid(_Said):
    """A tool call or a piece of one."""

    index: int | None = None
    id: str | None = None
    function: FunctionSaid | None = None


class Words(_Said):
    """A message or a delta of one. vLLM says `reasoning`, others `reasoning_content`."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[CallSaid] | None = None


class TokenSaid(_Said):
    """One alternative token with its log probability; `bytes` are its UTF-8 bytes."""

    token: str
    logprob: float
    bytes: list[int] | None = None


class TokenLogprob(_Said):
    """The chosen token and its alternatives."""

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list[TokenSaid] = []


class LogprobsSaid(_Said):
    """Log probabilities of the content's tokens."""

    content: list[TokenLogprob] | None = None


_LOGPROBS = msgspec.json.Decoder(LogprobsSaid | None)


class ChoiceSaid(_Said):
    """One choice of a chunk (`delta`) or of a plain answer (`message`).

    `logprobs` stay unread until somebody asked for them (see `logprobs_text`).
    """

    index: int
    delta: Words | None = None
    message: Words | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: Raw | UnsetType = UNSET


class PromptDetails(_Said):
    """Part of the prompt that came from a cache."""

    cached_tokens: int | None = None


class CompletionDetails(_Said):
    """Part of the output that was reasoning."""

    reasoning_tokens: int | None = None


class UsageSaid(_Said):
    """Tokens as the provider counts them."""

    prompt_tokens: int = 0
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class AnswerSaid(_Said):
    """A chunk or a plain answer. `error` tells that it is neither."""

    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str = ""
    system_fingerprint: str | None = None
    choices: list[ChoiceSaid] = []
    usage: UsageSaid | None = None
    error: Raw | UnsetType = UNSET

    @property
    def is_error(self) -> bool:
        """True for `{"error": {...}}` and for vLLM's older `{"object": "error"}`."""
        return self.object == "error" or (self.error is not UNSET and bytes(self.error) != b"null")


def usage_of(said: UsageSaid) -> Usage | None:
    """Usage as a domain value; None when a count cannot be true (negative, or above 2^48)."""
    prompt = said.prompt_tokens_details
    completion = said.completion_tokens_details
    counts = (
        said.prompt_tokens,
        said.completion_tokens or 0,
        (prompt.cached_tokens or 0) if prompt else 0,
        (completion.reasoning_tokens or 0) if completion else 0,
    )
    if min(counts) < 0 or max(counts) > 2**48:
        return None
    return Usage(*counts)


def logprobs_text(raw: Raw | UnsetType) -> JsonText | None:
    """`{"content": [...]}` as the gateway's own JSON; None when there are none.

    Raises what msgspec raises for another shape.
    """
    if raw is UNSET:
        return None
    said = _LOGPROBS.decode(raw)
    if said is None or not said.content:
        return None
    return JsonText(_ENCODER.encode(said).decode())


def printable(text: str | None) -> str | None:
    """`text` when it is short printable ASCII, else None: ids travel unfiltered, so they stay ids."""
    if text and len(text) <= MAX_ID_CHARS and text.isascii() and text.isprintable():
        return text
    return None
