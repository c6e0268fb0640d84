"""Which dialect reads and writes what. Fits `gateway.pipeline.ports.Dialects` by its shape."""

from __future__ import annotations

from gateway.dialects.openai_answer import MAX_ANSWER_BYTES, ChatPlainDecoder, ChatStreamDecoder
from gateway.dialects.openai_body import KINDS
from gateway.dialects.openai_encoder import ChatStreamEncoder
from gateway.dialects.openai_plain import ChatPlainEncoder
from gateway.domain.chat import ChatRequest
from gateway.domain.decision import Destination
from gateway.errors import ConfigurationError


class OpenAIDialects:
    """OpenAI's chat format for clients, and for destinations of kind `openai` and `vllm`.

    `max_answer_bytes` bounds each answer as read from a destination.
    """

    def __init__(self, *, max_answer_bytes: int = MAX_ANSWER_BYTES) -> None:
        self._max_answer_bytes = max_answer_bytes

    def decoder(self, destination: Destination, request: ChatRequest) -> ChatStreamDecoder | ChatPlainDecoder:
        """A new decoder for one answer. Raises `ConfigurationError` for another kind."""
        if destination.kind not in KINDS:
            raise ConfigurationError(f"no dialect reads a destination of kind {destination.kind!r}")
        kind = ChatStreamDecoder if request.stream else ChatPlainDecoder
        return kind(destination, request, max_answer_bytes=self._max_answer_bytes)

    def encoder(
        self, request: ChatRequest, request_id: str, created_seconds: int
    ) -> ChatStreamEncoder | ChatPlainEncoder:
        """A new encoder for one answer to this client."""
        kind = ChatStreamEncoder if request.stream else ChatPlainEncoder
        return kind(request, request_id, created_seconds)
