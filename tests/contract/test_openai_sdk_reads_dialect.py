"""What the encoders write is read by OpenAI's own client library, without a socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from gateway.dialects.openai_errors import error_body, models_body
from gateway.dialects.openai_request import parse_chat
from gateway.dialects.table import WireFormats
from gateway.domain.limits import Usage
from gateway.domain.stream import (
    AnswerEnd,
    AnswerStart,
    Channel,
    Finish,
    RoleDelta,
    StreamEvent,
    TextDelta,
    ToolCallStart,
    UsageReport,
)
from gateway.errors import (
    LimitExceeded,
    NotAuthenticated,
    NotFound,
    PolicyDenied,
    Refusal,
    UpstreamFailed,
    UpstreamTimeout,
    UpstreamUnavailable,
)

WORDS: tuple[StreamEvent, ...] = (
    AnswerStart("up", "moe", 5, "fp"),
    *[RoleDelta(choice, "assistant") for choice in (0, 1)],
    *[
        TextDelta(choice, Channel.CONTENT, piece)
        for piece in ("潮", "汐 😀", "\n\nretry: 1")
        for choice in (0, 1)
    ],
    *[Finish(choice, "stop") for choice in (0, 1)],
    UsageReport(Usage(9, 3)),
    AnswerEnd(),
)
CALL: tuple[StreamEvent, ...] = (
    AnswerStart("up", "moe", 5, "fp"),
    RoleDelta(0, "assistant"),
    ToolCallStart(0, 0, "c0", "look"),
    TextDelta(0, Channel.TOOL_ARGUMENTS, '{"city":', 0),
    TextDelta(0, Channel.TOOL_ARGUMENTS, '"Bergen"}', 0),
    Finish(0, "tool_calls"),
    AnswerEnd(),
)


def client(answer: Callable[[httpx2.Request], httpx2.Response]) -> openai.OpenAI:
    """The library over a transport that asks `answer`."""
    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="k", base_url="http://gateway/v1", http_client=transport, max_retries=0)


def answering(events: Sequence[StreamEvent], refusal: Refusal | None = None) -> openai.OpenAI:
    """A client whose gateway parses its body and answers with these events, one `encode` each."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        encoder = WireFormats().encoder(parse_chat(request.read()), "r1", 1800)
        data = b"".join(encoder.encode([event]) for event in events)
        data += encoder.end() if refusal is None else encoder.fail(refusal)
        return httpx2.Response(200, headers={"content-type": encoder.content_type.decode()}, content=data)

    return client(answer)


def test_the_library_reads_a_stream_of_two_choices_with_usage() -> None:
    stream = answering(WORDS).chat.completions.create(
        model="assistant",
        messages=[{"role": "user", "content": "Hello"}],
        n=2,
        stream=True,
        stream_options={"include_usage": True},
    )
    texts = {0: "", 1: ""}
    chunks = list(stream)
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == {0: "潮汐 😀\n\nretry: 1", 1: "潮汐 😀\n\nretry: 1"}
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 12
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert {chunk.model for chunk in chunks} == {"assistant"}


def test_the_library_reads_a_plain_answer() -> None:
    answer = answering(WORDS).chat.completions.create(
        model="assistant", messages=[{"role": "user", "content": "Hello"}], n=2
    )
    assert [choice.message.content for choice in answer.choices] == ["潮汐 😀\n\nretry: 1"] * 2
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.system_fingerprint) == (9, "fp")


def test_the_library_reads_tool_calls_both_ways_and_sends_them_back() -> None:
    one = answering(CALL)
    answer = one.chat.completions.create(model="assistant", messages=[{"role": "user", "content": "Where?"}])
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].type == "function"
    assert calls[0].function.arguments == '{"city":"Bergen"}'
    again = one.chat.completions.create(
        model="assistant",
        messages=[
            {"role": "user", "content": "Where?"},
            answer.choices[0].message,  # type: ignore[list-item]
            {"role": "tool", "tool_call_id": calls[0].id, "content": "There."},
        ],
    )
    assert again.choices[0].finish_reason == "tool_calls"
    pieces = ""
    for chunk in one.chat.completions.create(
        model="assistant", messages=[{"role": "user", "content": "Where?"}], stream=True
    ):
        for call in chunk.choices[0].delta.tool_calls or []:
            assert call.function is not None
            pieces += call.function.arguments or ""
    assert pieces == '{"city":"Bergen"}'


def test_the_library_raises_for_a_stream_that_fails() -> None:
    stream = answering(WORDS[:4], UpstreamFailed("It was cut.")).chat.completions.create(
        model="assistant", messages=[{"role": "user", "content": "Hello"}], n=2, stream=True
    )
    seen: list[ChatCompletionChunk] = []
    with pytest.raises(openai.APIError, match="It was cut"):
        seen.extend(stream)
    assert all(choice.finish_reason is None for chunk in seen for choice in chunk.choices)


def test_the_library_lists_models() -> None:
    found = client(lambda _: httpx2.Response(200, content=models_body(["assistant", "embedder"], 7)))
    assert [model.id for model in found.models.list()] == ["assistant", "embedder"]


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (NotAuthenticated("No."), openai.AuthenticationError),
        (PolicyDenied("No."), openai.PermissionDeniedError),
        (NotFound("No."), openai.NotFoundError),
        (LimitExceeded("No."), openai.RateLimitError),
        (UpstreamUnavailable("No."), openai.InternalServerError),
        (UpstreamTimeout("No."), openai.InternalServerError),
    ],
)
def test_the_library_maps_refusals_to_its_own_errors(
    refusal: Refusal, kind: type[openai.APIStatusError]
) -> None:
    body = error_body(refusal, "r1")
    one = client(lambda _: httpx2.Response(refusal.http_status, content=body))
    with pytest.raises(kind) as caught:
        one.chat.completions.create(model="assistant", messages=[{"role": "user", "content": "Hello"}])
    assert caught.value.code == refusal.code
