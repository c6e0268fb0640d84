"""Parsing of chat bodies: what is taken, what is refused and how it is named."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from gateway.dialects.attachments import MAX_ATTACHMENT_BYTES
from gateway.dialects.openai_request import parse_chat
from gateway.domain.chat import (
    Message,
    OpaquePart,
    PromptReference,
    Role,
    Sampling,
    TextPart,
    ToolCall,
    ToolDefinition,
)
from gateway.errors import RequestRefused
from tests.unit.dialects.chat_bodies import body

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG....").decode()


def refusal(raw: bytes) -> RequestRefused:
    """The refusal of `raw`."""
    with pytest.raises(RequestRefused) as caught:
        parse_chat(raw)
    assert caught.value.http_status == 400
    return caught.value


def user(*parts: Any) -> bytes:
    """A body with one user message of these parts."""
    return body(messages=[{"role": "user", "content": list(parts)}])


def test_reads_a_short_request() -> None:
    chat = parse_chat(body())
    assert chat.model == "assistant"
    assert chat.messages == (Message(Role.USER, (TextPart("Hello"),)),)
    assert chat.sampling == Sampling()
    assert (chat.stream, chat.include_usage, chat.extensions) == (False, False, ())


def test_reads_every_role() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    chat = parse_chat(
        body(
            messages=[
                {"role": "system", "content": "S", "name": "chief"},
                {"role": "developer", "content": [{"type": "text", "text": "D"}]},
                {"role": "user", "content": [{"type": "text", "text": "U"}], "name": "ann"},
                {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "R"},
                {"role": "tool", "content": "T", "tool_call_id": "c1"},
                {"role": "assistant", "content": "A", "refusal": "no", "reasoning": "R"},
            ]
        )
    )
    assert chat.messages == (
        Message(Role.SYSTEM, (TextPart("S"),), "chief"),
        Message(Role.DEVELOPER, (TextPart("D"),), as_string=False),
        Message(Role.USER, (TextPart("U"),), "ann", as_string=False),
        Message(Role.ASSISTANT, (), tool_calls=(ToolCall("c1", "look", "{}"),), reasoning="R"),
        Message(Role.TOOL, (TextPart("T"),), tool_call_id="c1"),
        Message(Role.ASSISTANT, (TextPart("A"),), refusal="no", reasoning="R"),
    )


def test_takes_an_answer_back_as_sdks_send_it() -> None:
    answer: dict[str, Any] = {
        "role": "assistant",
        "content": "A",
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
        "name": None,
    }
    assert parse_chat(body(messages=[answer])).messages == (Message(Role.ASSISTANT, (TextPart("A"),)),)


def test_reads_tools_and_how_to_choose_them() -> None:
    function = {"name": "look", "description": "D", "parameters": {"type": "object"}, "strict": True}
    chat = parse_chat(
        body(
            tools=[{"type": "function", "function": function}],
            tool_choice={"type": "function", "function": {"name": "look"}},
            parallel_tool_calls=False,
        )
    )
    assert chat.tools == (ToolDefinition("look", "D", '{"type":"object"}', True),)  # type: ignore[arg-type]
    assert chat.tool_choice == '{"type":"function","function":{"name":"look"}}'
    assert chat.parallel_tool_calls is False
    assert parse_chat(body(tool_choice="required")).tool_choice == '"required"'


def test_reads_how_to_sample() -> None:
    chat = parse_chat(
        body(
            max_tokens=5,
            max_completion_tokens=5,
            temperature=1,
            top_p=0.5,
            n=3,
            stop="END",
            seed=-(2**63),
            presence_penalty=-2,
            frequency_penalty=2,
            logprobs=True,
            top_logprobs=20,
            logit_bias={"42": -100},
        )
    )
    assert chat.sampling == Sampling(
        max_output_tokens=5,
        temperature=1.0,
        top_p=0.5,
        n=3,
        stop=("END",),
        seed=-(2**63),
        presence_penalty=-2.0,
        frequency_penalty=2.0,
        logprobs=True,
        top_logprobs=20,
        logit_bias='{"42":-100.0}',  # type: ignore[arg-type]
    )
    assert parse_chat(body(stop=["a", "b"])).sampling.stop == ("a", "b")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"type": "text"}, '{"type":"text"}'),
        ({"type": "json_object"}, '{"type":"json_object"}'),
        (
            {
                "type": "json_schema",
                "json_schema": {"name": "s", "schema": {"type": "object"}, "strict": True},
            },
            '{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"},"strict":true}}',
        ),
    ],
)
def test_reads_the_form_of_the_answer(form: dict[str, Any], text: str) -> None:
    assert parse_chat(body(response_format=form)).response_format == text


def test_reads_stream_and_usage_option() -> None:
    chat = parse_chat(body(stream=True, stream_options={"include_usage": True}))
    assert (chat.stream, chat.include_usage) == (True, True)
    assert parse_chat(body(stream=True)).include_usage is False


def test_reads_a_prompt_of_the_registry_without_messages() -> None:
    chat = parse_chat(
        b'{"model":"m","prompt":{"id":"letter","version":"2","variables":{"name":"Ann","tone":"kind"}}}'
    )
    assert chat.messages == ()
    assert chat.prompt == PromptReference("letter", "2", (("name", "Ann"), ("tone", "kind")))


def test_reads_extensions_in_a_fixed_order() -> None:
    chat = parse_chat(
        body(
            structured_outputs={"choice": ["yes", "no"]},
            top_k=5,
            stop_token_ids=[1, 2],
            chat_template_kwargs={"enable_thinking": False},
            ignore_eos=False,
        )
    )
    assert chat.extensions == (
        ("top_k", "5"),
        ("ignore_eos", "false"),
        ("stop_token_ids", "[1,2]"),
        ("structured_outputs", '{"choice":["yes","no"]}'),
        ("chat_template_kwargs", '{"enable_thinking":false}'),
    )


def test_takes_harmless_defaults_and_nulls() -> None:
    plain = parse_chat(body())
    assert parse_chat(body(store=False, n=1, stream=False, temperature=None, tools=None, stop=None)) == plain


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}, "image_url"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "input_audio"),
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}, "file"),
    ],
)
def test_keeps_inline_attachments_whole_as_opaque_parts(part: dict[str, Any], kind: str) -> None:
    found = parse_chat(user({"type": "text", "text": "See"}, part)).messages[0].parts
    assert found[0] == TextPart("See")
    assert isinstance(found[1], OpaquePart)
    assert (found[1].kind, json.loads(found[1].payload)) == (kind, part)


REMOTE = [
    "http://169.254.169.254/latest/meta-data",
    "http://[::ffff:127.0.0.1]/",
    "http://0x7f.1/",
    "http://2130706433/",
    "file:///etc/passwd",
    "https://example.org/a.png",
    "//example.org/a.png",
    "ftp://example.org/a.png",
    " data:image/png;base64,AAAA",
    "DATA:image/png;base64,AAAA",
    "",
]


@pytest.mark.parametrize("url", REMOTE)
def test_refuses_a_remote_image(url: str) -> None:
    found = refusal(user({"type": "image_url", "image_url": {"url": url}}))
    assert (found.code, found.param) == ("remote-url-refused", "messages[0].content[0].image_url.url")
    assert not url.strip() or url not in found.message


@pytest.mark.parametrize("url", REMOTE)
def test_refuses_a_remote_file(url: str) -> None:
    assert refusal(user({"type": "file", "file": {"file_data": url}})).code == "remote-url-refused"


@pytest.mark.parametrize(
    "url",
    [
        "data:text/html;base64,AAAA",
        "data:image/svg+xml;base64,AAAA",
        "data:application/pdf;base64,AAAA",
        "data:image/png,AAAA",
        "data:image/png;charset=x;base64,AAAA",
        "data:image/PNG;base64,AAAA",
        "data:image/png;base64,",
        "data:image/png;base64,AA A",
        "data:image/png;base64,AAA",
        "data:image/png;base64,AA\nAA",
        "data:image/png;base64,A-_A",
        "data:",
    ],
)
def test_refuses_a_data_url_that_is_not_an_image(url: str) -> None:
    found = refusal(user({"type": "image_url", "image_url": {"url": url}}))
    assert (found.code, found.param) == ("invalid-value", "messages[0].content[0].image_url.url")


def test_refuses_an_attachment_above_the_bound() -> None:
    text = base64.b64encode(b"x" * (MAX_ATTACHMENT_BYTES + 3)).decode()
    part = {"type": "input_audio", "input_audio": {"data": text, "format": "mp3"}}
    assert refusal(user(part)).param == "messages[0].content[0].input_audio.data"


UNKNOWN = [
    *("user", "metadata", "service_tier", "cache_salt", "priority", "api_base", "base_url", "api_key"),
    *("extra_headers", "extra_body", "modalities", "audio", "functions", "function_call", "prediction"),
    *("web_search_options", "guided_json", "guided_choice", "guided_regex", "guided_grammar"),
    *("echo", "prompt_logprobs", "chat_template", "documents", "mm_processor_kwargs", "vllm_xargs"),
    *("kv_transfer_params", "request_id", "logits_processors", "best_of", "Model", "messages "),
]


@pytest.mark.parametrize("name", UNKNOWN)
def test_refuses_fields_that_are_not_of_the_dialect_even_as_null(name: str) -> None:
    values: tuple[Any, ...] = (None, "x", {})
    for value in values:
        assert refusal(body(**{name: value})).code == "unknown-field"


NESTED: dict[str, tuple[str, Any]] = {
    "message": ("messages[0]", lambda x: body(messages=[{"role": "user", "content": "a", **x}])),
    "part": ("messages[0].content[0]", lambda x: user({"type": "text", "text": "a", **x})),
    "image": ("messages[0].content[0].image_url", lambda x: user(_image(x))),
    "tool": ("tools[0]", lambda x: body(tools=[{"type": "function", "function": {"name": "f"}, **x}])),
    "function": (
        "tools[0].function",
        lambda x: body(tools=[{"type": "function", "function": {"name": "f", **x}}]),
    ),
    "stream options": ("stream_options", lambda x: body(stream=True, stream_options=x)),
    "response format": ("response_format", lambda x: body(response_format={"type": "text", **x})),
    "prompt": ("prompt", lambda x: body(prompt={"id": "p", **x})),
    "structured outputs": ("structured_outputs", lambda x: body(structured_outputs={"regex": "a", **x})),
    "template switches": ("chat_template_kwargs", lambda x: body(chat_template_kwargs=x)),
    "earlier call": (
        "messages[0].tool_calls[0]",
        lambda x: body(
            messages=[
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}, **x}
                    ],
                }
            ]
        ),
    ),
}


def _image(extra: dict[str, Any]) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": PNG, **extra}}


@pytest.mark.parametrize("where", NESTED)
@pytest.mark.parametrize("name", ["user", "api_base", "cache_salt", "extra_body", "chat_template"])
def test_refuses_unknown_fields_wherever_they_stand(where: str, name: str) -> None:
    path, build = NESTED[where]
    found = refusal(build({name: "s3cret-value"}))
    assert (found.code, found.param) == ("unknown-field", f"{path}.{name}")
    assert "s3cret" not in found.message


def test_says_what_to_do_instead() -> None:
    assert "structured_outputs" in refusal(body(guided_choice=["a"])).message
    assert "use `tools`" in refusal(body(functions=[])).message
    assert "gateway" in refusal(body(api_base="x")).message


def test_refuses_a_non_empty_field_that_sdks_only_send_empty() -> None:
    message: dict[str, Any] = {"role": "assistant", "content": "A", "audio": {"id": "a"}}
    found = refusal(body(messages=[message]))
    assert (found.code, found.param) == ("unknown-field", "messages[0].audio")
    message = {"role": "assistant", "content": "A", "annotations": [{}]}
    assert refusal(body(messages=[message])).http_status == 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": 5}, "model"),
        ({"model": ""}, "model"),
        ({"model": "m" * 257}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "Hello"}, "messages"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "robot", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "function", "content": "a", "name": "f"}]}, "messages[0].role"),
        ({"messages": [{"role": "assistant"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "video_url"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "system", "content": [{"type": "file"}]}]}, "messages[0].content[0].type"),
        (
            {"messages": [{"role": "assistant", "content": "a", "reasoning": "x", "reasoning_content": "y"}]},
            "messages[0].reasoning_content",
        ),
        ({"store": True}, "store"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 2**40}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"n": 9}, "n"),
        ({"n": 128}, "n"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"seed": 2**63}, "seed"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias[...]"),
        ({"logit_bias": {str(key): 1 for key in range(1025)}}, "logit_bias"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"tools": [{"type": "custom", "function": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}] * 2}, "tools[1].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}] * 129}, "tools"),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"prompt": {"id": "p", "variables": {"a": 1}}}, "prompt.variables[...]"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "grammar": "b"}}, "structured_outputs"),
        ({"structured_outputs": {"json_object": False}}, "structured_outputs"),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
    ],
)
def test_refuses_a_value_out_of_bounds_and_names_it(fields: dict[str, Any], param: str) -> None:
    found = refusal(body(**fields))
    assert (found.code, found.param) == ("invalid-value", param)
    assert f"`{param}`" in found.message


def test_names_the_bound_of_n() -> None:
    assert "<= 8" in refusal(body(n=128)).message


def test_refuses_a_body_without_model() -> None:
    found = refusal(b'{"messages":[{"role":"user","content":"a"}]}')
    assert (found.code, found.param) == ("missing-field", "model")


def test_keeps_the_model_name_exactly() -> None:
    for name in ("gpt-4 ", "GPT-4", "gpt\u200b-4", "gрt-4", "openai/../vllm"):
        assert parse_chat(body(model=name)).model == name
