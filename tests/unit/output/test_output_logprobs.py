"""Unit tests of `gateway.output.logprobs`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.domain.chat import JsonText
from gateway.output.logprobs import MAX_TOKEN_CHARS, beside


def _logprobs(*tokens: str, with_bytes: bool = True, top: list[str] | None = None) -> JsonText:
    rows: list[dict[str, Any]] = [{"token": token, "logprob": -0.5} for token in tokens]
    for row, token in zip(rows, tokens, strict=True):
        if with_bytes:
            row["bytes"] = list(token.encode())
        row["top_logprobs"] = [{"token": other, "logprob": -2.0, "bytes": None} for other in top or []]
    return JsonText(json.dumps({"content": rows, "refusal": None}))


def _passes(logprobs: JsonText, text: str) -> bool:
    return beside(logprobs, text) is not None


@pytest.mark.parametrize("with_bytes", [True, False])
def test_tokens_of_exactly_the_text_describe_it(with_bytes: bool) -> None:
    assert _passes(_logprobs("Hel", "lo", " you", with_bytes=with_bytes, top=["x"]), "Hello you")


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ((" Hello",), "Hello"),
        (("Hello", "<|im_end|>"), "Hello"),
        (("Hello", "</s>"), "Hello"),
        (("<|eot_id|>",), ""),
        ((), ""),
    ],
)
def test_a_leading_space_and_end_tokens_may_be_missing_in_the_text(
    tokens: tuple[str, ...], text: str
) -> None:
    assert _passes(_logprobs(*tokens), text)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (("4111", "1111"), "4111"),
        (("4111",), ""),
        (("other",), "Hello"),
        (("Hello", "<4111111111111111>"), "Hello"),
        (("x" * (MAX_TOKEN_CHARS + 1),), "x" * (MAX_TOKEN_CHARS + 1)),
    ],
)
def test_tokens_that_say_more_do_not_describe_the_text(tokens: tuple[str, ...], text: str) -> None:
    assert not _passes(_logprobs(*tokens), text)


def test_reads_a_character_cut_over_tokens_by_its_bytes() -> None:
    rows = [
        {"token": "\ufffd", "logprob": 0.0, "bytes": [0xF0, 0x9F]},
        {"token": "", "logprob": 0.0, "bytes": [0x98, 0x80]},
    ]
    assert _passes(JsonText(json.dumps({"content": rows})), "\U0001f600")


def test_takes_numbered_tokens_by_their_bytes() -> None:
    rows = [{"token": "token_id:42", "logprob": 0.0, "bytes": list(b"Hi")}]
    assert _passes(JsonText(json.dumps({"content": rows})), "Hi")


@pytest.mark.parametrize(
    "row",
    [
        {"token": "4111", "logprob": 0.0, "bytes": list(b"Hi")},
        {"token": "Hi", "logprob": 0.0, "bytes": [72, 999]},
        {"token": "Hi", "logprob": 0.0, "bytes": "no list"},
        {"token": "Hi", "top_logprobs": [{"token": "y" * (MAX_TOKEN_CHARS + 1)}]},
        {"token": "Hi", "top_logprobs": [{"token": "4111", "bytes": [72]}]},
        {"token": "Hi", "top_logprobs": [{"token": "token:12345678", "bytes": [72]}]},
        {"token": "Hi", "top_logprobs": [{"token": "token:1", "bytes": [72] * (4 * MAX_TOKEN_CHARS + 1)}]},
        {"token": "Hi", "top_logprobs": [{"token": "token:1", "bytes": [72, -1]}]},
        {"token": "Hi", "top_logprobs": [{"token": "x", "logprob": -4539578763621486}]},
        {"token": "Hi", "logprob": 4539578763621486},
        {"token": "Hi", "logprob": -1, "note": "more"},
        {"token": "Hi", "top_logprobs": [{"token": "x", "note": "more"}]},
    ],
)
def test_tokens_that_contradict_themselves_do_not_describe_the_text(row: dict[str, Any]) -> None:
    assert not _passes(JsonText(json.dumps({"content": [row]})), "Hi")


def test_what_cannot_be_read_describes_nothing() -> None:
    assert not _passes(JsonText("{"), "")
    assert not _passes(JsonText('"a"'), "a")
    assert not _passes(JsonText('{"content":[],"note":"more"}'), "")


def test_bytes_of_a_numbered_token_are_its_text_beside_tokens_without_bytes_too() -> None:
    rows = [{"token": "token:1", "bytes": list(b"4111")}, {"token": "x"}]
    assert not _passes(JsonText(json.dumps({"content": rows})), "token:1x")
    assert _passes(JsonText(json.dumps({"content": rows})), "4111x")


def test_gives_the_alternatives_of_each_rank_as_one_line() -> None:
    rows = [
        {"token": "a", "top_logprobs": [{"token": "a"}, {"token": "4111 "}, {"token": "of"}]},
        {"token": "b", "top_logprobs": [{"token": "b"}, {"token": "token:7", "bytes": list(b"1111")}]},
    ]
    assert beside(JsonText(json.dumps({"content": rows})), "ab") == "4111 1111"


def test_alternatives_read_through_bytes_that_are_no_text() -> None:
    strewn = [byte for letter in b"AKIA-KEY" for byte in (0xFF, letter)]
    tops = [{"token": "token:1", "bytes": strewn}, {"token": "A\ufffdKIA-KEY"}]
    rows = [{"token": "a", "top_logprobs": tops}]
    assert beside(JsonText(json.dumps({"content": rows})), "a") == "AKIA-KEY\nAKIA-KEY"
