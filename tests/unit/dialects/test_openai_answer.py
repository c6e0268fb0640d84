"""Decoders: events of streamed and plain answers, and the failures that end them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.openai_answer import ChatPlainDecoder, ChatStreamDecoder
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
from gateway.errors import UpstreamFailed
from tests.unit.dialects.chat_bodies import asked, place
from tests.unit.dialects.provider_answers import DONE, call, event, finish, piece, role, run, text

START = AnswerStart("chatcmpl-up", "moe", 1700, "fp")
ROLE = RoleDelta(0, "assistant")
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


def streamed(
    *chunks: bytes, kind: str = "vllm", n: int = 1, **asking: Any
) -> tuple[list[StreamEvent], UpstreamFailed | None]:
    """Events and failure of a streamed answer."""
    return run(ChatStreamDecoder(place(kind), asked(n=n, **asking)), *chunks)


def good(*chunks: bytes, n: int = 1, **asking: Any) -> list[StreamEvent]:
    """Events of a streamed answer that ends cleanly."""
    events, failed = streamed(*chunks, n=n, **asking)
    assert failed is None
    return events


def broken(*chunks: bytes, **asking: Any) -> tuple[list[StreamEvent], str]:
    """Events and code of a streamed answer that fails."""
    events, failed = streamed(*chunks, **asking)
    assert failed is not None
    assert AnswerEnd() not in events
    return events, failed.code


def content(words: str, choice: int = 0) -> TextDelta:
    """A content delta."""
    return TextDelta(choice, Channel.CONTENT, words)


def test_reads_a_streamed_answer() -> None:
    usage = event(
        choices=[],
        usage={
            **USAGE,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    )
    assert good(role(), text("The"), text(" tide"), finish(), usage, DONE) == [
        START,
        ROLE,
        content("The"),
        content(" tide"),
        Finish(0, "stop"),
        UsageReport(Usage(9, 3, 4, 1)),
        AnswerEnd(),
    ]


def test_reads_the_same_from_many_events_in_one_chunk() -> None:
    chunks = [role(), text("a"), finish(), DONE]
    assert good(b"".join(chunks)) == good(*chunks)


def test_takes_the_last_usage_when_each_chunk_tells_it() -> None:
    def more(count: int, **choice: Any) -> bytes:
        delta = {"index": 0, "delta": {"content": "a"}, **choice}
        return event(choices=[delta], usage={"prompt_tokens": 5, "completion_tokens": count})

    last = event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}], usage=USAGE)
    assert good(more(1), more(2), last, DONE)[-2:] == [UsageReport(Usage(9, 3)), AnswerEnd()]


def test_reads_an_answer_without_usage_and_with_null_usage() -> None:
    assert good(event(usage=None, choices=[]), role(), finish(), DONE) == [
        START,
        ROLE,
        Finish(0, "stop"),
        AnswerEnd(),
    ]


def test_tells_a_role_even_when_the_provider_does_not() -> None:
    assert good(text("a"), finish(), DONE)[:3] == [START, ROLE, content("a")]
    assert good(finish(), DONE)[:2] == [START, ROLE]


def test_tells_a_role_once() -> None:
    chunk = piece({"role": "assistant", "content": "a"})
    assert good(chunk, chunk, finish(), DONE)[1:4] == [ROLE, content("a"), content("a")]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reads_reasoning_under_both_names(field: str) -> None:
    events = good(role(), piece({field: "hm"}), piece({"refusal": "no"}), finish(), DONE)
    assert events[2:4] == [TextDelta(0, Channel.REASONING, "hm"), TextDelta(0, Channel.REFUSAL, "no")]


def test_reads_reasoning_once_when_both_names_are_sent() -> None:
    events = good(role(), piece({"reasoning": "hm", "reasoning_content": "hm"}), finish(), DONE)
    assert [item for item in events if isinstance(item, TextDelta)] == [TextDelta(0, Channel.REASONING, "hm")]


def test_reads_tool_calls_in_pieces() -> None:
    assert good(
        role(),
        call(0, "", name="look", id="c0"),
        call(0, '{"a"'),
        call(1, "{}", name="find", id="c1"),
        call(0, ":1}"),
        finish("tool_calls"),
        DONE,
    )[2:] == [
        ToolCallStart(0, 0, "c0", "look"),
        TextDelta(0, Channel.TOOL_ARGUMENTS, '{"a"', 0),
        ToolCallStart(0, 1, "c1", "find"),
        TextDelta(0, Channel.TOOL_ARGUMENTS, "{}", 1),
        TextDelta(0, Channel.TOOL_ARGUMENTS, ":1}", 0),
        Finish(0, "tool_calls"),
        AnswerEnd(),
    ]


def test_takes_a_repeated_tool_name_as_the_same_call() -> None:
    events = good(call(0, "a", name="f", id="c0"), call(0, "b", name="f", id="c9"), finish(), DONE)
    assert [item for item in events if isinstance(item, ToolCallStart)] == [ToolCallStart(0, 0, "c0", "f")]


def test_reads_choices_that_come_interleaved() -> None:
    events = good(
        *[role(0), role(1), text("a", 0), text("b", 1), text("c", 0)],
        *[finish("stop", 1), text("d", 0), finish("length", 0), DONE],
        n=2,
    )
    assert [item.text for item in events if isinstance(item, TextDelta) and item.choice == 0] == [
        "a",
        "c",
        "d",
    ]
    assert [item for item in events if isinstance(item, Finish)] == [Finish(1, "stop"), Finish(0, "length")]


def logprobs(token: str) -> dict[str, Any]:
    """The log probabilities of one token, with a field of the provider's own."""
    top = [{"token": token, "logprob": -0.5, "bytes": [1], "rank": 1}]
    return {
        "content": [{"token": token, "logprob": -0.5, "bytes": [1], "top_logprobs": top}],
        "refusal": None,
    }


