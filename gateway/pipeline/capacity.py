"""What would not fit into a model, known before anything is sent. Pure.

An engine that is asked for more than its context refuses late, after queueing, or (seen with speculative
decoding near the limit) hangs. What certainly does not fit is refused here, with the field and the bound;
what might fit is left to the engine, because only its tokenizer knows.
"""

from __future__ import annotations

from gateway.errors import RequestRefused

#: The prompt's estimate is 3 bytes a token. Common vocabularies reach at most about 16 bytes a token over a
#: whole text (runs of blanks, repeated long words), so a fifth of the estimate is surely there.
_SURELY_OF_ESTIMATE = 5


def excess(
    asked_tokens: int | None, granted_tokens: int | None, prompt_tokens: int, context_tokens: int | None
) -> RequestRefused | None:
    """Why a model with this context cannot take the request; None when it may, or is not known.

    `asked_tokens` is the output that the client allows, `granted_tokens` what the policy allows at most;
    `prompt_tokens` is the estimate of the prompt.
    """
    if context_tokens is None:
        return None
    bounds = [each for each in (asked_tokens, granted_tokens) if each is not None]
    allowed = min(bounds) if bounds else None
    if allowed is not None and allowed >= context_tokens:
        return _refusal(
            "max_completion_tokens", f"expected less than the model's context of {context_tokens} tokens"
        )
    least = prompt_tokens // _SURELY_OF_ESTIMATE + (allowed or 1)
    if least > context_tokens:
        return _refusal("messages", f"they do not fit into the model's context of {context_tokens} tokens")
    return None


def _refusal(field: str, expected: str) -> RequestRefused:
    return RequestRefused(
        f"Invalid value of `{field}`: {expected}.", code="context-length-exceeded", param=field
    )
