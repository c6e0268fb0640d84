"""One document of the registry: a prompt or a tool set, read from the files of its folder.

Invariants
1. A document is the bytes of its files. Its digest covers every file with name and length, so that no
   two different folders share one. Line ends are LF, text is UTF-8 without a byte order mark.
   Test cases (`tests/`) are part of it: what was reviewed is what was tested.
2. Templates know `{{name}}` and nothing else: no expression, no condition, no inclusion, one pass.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from gateway.domain.chat import Pin
from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.protocols.channels import Lifetime, RetirementFile, read_lifetime
from gateway.protocols.tools import Tool, parse_tools
from gateway.protocols.variables import Variable, definition_fault, holds_control_token, is_plain_text
from gateway.protocols.version import is_version

#: Text and a file name for errors, to plain values (dict, list, str, int, float, bool, None).
ParseYaml = Callable[[str, str], object]
Key = tuple[str, str]

MAX_FILE_BYTES = 256 * 1024
MAX_PROMPT_CHARACTERS = 65_536
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_VARIABLE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_CASES = re.compile(r"tests/[a-z0-9][a-z0-9-]{0,63}\.yaml")
_BRACES = re.compile(r"\{\{(.*?)\}\}|\{\{|\}\}")
_FILES = {
    "prompt": frozenset({"manifest.yaml", "prompt.md"}),
    "tools": frozenset({"manifest.yaml", "tools.json"}),
}

LevelWord = Literal["public", "internal", "confidential", "restricted"]


class PromptManifest(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="kind", tag="prompt"):
    """`manifest.yaml` of a prompt. `tools` names one tool set as name@version.

    `deprecated` and `removed` are dates (YYYY-MM-DD); channels.yaml may set them later (`retire`).
    """

    name: str
    version: str
    description: str
    label_floor: LevelWord | None = None
    variables: dict[str, Variable] = {}
    tools: str | None = None
    deprecated: str | None = None
    removed: str | None = None


class ToolSetManifest(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="kind", tag="tools"):
    """`manifest.yaml` of a tool set. Dates as in a prompt's."""

    name: str
    version: str
    description: str
    label_floor: LevelWord | None = None
    deprecated: str | None = None
    removed: str | None = None


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The place of a variable in a template."""

    name: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt ready to render: literal texts and placeholders in order."""

    pin: Pin
    floor: Level | None
    variables: Mapping[str, Variable]
    segments: tuple[str | Placeholder, ...]
    tool_set: Key | None
    lifetime: Lifetime | None = None


@dataclass(frozen=True, slots=True)
class ToolSet:
    """Tools that are offered together."""

    pin: Pin
    floor: Level | None
    tools: tuple[Tool, ...]
    lifetime: Lifetime | None = None


def is_name(text: str) -> bool:
    """True for a document name: lowercase words joined by single hyphens, at most 64 characters."""
    return len(text) <= 64 and _NAME.fullmatch(text) is not None


def is_case_file(name: str) -> bool:
    """True for a file of test cases inside a document: `tests/<name>.yaml`."""
    return _CASES.fullmatch(name) is not None


def parse_key(text: str, place: str) -> Key:
    """Name and version of `name@version`. Raises `ConfigurationError` that names `place`."""
    name, _, version = text.partition("@")
    if not is_name(name) or not is_version(version):
        raise ConfigurationError(f"{place}: expected name@major.minor.patch")
    return name, version


def document_sha256(files: Mapping[str, bytes]) -> str:
    """Digest (hex) of a document: SHA-256 over its files in the order of their names.

    Canonical bytes: `tidegate-protocol 1\\n`, then for each file `<name> <length in bytes>\\n` and its
    bytes.
    """
    digest = hashlib.sha256(b"tidegate-protocol 1\n")
    for name in sorted(files):
        digest.update(f"{name} {len(files[name])}\n".encode())
        digest.update(files[name])
    return digest.hexdigest()