def test_keeps_log_probabilities_for_a_client_that_asked() -> None:
    chunk = piece({"content": "a"}, logprobs=logprobs("a"))
    found = good(role(), chunk, finish(), DONE, logprobs=True)[2]
    assert isinstance(found, TextDelta)
    assert found.logprobs is not None
    assert json.loads(found.logprobs) == {
        "content": [
            {
                "token": "a",
                "logprob": -0.5,
                "bytes": [1],
                "top_logprobs": [{"token": "a", "logprob": -0.5, "bytes": [1]}],
            }
        ]
    }


def test_drops_log_probabilities_that_nobody_asked_for() -> None:
    chunk = piece({"content": "a"}, logprobs=logprobs("a"))
    assert good(role(), chunk, finish(), DONE)[2] == content("a")


def test_keeps_log_probabilities_of_a_token_that_has_no_text_yet() -> None:
    chunk = piece({"content": ""}, logprobs=logprobs("\ufffd"))
    found = good(role(), chunk, finish(), DONE, logprobs=True)[2]
    assert isinstance(found, TextDelta)
    assert (found.text, found.logprobs is not None) == ("", True)


def test_drops_log_probabilities_of_reasoning() -> None:
    chunk = piece({"reasoning": "a"}, logprobs=logprobs("a"))
    assert good(role(), chunk, finish(), DONE, logprobs=True)[2] == TextDelta(0, Channel.REASONING, "a")


def test_refuses_log_probabilities_of_another_shape() -> None:
    chunk = piece({"content": "a"}, logprobs={"content": [{"token": 5}]})
    assert broken(chunk, logprobs=True)[1] == "upstream-malformed"


