"""All documents of a deployment, as one value that requests look things up in.

Invariants
1. Every document has its digest in the lock, and every entry of the lock has its document. A released
   version is therefore what was reviewed, byte for byte.
2. Look-ups are exact dictionary look-ups of (name, version). Nothing a client sends becomes a path, is
   folded, trimmed or decoded.
3. What a document refers to is in the registry, or the registry does not exist.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from gateway.errors import ConfigurationError
from gateway.protocols.document import (
    Key,
    ParseYaml,
    Prompt,
    ToolSet,
    document_sha256,
    is_name,
    is_version,
    parse_document,
    parse_key,
)

CHANNELS_FILE = "channels.yaml"
LOCK_NAME = "protocols.lock"
_LOCK_HEADER = "# tidegate protocols.lock, format 1; written by `tidegate protocol lock`"
_LOCK_LINE = re.compile(r"(\S+) sha256:([0-9a-f]{64})")


class Channels(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which version a prompt has when a request names none."""

    stable: str


@dataclass(frozen=True, slots=True)
class Registry:
    """Prompts and tool sets by (name, version); `stable` has the default version by prompt name.

    `sha256` (hex) covers every document's digest and the channels.
    """

    prompts: Mapping[Key, Prompt]
    tool_sets: Mapping[Key, ToolSet]
    stable: Mapping[str, str]
    sha256: str


def build_registry(files: Mapping[str, bytes], lock: bytes, parse_yaml: ParseYaml) -> Registry:
    """The registry made of `files`: `name/version/file` → bytes, and perhaps `channels.yaml`.

    `lock` is the content of `protocols.lock`. Raises `ConfigurationError` for everything that does not
    fit; there is no registry with a part left out.
    """
    documents = split_documents(files)
    _check_lock(documents, parse_lock(lock))
    prompts: dict[Key, Prompt] = {}
    tool_sets: dict[Key, ToolSet] = {}
    for key in sorted(documents):
        match parse_document(key, documents[key], parse_yaml):
            case Prompt() as prompt:
                prompts[key] = prompt
            case ToolSet() as tool_set:
                tool_sets[key] = tool_set
    for key, prompt in prompts.items():
        if prompt.tool_set is not None and prompt.tool_set not in tool_sets:
            raise ConfigurationError(
                f"{key[0]}/{key[1]}/manifest.yaml: tools: no tool set {'@'.join(prompt.tool_set)}"
            )
    stable = _parse_channels(files.get(CHANNELS_FILE), prompts, parse_yaml)
    return Registry(
        MappingProxyType(prompts),
        MappingProxyType(tool_sets),
        MappingProxyType(stable),
        _registry_sha256(documents, stable),
    )


def split_documents(files: Mapping[str, bytes]) -> dict[Key, dict[str, bytes]]:
    """Files by document. Raises `ConfigurationError` for a path that is not `name/version/file`."""
    documents: dict[Key, dict[str, bytes]] = {}
    for path, content in files.items():
        if path == CHANNELS_FILE:
            continue
        name, _, rest = path.partition("/")
        version, _, file_name = rest.partition("/")
        if not is_name(name) or not is_version(version) or not file_name or "/" in file_name:
            raise ConfigurationError(
                f"{path}: expected {CHANNELS_FILE} or name/major.minor.patch/file with a name of a-z 0-9 -"
            )
        documents.setdefault((name, version), {})[file_name] = content
    return documents


def parse_lock(lock: bytes) -> dict[Key, str]:
    """Digests by (name, version). Raises `ConfigurationError` with the line that is wrong."""
    entries: dict[Key, str] = {}
    try:
        lines = lock.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{LOCK_NAME}: expected ASCII text") from None
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        match = _LOCK_LINE.fullmatch(line)
        if match is None:
            raise ConfigurationError(f"{LOCK_NAME}:{number}: expected name@version sha256:<64 hex digits>")
        key = parse_key(match[1], f"{LOCK_NAME}:{number}")
        if key in entries:
            raise ConfigurationError(f"{LOCK_NAME}:{number}: expected {match[1]} once, found it twice")
        entries[key] = match[2]
    return entries


def format_lock(digests: Mapping[Key, str]) -> bytes:
    """Content of `protocols.lock`, sorted; `parse_lock` gives the same digests back."""
    lines = [f"{name}@{version} sha256:{digests[name, version]}" for name, version in sorted(digests)]
    return ("\n".join([_LOCK_HEADER, *lines]) + "\n").encode("ascii")


def _check_lock(documents: Mapping[Key, Mapping[str, bytes]], lock: Mapping[Key, str]) -> None:
    for key in sorted(documents.keys() | lock.keys()):
        place, entry = f"{key[0]}/{key[1]}", "@".join(key)
        if key not in documents:
            raise ConfigurationError(f"{LOCK_NAME}: {entry}: expected the folder {place}, found none")
        found = document_sha256(documents[key])
        if key not in lock:
            # fail-closed: a document that nobody locked is a document that nobody released.
            raise ConfigurationError(
                f"{place}: expected an entry {entry} in {LOCK_NAME}, found none (its digest is {found})"
            )
        if found != lock[key]:
            raise ConfigurationError(
                f"{place}: expected sha256 {lock[key]} ({LOCK_NAME}), found {found};"
                " a released version does not change, make a new one"
            )


def _parse_channels(
    content: bytes | None, prompts: Mapping[Key, Prompt], parse_yaml: ParseYaml
) -> dict[str, str]:
    if content is None:
        return {}
    try:
        tree = parse_yaml(content.decode("utf-8"), CHANNELS_FILE)
        channels = msgspec.convert(tree, dict[str, Channels])
    except UnicodeDecodeError:
        raise ConfigurationError(f"{CHANNELS_FILE}: expected UTF-8") from None
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{CHANNELS_FILE}: {error}") from None
    for name, channel in channels.items():
        if (name, channel.stable) not in prompts:
            raise ConfigurationError(f"{CHANNELS_FILE}: {name}.stable: no prompt {name}@{channel.stable}")
    return {name: channel.stable for name, channel in channels.items()}


def _registry_sha256(documents: Mapping[Key, Mapping[str, bytes]], stable: Mapping[str, str]) -> str:
    digests = {key: document_sha256(content) for key, content in documents.items()}
    channels = "".join(f"{name} stable {stable[name]}\n" for name in sorted(stable))
    return hashlib.sha256(format_lock(digests) + channels.encode("ascii")).hexdigest()
