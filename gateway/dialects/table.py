"""Which dialect reads and writes what. Fits `gateway.pipeline.ports.Dialects` by its shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.dialects import anthropic_body, openai_body
from gateway.dialects.anthropic_answer import MessagesPlainDecoder, MessagesStreamDecoder
from gateway.dialects.anthropic_encoder import MessagesStreamEncoder
from gateway.dialects.anthropic_errors import messages_error_body
from gateway.dialects.anthropic_plain import MessagesPlainEncoder
from gateway.dialects.anthropic_request import parse_count, parse_messages
from gateway.dialects.completions import (
    CompletionPlainDecoder,
    CompletionPlainEncoder,
    CompletionStreamDecoder,
    CompletionStreamEncoder,
    encode_completion,
    parse_completion,
)
from gateway.dialects.embeddings import (
    EmbeddingsDecoder,
    EmbeddingsEncoder,
    encode_embeddings,
    parse_embeddings,
)
from gateway.dialects.openai_answer import MAX_ANSWER_BYTES, ChatPlainDecoder, ChatStreamDecoder
from gateway.dialects.openai_encoder import ChatStreamEncoder
from gateway.dialects.openai_errors import error_body
from gateway.dialects.openai_plain import ChatPlainEncoder
from gateway.dialects.openai_request import parse_chat
from gateway.dialects.responses_encoder import ResponsesStreamEncoder
from gateway.dialects.responses_output import ResponsesPlainEncoder
from gateway.dialects.responses_request import parse_responses
from gateway.domain.chat import ChatRequest, ResolvedRequest, Surface
from gateway.domain.decision import Destination
from gateway.domain.outgoing import Outgoing
from gateway.errors import ConfigurationError, Refusal

Decoder = (
    ChatStreamDecoder | ChatPlainDecoder | MessagesStreamDecoder | MessagesPlainDecoder | EmbeddingsDecoder
)
Encoder = (
    ChatStreamEncoder
    | ChatPlainEncoder
    | MessagesStreamEncoder
    | MessagesPlainEncoder
    | ResponsesStreamEncoder
    | ResponsesPlainEncoder
    | EmbeddingsEncoder
    | CompletionStreamEncoder
    | CompletionPlainEncoder
)

#: Where an Anthropic client asks how many tokens a request has.
COUNT_ENDPOINT = "messages.count_tokens"

_PARSE: dict[str, Callable[[bytes], ChatRequest]] = {
    Surface.CHAT.value: parse_chat,
    Surface.MESSAGES.value: parse_messages,
    COUNT_ENDPOINT: parse_count,
    Surface.RESPONSES.value: parse_responses,
    Surface.EMBEDDINGS.value: parse_embeddings,
    Surface.COMPLETIONS.value: parse_completion,
}
_CHAT_KINDS = sorted(openai_body.KINDS)
_MESSAGES_HEADERS = ((b"anthropic-version", b"2023-06-01"),)


class WireFormats:
    """OpenAI's chat format, its responses (clients only) and Anthropic's messages, in any pairing.

    `max_answer_bytes` bounds each answer as read from a destination.
    """

    def __init__(self, *, max_answer_bytes: int = MAX_ANSWER_BYTES) -> None:
        self._max_answer_bytes = max_answer_bytes

    def parse(self, endpoint: str, body: bytes) -> ChatRequest:
        """The request in a body that came to `endpoint`. Raises `RequestRefused`."""
        return _PARSE[endpoint](body)

    def unsaid(self, request: ChatRequest) -> tuple[tuple[str, str], ...]:
        """(kind, field) for each kind of destination that cannot be told all of this request, sorted."""
        if request.surface is Surface.EMBEDDINGS:
            return ((anthropic_body.KIND, "input"),)
        if request.surface is Surface.COMPLETIONS:
            return ((anthropic_body.KIND, "prompt"),)
        found = [(anthropic_body.KIND, anthropic_body.unsaid(request))]
        if request.surface is not Surface.CHAT:
            found += [(kind, openai_body.unsaid(request, kind)) for kind in _CHAT_KINDS]
        return tuple(sorted((kind, field) for kind, field in found if field is not None))

    def decoder(self, destination: Destination, request: ChatRequest) -> Decoder:
        """A new decoder for one answer. Raises `ConfigurationError` for another kind."""
        if request.surface is Surface.EMBEDDINGS:
            return EmbeddingsDecoder(destination, request, max_answer_bytes=self._max_answer_bytes)
        if request.surface is Surface.COMPLETIONS:
            legacy = CompletionStreamDecoder if request.stream else CompletionPlainDecoder
            return legacy(destination, request, max_answer_bytes=self._max_answer_bytes)
        if destination.kind in _CHAT_KINDS:
            chat = ChatStreamDecoder if request.stream else ChatPlainDecoder
            return chat(destination, request, max_answer_bytes=self._max_answer_bytes)
        if destination.kind != anthropic_body.KIND:
            raise ConfigurationError(f"no dialect reads a destination of kind {destination.kind!r}")
        messages = MessagesStreamDecoder if request.stream else MessagesPlainDecoder
        return messages(destination, request, max_answer_bytes=self._max_answer_bytes)

    def encoder(self, request: ChatRequest, request_id: str, created_seconds: int) -> Encoder:
        """A new encoder for one answer to this client."""
        if request.surface is Surface.MESSAGES:
            messages = MessagesStreamEncoder if request.stream else MessagesPlainEncoder
            return messages(request, request_id)
        if request.surface is Surface.EMBEDDINGS:
            return EmbeddingsEncoder(request, request_id)
        if request.surface is Surface.COMPLETIONS:
            legacy = CompletionStreamEncoder if request.stream else CompletionPlainEncoder
            return legacy(request, request_id, created_seconds)
        if request.surface is Surface.RESPONSES:
            responses = ResponsesStreamEncoder if request.stream else ResponsesPlainEncoder
            return responses(request, request_id, created_seconds)
        chat = ChatStreamEncoder if request.stream else ChatPlainEncoder
        return chat(request, request_id, created_seconds)


@dataclass(frozen=True, slots=True)
class Own:
    """What the gateway itself adds to a request.

    `max_output_tokens` is the permit's cap, `default_output_tokens` what is reserved when nobody names a
    bound. `cache_salt` isolates a tenant's prefix cache, `priority` ranks at vLLM (lower goes first),
    `user_digest` is a keyed hash of the end user.
    """

    max_output_tokens: int | None
    default_output_tokens: int
    cache_salt: str | None = None
    priority: int | None = None
    user_digest: str | None = None


def encode(resolved: ResolvedRequest, destination: Destination, own: Own) -> Outgoing:
    """What `destination` is sent. Raises `RequestRefused` for what its dialect cannot say."""
    if resolved.chat.surface is Surface.EMBEDDINGS:
        return Outgoing("/embeddings", encode_embeddings(resolved, destination))
    if destination.kind == anthropic_body.KIND:
        body = anthropic_body.encode_messages(
            resolved,
            destination,
            max_output_tokens=own.max_output_tokens,
            default_output_tokens=own.default_output_tokens,
            user_digest=own.user_digest,
        )
        return Outgoing("/messages", body, b"x-api-key", b"", _MESSAGES_HEADERS)
    is_legacy = resolved.chat.surface is Surface.COMPLETIONS
    write = encode_completion if is_legacy else openai_body.encode_body
    body = write(
        resolved,
        destination,
        max_output_tokens=own.max_output_tokens,
        cache_salt=own.cache_salt,
        priority=own.priority,
    )
    return Outgoing("/completions" if is_legacy else "/chat/completions", body)


def error_of(refusal: Refusal, request_id: str, surface: Surface) -> bytes:
    """Body of a refusal in the words of the client's own dialect."""
    if surface is Surface.MESSAGES:
        return messages_error_body(refusal, request_id)
    return error_body(refusal, request_id)