def test_drops_everything_that_it_does_not_know() -> None:
    choice = {
        "index": 0,
        "delta": {"content": "a", "annotations": [1], "audio": {"id": "x"}},
        "finish_reason": None,
        "token_ids": [1, 2],
        "prompt_logprobs": [None],
        "content_filter_results": {},
    }
    chunk = event(choices=[choice], prompt_token_ids=[5], kv_transfer_params={"a": 1}, service_tier="x")
    assert good(role(), chunk, finish(), DONE)[2] == content("a")


@pytest.mark.parametrize(
    ("said", "kept"),
    [(None, None), (13, "13"), ("END", '"END"'), ("Ann's IBAN is", None)],
)
def test_keeps_a_stop_reason_only_when_the_client_could_know_it(said: Any, kept: str | None) -> None:
    found = good(role(), finish("stop", stop_reason=said), DONE, stop=("END",))[2]
    assert isinstance(found, Finish)
    assert found.stop_reason == kept


@pytest.mark.parametrize("hidden", ["x" * 257, "a\nb", "ключ", ""])
def test_keeps_ids_only_when_they_are_short_and_plain(hidden: str) -> None:
    choice = {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}
    found = good(event(id=hidden, system_fingerprint=hidden, choices=[choice]), DONE)[0]
    assert found == AnswerStart("", "moe", 1700, None)


def test_takes_a_dated_name_of_a_hosted_model_and_only_that() -> None:
    choice = {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}

    def outcome(kind: str, model: str) -> str | None:
        failed = streamed(event(model=model, choices=[choice]), DONE, kind=kind)[1]
        return failed.code if failed else None

    assert outcome("openai", "moe") is None
    assert outcome("openai", "moe-2026-01-01") is None
    assert outcome("vllm", "moe") is None
    assert outcome("vllm", "moe-2026-01-01") == "upstream-malformed"
    for model in ("moe2", "other", ""):
        assert outcome("openai", model) == outcome("vllm", model) == "upstream-malformed"