def parse_document(key: Key, files: Mapping[str, bytes], parse_yaml: ParseYaml) -> Prompt | ToolSet:
    """The document in `files` (file name → bytes) of the folder `name/version`.

    Raises `ConfigurationError` that names the file, what was expected and what was found.
    """
    folder = f"{key[0]}/{key[1]}"
    texts = {name: _text(content, f"{folder}/{name}") for name, content in files.items()}
    if "manifest.yaml" not in texts:
        raise ConfigurationError(f"{folder}: expected a manifest.yaml, found none")
    place = f"{folder}/manifest.yaml"
    try:
        manifest = msgspec.convert(
            parse_yaml(texts["manifest.yaml"], place), PromptManifest | ToolSetManifest
        )
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{place}: {error}") from None
    if (manifest.name, manifest.version) != key:
        raise ConfigurationError(f"{place}: expected name and version of its folder ({folder})")
    pin = Pin(*key, document_sha256(files))
    floor = None if manifest.label_floor is None else Level.parse(manifest.label_floor)
    lifetime = read_lifetime(RetirementFile(manifest.deprecated, manifest.removed), place)
    if isinstance(manifest, ToolSetManifest):
        _check_files(files, "tools", folder)
        tools = parse_tools(files["tools.json"], f"{folder}/tools.json", "@".join(key))
        return ToolSet(pin, floor, tools, lifetime)
    _check_files(files, "prompt", folder)
    segments = _parse_template(texts["prompt.md"], f"{folder}/prompt.md")
    _check_variables(manifest.variables, segments, place)
    tool_set = None if manifest.tools is None else parse_key(manifest.tools, f"{place}: tools")
    return Prompt(pin, floor, manifest.variables, segments, tool_set, lifetime)


def _text(content: bytes, place: str) -> str:
    if len(content) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{place}: expected at most {MAX_FILE_BYTES} bytes, found {len(content)}")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{place}: expected UTF-8, found byte {error.start} not to be") from None
    if "\r" in text or text.startswith("\ufeff"):
        raise ConfigurationError(f"{place}: expected LF line ends and no byte order mark")
    return text


def _check_files(files: Mapping[str, bytes], kind: str, folder: str) -> None:
    expected = _FILES[kind]
    if {name for name in files if not is_case_file(name)} != expected:
        raise ConfigurationError(
            f"{folder}: expected {', '.join(sorted(expected))} and at most tests/*.yaml;"
            f" found {', '.join(sorted(files))}"
        )


def _parse_template(text: str, place: str) -> tuple[str | Placeholder, ...]:
    text = text.strip("\n")
    if not text or len(text) > MAX_PROMPT_CHARACTERS:
        raise ConfigurationError(f"{place}: expected 1 to {MAX_PROMPT_CHARACTERS} characters")
    if not is_plain_text(text, multiline=True) or holds_control_token(text):
        raise ConfigurationError(
            f"{place}: expected text without control characters and without control tokens of chat templates"
        )
    segments: list[str | Placeholder] = []
    position = 0
    for match in _BRACES.finditer(text):
        if match[1] is None or _VARIABLE.fullmatch(match[1]) is None:
            line = text.count("\n", 0, match.start()) + 1
            raise ConfigurationError(f"{place}:{line}: expected {{{{name}}}} with a name of a-z 0-9 _")
        if match.start() > position:
            segments.append(text[position : match.start()])
        segments.append(Placeholder(match[1]))
        position = match.end()
    if position < len(text):
        segments.append(text[position:])
    return tuple(segments)


def _check_variables(
    variables: Mapping[str, Variable], segments: tuple[str | Placeholder, ...], place: str
) -> None:
    used = {segment.name for segment in segments if isinstance(segment, Placeholder)}
    for name in sorted(used ^ variables.keys()):
        found = "used in prompt.md but not declared" if name in used else "declared but not used"
        raise ConfigurationError(f"{place}: variables.{name}: {found}")
    for name, variable in variables.items():
        fault = definition_fault(variable)
        if fault is not None:
            raise ConfigurationError(f"{place}: variables.{name}: {fault}")
