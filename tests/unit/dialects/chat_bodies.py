"""Values that the tests of this room share."""

from __future__ import annotations

import json
from typing import Any

from gateway.domain.chat import ChatRequest, Message, Role, Sampling, TextPart
from gateway.domain.decision import Destination
from gateway.domain.label import Level

EXTENSIONS = frozenset(
    {
        "top_k",
        "min_p",
        "repetition_penalty",
        "length_penalty",
        "min_tokens",
        "ignore_eos",
        "stop_token_ids",
        "bad_words",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "include_stop_str_in_output",
        "structured_outputs",
        "chat_template_kwargs",
    }
)


def place(kind: str = "vllm", model: str = "moe", extensions: frozenset[str] = EXTENSIONS) -> Destination:
    """A destination."""
    return Destination("place", kind, Level.RESTRICTED, kind == "openai", "eu", model, extensions)


def body(**fields: Any) -> bytes:
    """A chat body: one short user message, changed and widened by `fields`."""
    return json.dumps(
        {"model": "assistant", "messages": [{"role": "user", "content": "Hello"}], **fields}
    ).encode()


def asked(*, n: int = 1, stream: bool = True, include_usage: bool = False, **sampling: Any) -> ChatRequest:
    """A parsed request."""
    return ChatRequest(
        model="assistant",
        messages=(Message(Role.USER, (TextPart("Hello"),)),),
        sampling=Sampling(n=n, **sampling),
        stream=stream,
        include_usage=include_usage,
    )