MALFORMED = {
    "no json": b"data: {]\n\n",
    "cut json": b'data: {"choices": [\n\n',
    "not an object": b"data: 5\n\n",
    "bad utf-8": b'data: {"id":"\xff"}\n\n',
    "lone surrogate": b'data: {"id":"\\ud800"}\n\n',
    "wrong content type": piece({"content": [{"type": "text", "text": "a"}]}),
    "content is a number": piece({"content": 5}),
    "choice of another index": text("a", 1),
    "negative choice": text("a", -1),
    "choice without index": event(choices=[{"delta": {}}]),
    "speaker is the user": piece({"role": "user", "content": "a"}),
    "tool call without name": call(0, "{}", id="c"),
    "tool call without id": call(0, "{}", name="f"),
    "tool name with blanks": call(0, "{}", name="my name is Ann", id="c"),
    "tool id of two lines": call(0, "{}", name="f", id="a\nb"),
    "tool index too high": call(128, "{}", name="f", id="c"),
    "negative tool index": call(-1, "{}", name="f", id="c"),
    "tool name changes": call(0, "", name="f", id="c") + call(0, "", name="g", id="c"),
    "unknown finish reason": finish("because Ann said so"),
    "two finish reasons": finish() + finish(),
    "text after finish": finish() + text("b"),
    "tool after finish": finish() + call(0, "", name="f", id="c"),
    "negative usage": event(choices=[], usage={"prompt_tokens": -1}),
    "huge usage": event(choices=[], usage={"prompt_tokens": 2**60}),
    "deep unknown field": b'data: {"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n\n",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_fails_on_what_is_no_answer_after_releasing_what_was_good(name: str) -> None:
    apart, code = broken(role(), text("a"), MALFORMED[name], finish(), DONE)
    assert code == "upstream-malformed"
    assert apart[:3] == [START, ROLE, content("a")]
    together, code = broken(role() + text("a") + MALFORMED[name] + finish() + DONE)
    assert (together, code) == (apart, "upstream-malformed")


@pytest.mark.parametrize(
    "chunk",
    [
        b'data: {"error": {"message": "s3cret", "code": 500}}\n\n',
        b'data: {"error": "s3cret"}\n\n',
        b'data: {"object": "error", "message": "s3cret"}\n\n',
        b"event: error\ndata: s3cret\n\n",
        finish("abort"),
        finish("error"),
    ],
)
def test_fails_on_an_error_in_the_stream_without_repeating_its_words(chunk: bytes) -> None:
    events, failed = streamed(role(), text("a"), chunk, DONE)
    assert failed is not None
    assert events == [START, ROLE, content("a")]
    assert failed.code == "upstream-error-in-stream"
    assert "s3cret" not in f"{failed.message} {failed.detail}"


def test_takes_a_null_error_as_none() -> None:
    assert good(event(error=None, choices=[]), role(), finish(), DONE)[-1] == AnswerEnd()


@pytest.mark.parametrize(
    "chunks",
    [
        (),
        (b": ping\n\n",),
        (b"<html><body>Welcome</body></html>",),
        (role(), text("a")),
        (role(), text("a"), DONE),
        (role(), text("a"), finish()),
        (role(), text("a"), finish(), b"data: [DONE]"),
        (role(), text("a"), finish(), b"data: [DONE]\n"),
        (role(), text("a")[:-20]),
        (DONE,),
    ],
)
def test_counts_an_end_without_finish_or_done_as_cut(chunks: tuple[bytes, ...]) -> None:
    assert broken(*chunks)[1] == "upstream-truncated"


def test_counts_a_missing_choice_as_cut() -> None:
    assert broken(role(0), finish("stop", 0), DONE, n=2)[1] == "upstream-truncated"


def test_reads_nothing_after_the_end() -> None:
    assert good(role(), finish(), DONE, text("late"), b"data: {]\n\n")[-1] == AnswerEnd()
    assert good(role() + finish() + DONE + text("late"))[-1] == AnswerEnd()


def test_takes_empty_deltas_after_a_finish() -> None:
    assert good(role(), finish(), piece({"content": ""}), DONE)[-2:] == [Finish(0, "stop"), AnswerEnd()]


def test_stops_an_endless_answer_at_its_bound_wherever_it_is_cut() -> None:
    chunk = text("tide ")
    bound = 10 * len(chunk) + 5

    def outcome(size: int) -> tuple[int, str]:
        decoder = ChatStreamDecoder(place(), asked(), max_answer_bytes=bound)
        data = chunk * 30
        events, failed = run(decoder, *[data[at : at + size] for at in range(0, len(data), size)])
        assert failed is not None
        return sum(isinstance(item, TextDelta) for item in events), failed.code

    assert outcome(len(chunk)) == outcome(7) == outcome(10**6) == (10, "upstream-oversized")


def test_stops_at_a_line_of_10_mb() -> None:
    line = b"data: " + b"x" * (10 * 1024 * 1024)
    pieces = [line[at : at + 65_536] for at in range(0, len(line), 65_536)]
    events, code = broken(role(), text("a"), *pieces)
    assert (events, code) == ([START, ROLE, content("a")], "upstream-oversized")


def test_stays_failed() -> None:
    decoder = ChatStreamDecoder(place(), asked())
    with pytest.raises(UpstreamFailed):
        decoder.feed(b"data: {]\n\n")
    with pytest.raises(UpstreamFailed):
        decoder.feed(role())
    with pytest.raises(UpstreamFailed):
        decoder.flush()


@pytest.mark.parametrize("escaped", [False, True])
def test_reads_cjk_and_emoji_cut_at_every_byte(escaped: bool) -> None:
    words = "潮汐は水門を開く😀é"
    chunk = text(words)
    if escaped:
        chunk = chunk.replace(words.encode(), json.dumps(words)[1:-1].encode())
    whole = role() + chunk + finish() + DONE
    expected = good(whole)
    assert content(words) in expected
    for at in range(len(whole)):
        assert good(whole[:at], whole[at:]) == expected


@pytest.mark.parametrize("ending", [b"\r\n\r\n", b"\r\r"])
def test_reads_other_line_endings_and_meta_lines(ending: bytes) -> None:
    lines = b": ping\n\nid: 1\nretry: 3000\n\n" + role() + text("a") + finish() + DONE
    assert good(lines.replace(b"\n\n", ending)) == good(role(), text("a"), finish(), DONE)


def plain(**fields: Any) -> bytes:
    """A plain answer; `fields` replace those of the body."""
    return json.dumps(
        {
            "id": "chatcmpl-up",
            "object": "chat.completion",
            "created": 1700,
            "model": "moe",
            "system_fingerprint": "fp",
            "choices": [said("a")],
            "usage": USAGE,
            **fields,
        },
        ensure_ascii=False,
    ).encode()


def said(words: str | None, index: int = 0, reason: str | None = "stop", **message: Any) -> dict[str, Any]:
    """One choice of a plain answer."""
    return {
        "index": index,
        "message": {"role": "assistant", "content": words, "refusal": None, **message},
        "logprobs": None,
        "finish_reason": reason,
    }


def folded(*chunks: bytes, n: int = 1, **asking: Any) -> tuple[list[StreamEvent], UpstreamFailed | None]:
    """Events and failure of a plain answer."""
    return run(ChatPlainDecoder(place(), asked(n=n, stream=False, **asking)), *chunks)


def test_reads_a_plain_answer_as_the_same_events() -> None:
    answer = plain()
    expected = [START, ROLE, content("a"), Finish(0, "stop"), UsageReport(Usage(9, 3)), AnswerEnd()]
    assert folded(answer) == (expected, None)
    assert folded(*[answer[at : at + 1] for at in range(len(answer))]) == (expected, None)


def test_reads_a_plain_answer_with_everything_in_it() -> None:
    calls = [{"id": "c0", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    calls.append({"id": "c1", "type": "function", "function": {"name": "g", "arguments": ""}})
    first = said(None, 0, "tool_calls", tool_calls=calls, reasoning="hm")
    events, failed = folded(plain(choices=[first, said("b", 1, "length")]), n=2)
    assert failed is None
    assert events[1:8] == [
        ROLE,
        TextDelta(0, Channel.REASONING, "hm"),
        ToolCallStart(0, 0, "c0", "f"),
        TextDelta(0, Channel.TOOL_ARGUMENTS, "{}", 0),
        ToolCallStart(0, 1, "c1", "g"),
        Finish(0, "tool_calls"),
        RoleDelta(1, "assistant"),
    ]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "upstream-truncated"),
        (b"  ", "upstream-truncated"),
        (plain()[:-10], "upstream-truncated"),
        (plain(choices=[said("a", 0, None)]), "upstream-truncated"),
        (plain(choices=[]), "upstream-truncated"),
        (b"<html></html>", "upstream-malformed"),
        (b"data: {}\n\n", "upstream-malformed"),
        (plain() + b"x", "upstream-malformed"),
        (plain(model="other"), "upstream-malformed"),
        (plain(choices=[said("a"), said("b")]), "upstream-malformed"),
        (plain(choices=[said("a"), said("b", 1)]), "upstream-malformed"),
        (b'{"error": {"message": "s3cret"}}', "upstream-error-in-stream"),
    ],
)
def test_fails_on_a_plain_body_that_is_no_whole_answer(answer: bytes, code: str) -> None:
    events, failed = folded(answer)
    assert failed is not None
    assert (events, failed.code) == ([], code)
    assert "s3cret" not in failed.message


def test_stops_a_plain_answer_at_its_bound() -> None:
    decoder = ChatPlainDecoder(place(), asked(stream=False), max_answer_bytes=10)
    decoder.feed(b"x" * 10)
    with pytest.raises(UpstreamFailed) as caught:
        decoder.feed(b"x")
    assert caught.value.code == "upstream-oversized"
