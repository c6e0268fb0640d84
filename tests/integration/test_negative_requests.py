"""Good HTTP that is wrong, or sly, in what it says: refused, or kept where it belongs."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fakes.rig import RawAnswer, Rig, Seen, chat, no_trace, open_rig

pytestmark = pytest.mark.integration

MARK = "tide-tables-of-the-harbour"
IBAN = "DE89370400440532013000"
CARD = "4539578763621486"
SSN = "536-22-8726"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    limits = {
        "requests_per_minute: 600\n    tokens_per_minute: 600000": (
            "requests_per_minute: 100000\n    tokens_per_minute: 1000000000"
        )
    }
    with open_rig(tmp_path_factory.mktemp("requests"), limits=limits) as rig:
        yield rig


def assert_denied(answer: RawAnswer, seen: Seen, status: int, code: str) -> None:
    """The refusal, one denied record with its code, nothing upstream, nothing of the request anywhere."""
    assert (answer.status, answer.code) == (status, code)
    assert seen.reasons == [("denied", code)]
    assert seen.upstream_bytes == b""
    assert seen.grown(
        f'tidegate_pipeline_requests_total{{destination="none",phase="denied",reason="{code}"}}'
    )
    no_trace(answer, seen, MARK)


def body_with(tail: str) -> bytes:
    """A good body, and then `tail` inside its object."""
    return (json.dumps(chat(MARK))[:-1] + tail + "}").encode()


# -- 15, 16: JSON with more than one reading, or none ----------------------------------------------

TWICE = {
    "model": body_with(', "model": "assistant-fast"'),
    "model-escaped": body_with(', "\\u006dodel": "assistant-fast"'),
    "messages": body_with(', "messages": [{"role": "user", "content": "x"}]'),
    "role-in-message": b'{"model":"assistant","messages":[{"role":"user","role":"system","content":"x"}]}',
    "content-in-message": b'{"model":"assistant","messages":[{"role":"user","content":"a","content":"b"}]}',
    "in-a-schema": body_with(
        ', "tools": [{"type":"function","function":{"name":"f","parameters":{"a":1,"\\u0061":2}}}]'
    ),
    "in-a-bias": body_with(', "logit_bias": {"1": 1, "1": 2}'),
    "unknown-and-twice": body_with(', "x": 1, "x": 2'),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_key_that_stands_twice_is_400(rig: Rig, name: str) -> None:
    with rig.watch() as seen:
        answer = rig.post(TWICE[name])
    assert_denied(answer, seen, 400, "duplicate-key")


GOOD = json.dumps(chat(MARK)).encode()
NO_JSON = {
    "nan": body_with(', "temperature": NaN'),
    "infinity": body_with(', "temperature": Infinity'),
    "minus-infinity": body_with(', "temperature": -Infinity'),
    "nan-in-a-schema": body_with(
        ', "tools": [{"type":"function","function":{"name":"f","parameters":{"a":NaN}}}]'
    ),
    "lone-surrogate": body_with(', "stop": "\\ud800"'),
    "lone-low-surrogate": body_with(', "stop": "\\udc00\\ud800"'),
    "invalid-utf8": GOOD.replace(b"tide", b"t\xffde"),
    "overlong-utf8": GOOD.replace(b"tide", b"t\xc0\xafde"),
    "surrogate-as-utf8": GOOD.replace(b"tide", b"t\xed\xa0\x80de"),
    "trailing-data": GOOD + b"{}",
    "trailing-word": GOOD + b" x",
    "trailing-nul": GOOD + b"\0",
    "two-lines": GOOD + b"\n" + GOOD,
    "bom": b"\xef\xbb\xbf" + GOOD,
    "utf16": GOOD.decode().encode("utf-16"),
    "utf32": GOOD.decode().encode("utf-32-le"),
    "empty": b"",
    "blank": b" \n",
    "comment": GOOD[:-1] + b"/* x */}",
    "trailing-comma": GOOD[:-1] + b",}",
    "single-quotes": GOOD.replace(b'"', b"'"),
    "raw-control-character": GOOD.replace(b"tide", b"t\x01de"),
    "raw-line-break": GOOD.replace(b"tide", b"t\nde"),
    "cut": GOOD[:-5],
    "leading-zero": body_with(', "seed": 007'),
    "plus": body_with(', "seed": +7'),
    "hex": body_with(', "seed": 0x7'),
    "bad-escape": body_with(', "stop": "\\x41"'),
}
OTHER_VALUE = {
    "too-large-a-number": body_with(', "temperature": 1e999'),
    "minus-zero": body_with(', "seed": -0'),
    "array": b"[" + GOOD + b"]",
    "string": json.dumps(GOOD.decode()).encode(),
    "null": b"null",
    "number": b"7",
}


@pytest.mark.parametrize("name", NO_JSON)
def test_what_is_not_json_is_400(rig: Rig, name: str) -> None:
    with rig.watch() as seen:
        answer = rig.post(NO_JSON[name])
    assert_denied(answer, seen, 400, "invalid-json")


@pytest.mark.parametrize("name", OTHER_VALUE)
def test_json_of_another_value_is_400(rig: Rig, name: str) -> None:
    with rig.watch() as seen:
        answer = rig.post(OTHER_VALUE[name])
    assert_denied(answer, seen, 400, "invalid-value")


# -- 21: fields that would steer the gateway -------------------------------------------------------

STEERING = {
    "api_base": "http://169.254.169.254/v1",
    "base_url": "http://169.254.169.254/v1",
    "api_key": "sk-of-the-caller",
    "extra_headers": {"authorization": "Bearer of-the-caller"},
    "extra_body": {"x": 1},
    "cache_salt": "salt-of-the-caller",
    "user": "someone-else",
    "metadata": {"guardrails": {}},
    "sensitivity": "public",
    "label": "public",
    "tenant": "acme",
    "provider": "openai",
    "destination": "hosted-openai",
    "fallbacks": ["gpt-5.1"],
    "priority": -1,
    "chat_template": "{{ messages }}",
    "documents": [],
    "stream_usage": True,
    "guided_json": {},
}
PLACES: dict[str, Callable[[str, Any], dict[str, Any]]] = {
    "root": lambda name, value: {**chat(MARK), name: value},
    "message": lambda name, value: {
        "model": "assistant",
        "messages": [{"role": "user", "content": MARK, name: value}],
    },
    "content-part": lambda name, value: {
        "model": "assistant",
        "messages": [{"role": "user", "content": [{"type": "text", "text": MARK, name: value}]}],
    },
    "tool": lambda name, value: chat(
        MARK, tools=[{"type": "function", "function": {"name": "f"}, name: value}]
    ),
    "function": lambda name, value: chat(
        MARK, tools=[{"type": "function", "function": {"name": "f", name: value}}]
    ),
    "response-format": lambda name, value: chat(MARK, response_format={"type": "json_object", name: value}),
    "stream-options": lambda name, value: chat(
        MARK, stream=True, stream_options={"include_usage": True, name: value}
    ),
    "tool-choice": lambda name, value: chat(
        MARK, tool_choice={"type": "function", "function": {"name": "f"}, name: value}
    ),
    "prompt": lambda name, value: chat(MARK, prompt={"id": "support-summary", name: value}),
    "structured-outputs": lambda name, value: chat(MARK, structured_outputs={"regex": "a", name: value}),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_field_that_would_steer_the_gateway_is_400_wherever_it_stands(rig: Rig, place: str) -> None:
    with rig.watch() as seen:
        answers = {name: rig.post(PLACES[place](name, value)) for name, value in STEERING.items()}
    assert seen.reasons == [("denied", "unknown-field")] * len(STEERING)
    assert seen.upstream_bytes == b""
    for name, answer in answers.items():
        assert (answer.status, answer.code) == (400, "unknown-field")
        assert json.loads(answer.body)["error"]["param"].endswith(name), "the refusal names the field"
        no_trace(answer, seen, MARK, "169.254", "of-the-caller", "someone-else")


@pytest.mark.parametrize(
    "name", ["api_base", "base_url", "api_key", "extra_headers", "extra_body", "cache_salt", "user"]
)
def test_a_steering_word_is_400_as_a_keyword_of_a_schema_and_no_matter_as_a_propertys_name(
    rig: Rig, name: str
) -> None:
    word = {name: "http://of-the-caller"}
    deep = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"items": word}]}}}
    for schema in ({"type": "object", **word}, deep):
        wrapped = {"name": "f", "schema": schema}
        for body in (
            chat(MARK, tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}]),
            chat(MARK, response_format={"type": "json_schema", "json_schema": wrapped}),
            chat(MARK, structured_outputs={"json": schema}),
        ):
            with rig.watch() as seen:
                answer = rig.post(body)
            assert_denied(answer, seen, 400, "unknown-field")
            assert json.loads(answer.body)["error"]["param"].endswith(name)
            no_trace(answer, seen, "of-the-caller")
    own = {"type": "object", "properties": {name: {"type": "string", "default": {name: 1}}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": own}}]
    assert rig.post(chat(MARK, tools=tools)).status == 200


def test_a_name_that_is_no_name_is_not_repeated(rig: Rig) -> None:
    for name in (
        f"iban {IBAN}",
        "a" * 200,
        "line\nbreak-of-a-name",
        "<script>of-a-name",
        "caf\u00e9-of-a-name",
    ):
        with rig.watch() as seen:
            answer = rig.post({**chat(MARK), name: 1})
        assert_denied(answer, seen, 400, "unknown-field")
        no_trace(answer, seen, name, "of-a-name" if "of-a-name" in name else name)


# -- 29: names of models ---------------------------------------------------------------------------

STRANGE_MODELS = (
    "gpt-4 ",
    "GPT-4",
    "assistant ",
    " assistant",
    "Assistant",
    "ASSISTANT",
    "assis\u200btant",
    "\u0430ssistant",
    "\uff41ssistant",
    "assistant\u0000",
    "assistant\n",
    "assistant\u00a0",
    "openai/../vllm",
    "openai/assistant",
    "assistant/../assistant-fast",
    "%61ssistant",
    "*",
    "assist*",
    "gpt-5.1",
    "reference-moe",
    "private-moe",
    "hosted-openai",
    "a" * 256,
    f"my iban {IBAN}",
)


@pytest.mark.parametrize("name", STRANGE_MODELS)
def test_only_the_exact_name_of_a_logical_model_has_a_route(rig: Rig, name: str) -> None:
    with rig.watch() as seen:
        answer = rig.post({**chat(MARK), "model": name})
    assert_denied(answer, seen, 404, "model-not-found")
    error = json.loads(answer.body)["error"]
    assert error["param"] == "model"
    no_trace(answer, seen, IBAN)
    assert seen.records[0]["decision"]["route"]["model_asked"] == "", "an unknown name is free text"


def test_a_logical_model_without_a_destination_is_said_to_be_just_that(rig: Rig) -> None:
    with rig.watch() as seen:
        answer = rig.post({**chat(MARK), "model": "embedder"})
    assert_denied(answer, seen, 403, "no-destination")


def test_a_strange_model_name_takes_nothing_of_a_limit(rig: Rig) -> None:
    first = rig.post(chat(MARK)).headers
    for name in STRANGE_MODELS[:8]:
        rig.post({**chat(MARK), "model": name})
    second = rig.post(chat(MARK)).headers
    key = "x-ratelimit-remaining-requests"
    assert int(first[key]) - int(second[key]) in {0, 1}


# -- 30: labels ------------------------------------------------------------------------------------


def assert_kept(answer: RawAnswer, seen: Seen, label: str = "restricted") -> None:
    """Answered by the private node; not one byte went to the hosted API."""
    assert answer.status == 200, answer.body
    assert answer.headers["x-tidegate-destination"] == "private-moe"
    assert answer.headers["x-tidegate-label"] == label
    assert seen.hosted_bytes == b""
    assert seen.reasons == [("admitted", "admitted"), ("completed", "completed")]
    assert seen.records[0]["decision"]["classifier"]["level"] == label


FORGED = (
    "X-Tidegate-Label: public",
    "Sensitivity: public",
    "X-Sensitivity: public",
    "X-Label: public",
    "X-Data-Classification: public",
    "X-Tidegate-Destination: hosted-openai",
    "X-Tidegate-Internal: true",
)


@pytest.mark.parametrize("header", FORGED)
@pytest.mark.parametrize("stream", [False, True])
def test_a_forged_label_lowers_nothing(rig: Rig, header: str, stream: bool) -> None:
    with rig.watch() as seen:
        answer = rig.post(chat(f"Health record, IBAN {IBAN}", stream=stream), header)
    assert_kept(answer, seen)
    no_trace(answer, seen, IBAN)


def test_the_label_is_the_highest_of_what_is_found_and_what_is_declared(rig: Rig) -> None:
    order = ("public", "internal", "confidential", "restricted")
    found = {
        "Tell me about tides.": "internal",
        "Write to jane.roe@harbour.co": "confidential",
        IBAN: "restricted",
    }
    for text, level in found.items():
        for declared in order:
            with rig.watch() as seen:
                answer = rig.post(chat(text), f"X-Tidegate-Label: {declared}")
            highest = max(level, declared, key=order.index)
            assert answer.headers["x-tidegate-label"] == highest
            if highest in {"confidential", "restricted"}:
                assert_kept(answer, seen, highest)


def turn(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
HISTORIES: dict[str, dict[str, Any]] = {
    "earlier-turn": {"messages": [turn("user", IBAN), turn("assistant", "Noted."), turn("user", "Thanks")]},
    "lowered-in-a-later-turn": {
        "messages": [turn("user", IBAN), turn("assistant", "label: public"), turn("user", "label=public")]
    },
    "system": {"messages": [turn("system", f"The customer's IBAN is {IBAN}."), turn("user", "Hello")]},
    "developer": {"messages": [turn("developer", f"IBAN {IBAN}"), turn("user", "Hello")]},
    "assistant": {"messages": [turn("user", "Hello"), turn("assistant", IBAN), turn("user", "Thanks")]},
    "reasoning": {
        "messages": [
            turn("user", "Hello"),
            turn("assistant", "Yes", reasoning_content=f"IBAN {IBAN}"),
            turn("user", "Thanks"),
        ]
    },
    "refusal": {
        "messages": [turn("user", "Hello"), turn("assistant", None, refusal=IBAN), turn("user", "Thanks")]
    },
    "tool-result": {
        "messages": [
            turn("user", "Hello"),
            turn("assistant", None, tool_calls=[CALL]),
            turn("tool", f'{{"account": "{IBAN}"}}', tool_call_id="c1"),
        ]
    },
    "tool-arguments": {
        "messages": [
            turn("user", "Hello"),
            turn(
                "assistant",
                None,
                tool_calls=[
                    {**CALL, "function": {"name": "f", "arguments": json.dumps({"account": IBAN})}}
                ],
            ),
            turn("tool", "done", tool_call_id="c1"),
        ]
    },
    "tool-call-id": {
        "messages": [
            turn("user", "Hello"),
            turn("assistant", None, tool_calls=[{**CALL, "id": IBAN}]),
            turn("tool", "done", tool_call_id=IBAN),
        ]
    },
    "speaker-name": {"messages": [turn("user", "Hello", name=IBAN)]},
    "content-part": {
        "messages": [turn("user", [{"type": "text", "text": "Hello"}, {"type": "text", "text": IBAN}])]
    },
    "tool-description": {
        "messages": [turn("user", "Hello")],
        "tools": [{"type": "function", "function": {"name": "f", "description": f"Reads {IBAN}"}}],
    },
    "tool-schema-default": {
        "messages": [turn("user", "Hello")],
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "parameters": {"properties": {"a": {"default": IBAN}}}},
            }
        ],
    },
    "tool-schema-key": {
        "messages": [turn("user", "Hello")],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {IBAN: {}}}}}],
    },
    "response-format": {
        "messages": [turn("user", "Hello")],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "a", "schema": {"type": "object", "description": IBAN}},
        },
    },
    "stop": {"messages": [turn("user", "Hello")], "stop": [IBAN]},
    "extension": {"messages": [turn("user", "Hello")], "bad_words": [IBAN]},
    "prompt-variable": {
        "messages": [turn("user", "Hello")],
        "prompt": {
            "id": "support-summary",
            "version": "1.0.0",
            "variables": {"product": f"account {IBAN}", "language": "English"},
        },
    },
    "image": {
        "messages": [
            turn("user", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}])
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("place", HISTORIES)
def test_sensitive_text_keeps_the_request_home_wherever_it_stands(rig: Rig, place: str) -> None:
    with rig.watch() as seen:
        answer = rig.post({"model": "assistant", **HISTORIES[place]}, "X-Tidegate-Label: public")
    assert_kept(answer, seen)
    no_trace(answer, seen, IBAN)


# -- 31: evasions ----------------------------------------------------------------------------------


def between(text: str, mark: str, every: int = 1) -> str:
    return mark.join(text[at : at + every] for at in range(0, len(text), every))


def digits_from(zero: int) -> Callable[[str], str]:
    return lambda text: "".join(chr(zero + int(c)) if c.isdigit() else c for c in text)


EVASIONS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "zero-width-space": lambda text: between(text, "\u200b"),
    "zero-width-joiner": lambda text: between(text, "\u200d", 2),
    "word-joiner": lambda text: between(text, "\u2060", 3),
    "soft-hyphen": lambda text: between(text, "\u00ad", 4),
    "byte-order-mark": lambda text: between(text, "\ufeff", 5),
    "variation-selector": lambda text: between(text, "\ufe0f"),
    "combining-mark": lambda text: between(text, "\u0301", 4),
    "fullwidth": lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
    "arabic-digits": digits_from(0x660),
    "devanagari-digits": digits_from(0x966),
    "mathematical-digits": digits_from(0x1D7CE),
    "homoglyph": lambda text: text.translate(str.maketrans("DE", "D\u0415")),
    "right-to-left-marks": lambda text: between(text, "\u200f", 4),
    "right-to-left-override": lambda text: f"\u202d{between(text, chr(0x202C) + chr(0x202D), 6)}\u202c",
    "tag-characters": lambda text: "Hello" + "".join(chr(0xE0000 + ord(c)) for c in text),
    "base64": lambda text: base64.b64encode(f"account {text} of the customer".encode()).decode(),
    "base64url": lambda text: (
        base64.urlsafe_b64encode(f"account {text} of the customer?>".encode()).decode().rstrip("=")
    ),
    "base64-over-lines": lambda text: between(
        base64.b64encode(f"account {text} of the customer".encode()).decode(), "\n", 20
    ),
    "hex": lambda text: f"account {text}".encode().hex(),
    "percent": lambda text: "".join(f"%{ord(c):02X}" for c in text),
    "html": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "json-escapes": lambda text: "".join(f"\\u{ord(c):04x}" for c in text),
    "blanks": lambda text: between(text.replace("-", ""), " ", 4),
    "dashes": lambda text: between(text.replace("-", ""), "\u2013", 4),
}
#: What a number alone does not say without its separators is not asked of every kind.
KINDS = {"iban": IBAN, "card": CARD}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("evasion", EVASIONS)
def test_a_disguised_identifier_gets_the_label_of_the_plain_one(rig: Rig, kind: str, evasion: str) -> None:
    text = EVASIONS[evasion](KINDS[kind])
    with rig.watch() as seen:
        answer = rig.post(chat(f"Please check {kind} {text} today."))
    assert_kept(answer, seen)
    no_trace(answer, seen, KINDS[kind])


SPLITS: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "two-turns": lambda text: [turn("user", f"It is {text[:9]}"), turn("user", text[9:])],
    "turns-with-an-answer-between": lambda text: [
        turn("user", f"It is {text[:9]}"),
        turn("assistant", "And then?"),
        turn("user", text[9:]),
    ],
    "parts": lambda text: [
        turn("user", [{"type": "text", "text": text[at : at + 5]} for at in range(0, len(text), 5)])
    ],
    "character-by-character": lambda text: [turn("user", character) for character in text],
    "over-roles": lambda text: [turn("system", f"Account {text[:8]}"), turn("user", text[8:])],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("split", SPLITS)
def test_an_identifier_split_over_messages_gets_the_label_of_the_whole(
    rig: Rig, kind: str, split: str
) -> None:
    with rig.watch() as seen:
        answer = rig.post({"model": "assistant", "messages": SPLITS[split](KINDS[kind])})
    assert_kept(answer, seen)


def test_harmless_text_still_goes_to_the_hosted_api(rig: Rig) -> None:
    with rig.watch() as seen:
        answer = rig.post(chat("When is high tide on the 12th of May 2026 in Hamburg?"))
    assert answer.headers["x-tidegate-destination"] == "hosted-openai"
    assert b"high tide" in seen.hosted_bytes
