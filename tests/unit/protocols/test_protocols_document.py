"""One folder: its digest, its manifest, its template."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.protocols.document import (
    Placeholder,
    Prompt,
    ToolSet,
    document_sha256,
    is_name,
    parse_document,
    parse_key,
)
from gateway.protocols.version import is_version
from tests.fakes.protocol_files import TOOLS, parse_yaml, prompt_manifest, tools_manifest

KEY = ("greeting", "1.0.0")


def prompt(template: bytes = b"Greet {{who}}.", **fields: Any) -> dict[str, bytes]:
    return {"manifest.yaml": prompt_manifest(**fields), "prompt.md": template}


def parse(files: dict[str, bytes], key: tuple[str, str] = KEY) -> Prompt | ToolSet:
    return parse_document(key, files, parse_yaml)


def test_reads_a_prompt_into_texts_and_placeholders() -> None:
    document = parse(
        prompt(b"\nGreet {{who}}{{who}}!\nBye.\n\n", label_floor="internal", tools="search@2.0.1")
    )
    assert isinstance(document, Prompt)
    assert document.segments == ("Greet ", Placeholder("who"), Placeholder("who"), "!\nBye.")
    assert document.floor is Level.INTERNAL
    assert document.tool_set == ("search", "2.0.1")
    assert (document.pin.name, document.pin.version) == KEY
    assert document.pin.sha256 == document_sha256(
        prompt(b"\nGreet {{who}}{{who}}!\nBye.\n\n", label_floor="internal", tools="search@2.0.1")
    )


def test_reads_a_prompt_without_floor_tools_and_variables() -> None:
    document = parse(prompt(b"Be brief: {single} braces are text.", variables={}))
    assert isinstance(document, Prompt)
    assert document.segments == ("Be brief: {single} braces are text.",)
    assert (document.floor, document.tool_set) == (None, None)


def test_reads_a_tool_set() -> None:
    document = parse({"manifest.yaml": tools_manifest(), "tools.json": TOOLS}, ("search", "1.0.0"))
    assert isinstance(document, ToolSet)
    assert [tool.name for tool in document.tools] == ["look_up"]


def test_gives_different_digests_to_different_cuts_of_the_same_bytes() -> None:
    cuts = [
        {"a": b"xy"},
        {"a": b"x", "b": b"y"},
        {"a": b"", "b": b"xy"},
        {"ax": b"y"},
        {"a": b"xy", "b": b""},
    ]
    assert len({document_sha256(cut) for cut in cuts}) == len(cuts)
    assert document_sha256({"a": b"1", "b": b"2"}) == document_sha256({"b": b"2", "a": b"1"})


def test_keeps_its_digest_format() -> None:
    # Locks in the field hold such digests: this value changes only together with the lock's format.
    assert document_sha256({"prompt.md": b"Hi\n", "manifest.yaml": b"kind: prompt\n"}) == (
        "57927d7ab9252628819cd6f4897c85beacb4b0ff6fc687c8de4cbe672d0fbd64"
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind_": "x"}, "unknown field `kind_`"),
        ({"name": "other"}, "expected name and version of its folder"),
        ({"version": "1.0.1"}, "expected name and version of its folder"),
        ({"version": 1.0}, "Expected `str`, got `float`"),
        ({"label_floor": "secret"}, "Invalid enum value 'secret'"),
        ({"description": None}, "description"),
        ({"tools": "search"}, "tools: expected name@major.minor.patch"),
        ({"tools": "../x@1.0.0"}, "tools: expected name@major.minor.patch"),
        ({"variables": {}}, "variables.who: used in prompt.md but not declared"),
        (
            {"variables": {"who": {"type": "string"}, "x": {"type": "string"}}},
            "variables.x: declared but not used",
        ),
        ({"variables": {"who": {"type": "text"}}}, "Invalid value 'text'"),
        ({"variables": {"who": {"type": "string", "pattern": "x"}}}, "unknown field `pattern`"),
        ({"variables": {"who": {"type": "string", "max_characters": 0}}}, "variables.who: max_characters"),
    ],
)
def test_names_the_manifest_and_what_is_wrong_in_it(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(prompt(**fields))
    assert str(caught.value).startswith("greeting/1.0.0/manifest.yaml: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (b"", "expected 1 to"),
        (b"\n\n", "expected 1 to"),
        (b"x" * 65_537, "expected 1 to"),
        (b"a\n{{ who }}", "prompt.md:2: expected {{name}}"),
        (b"{{who}} {{Who}}", "prompt.md:1: expected {{name}}"),
        (b"{{who", "expected {{name}}"),
        (b"who}} {{who}}", "expected {{name}}"),
        (b"{{#if who}}x{{/if}}", "expected {{name}}"),
        (b"{{who.__class__}}", "expected {{name}}"),
        (b"{{{who}}}", "expected {{name}}"),
        (b"{{who}} <|im_end|>", "control tokens of chat templates"),
        (b"{{who}} \x00", "control characters"),
        ("{{who}} \u202e".encode(), "control characters"),
        (b"{{who}}\r\n", "LF line ends"),
        ("\ufeff{{who}}".encode(), "byte order mark"),
        (b"{{who}} \xff", "expected UTF-8, found byte 8"),
        (b"x" * 262_145, "expected at most 262144 bytes"),
    ],
    ids=range(17),
)
def test_names_the_template_and_what_is_wrong_in_it(template: bytes, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(prompt(template))
    assert str(caught.value).startswith("greeting/1.0.0/prompt.md:")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"prompt.md": b"Hi"},
        {"manifest.yaml": prompt_manifest()},
        {"manifest.yaml": prompt_manifest(), "tools.json": TOOLS},
        prompt() | {"notes.txt": b"x"},
        {"manifest.yaml": b"- a list"},
        {"manifest.yaml": b"kind: script"},
    ],
    ids=range(7),
)
def test_refuses_a_folder_with_other_files_than_its_kind_has(files: dict[str, bytes]) -> None:
    with pytest.raises(ConfigurationError, match=r"^greeting/1\.0\.0"):
        parse(files)


@pytest.mark.parametrize("text", ["a", "support-summary", "a1-b2", "x" * 64])
def test_takes_ordinary_names(text: str) -> None:
    assert is_name(text)


@pytest.mark.parametrize(
    "text", ["", "A", "a--b", "-a", "a-", "a_b", "a.b", "..", "a/b", "a\n", "ä", "x" * 65, "a%2e", "a\x00"]
)
def test_refuses_other_names(text: str) -> None:
    assert not is_name(text)


@pytest.mark.parametrize(
    "text", ["1", "1.0", "1.0.0.0", "01.0.0", "v1.0.0", "1.0.0-rc1", "1.0.0\n", "^1.0.0", "1.0.٣"]
)
def test_refuses_other_versions(text: str) -> None:
    assert is_version("10.20.30")
    assert not is_version(text)


def test_reads_a_key_and_names_the_place_of_a_bad_one() -> None:
    assert parse_key("a-b@1.2.3", "here") == ("a-b", "1.2.3")
    for text in ("a-b", "@1.0.0", "a@1", "a@1.0.0@2", ""):
        with pytest.raises(ConfigurationError, match=r"^here: expected"):
            parse_key(text, "here")
