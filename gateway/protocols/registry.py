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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.protocols.channels import (
    CHANNELS_FILE,
    FLOORS_FILE,
    Channel,
    Floors,
    Lifetime,
    read_channels,
    read_floors,
)
from gateway.protocols.document import (
    Key,
    ParseYaml,
    Prompt,
    ToolSet,
    document_sha256,
    is_case_file,
    is_name,
    parse_document,
    parse_key,
)
from gateway.protocols.own_tools import OwnTools
from gateway.protocols.results import ResultContract, result_contracts
from gateway.protocols.version import Version, is_version, parse_version

#: Files beside the documents' folders.
_TOP_FILES = frozenset({CHANNELS_FILE, FLOORS_FILE})
LOCK_NAME = "protocols.lock"
_LOCK_HEADER = "# tidegate protocols.lock, format 1; written by `tidegate protocol lock`"
_LOCK_LINE = re.compile(r"(\S+) sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Registry:
    """Prompts and tool sets by (name, version), and what requests need to find theirs.

    `versions` are those of each prompt, in order. `channels` are by name of the prompt. `lifetimes` are by
    (name, version), those of channels.yaml before those of a manifest. `tool_names` are the names of all
    versions of a tool set. `result_levels` have, by name of a tool, the highest label that any version
    gives its results; `results` what its versions return. `own_tools` judges the tools that clients
    bring. `sha256` (hex) covers every document's digest, the channels and the floors.
    """

    prompts: Mapping[Key, Prompt]
    tool_sets: Mapping[Key, ToolSet]
    versions: Mapping[str, tuple[Version, ...]]
    channels: Mapping[str, Channel]
    lifetimes: Mapping[Key, Lifetime]
    floors: Floors
    tool_names: Mapping[str, frozenset[str]]
    result_levels: Mapping[str, Level]
    results: Mapping[str, tuple[ResultContract, ...]]
    sha256: str
    own_tools: OwnTools = field(default_factory=OwnTools, compare=False)


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
    versions, set_versions = _versions(prompts), _versions(tool_sets)
    channels, retired = read_channels(_tree(files, CHANNELS_FILE, parse_yaml), versions, set_versions)
    return Registry(
        prompts=MappingProxyType(prompts),
        tool_sets=MappingProxyType(tool_sets),
        versions=MappingProxyType(versions),
        channels=MappingProxyType(channels),
        lifetimes=MappingProxyType(_lifetimes(prompts, tool_sets, retired)),
        floors=read_floors(_tree(files, FLOORS_FILE, parse_yaml), versions),
        tool_names=MappingProxyType(_tool_names(tool_sets)),
        result_levels=MappingProxyType(_result_levels(tool_sets)),
        results=MappingProxyType(
            result_contracts(tool for each in tool_sets.values() for tool in each.tools)
        ),
        sha256=_registry_sha256(documents, files),
    )


def split_documents(files: Mapping[str, bytes]) -> dict[Key, dict[str, bytes]]:
    """Files by document. Raises `ConfigurationError` for a path that is not `name/version/file`."""
    documents: dict[Key, dict[str, bytes]] = {}
    for path, content in files.items():
        if path in _TOP_FILES:
            continue
        name, _, rest = path.partition("/")
        version, _, file_name = rest.partition("/")
        is_file = bool(file_name) and ("/" not in file_name or is_case_file(file_name))
        if not is_name(name) or not is_version(version) or not is_file:
            raise ConfigurationError(
                f"{path}: expected {CHANNELS_FILE}, {FLOORS_FILE}, name/major.minor.patch/file or"
                " name/major.minor.patch/tests/file.yaml, with a name of a-z 0-9 -"
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


def _tree(files: Mapping[str, bytes], name: str, parse_yaml: ParseYaml) -> object:
    """Content of a file beside the documents; an empty mapping when it is not there."""
    content = files.get(name)
    if content is None:
        return {}
    try:
        tree = parse_yaml(content.decode("utf-8"), name)
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name}: expected UTF-8") from None
    return {} if tree is None else tree


def _versions(keys: Iterable[Key]) -> dict[str, tuple[Version, ...]]:
    found: dict[str, list[Version]] = {}
    for name, word in keys:
        version = parse_version(word)
        if version is not None:
            found.setdefault(name, []).append(version)
    return {name: tuple(sorted(versions)) for name, versions in found.items()}


def _lifetimes(
    prompts: Mapping[Key, Prompt],
    tool_sets: Mapping[Key, ToolSet],
    retired: Mapping[tuple[str, Version], Lifetime],
) -> dict[Key, Lifetime]:
    documents: dict[Key, Prompt | ToolSet] = {**prompts, **tool_sets}
    planned = {key: one.lifetime for key, one in documents.items() if one.lifetime is not None}
    return planned | {(name, str(version)): lifetime for (name, version), lifetime in retired.items()}


def _tool_names(tool_sets: Mapping[Key, ToolSet]) -> dict[str, frozenset[str]]:
    names: dict[str, frozenset[str]] = {}
    for (name, _), tool_set in tool_sets.items():
        names[name] = names.get(name, frozenset()) | {tool.name for tool in tool_set.tools}
    return names


def _result_levels(tool_sets: Mapping[Key, ToolSet]) -> dict[str, Level]:
    levels: dict[str, Level] = {}
    for tool_set in tool_sets.values():
        for tool in tool_set.tools:
            level = tool.result_level
            if level is not None:
                levels[tool.name] = max(level, levels.get(tool.name, level))
    return levels


def _registry_sha256(documents: Mapping[Key, Mapping[str, bytes]], files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(
        format_lock({key: document_sha256(content) for key, content in documents.items()})
    )
    for name in sorted(_TOP_FILES & files.keys()):
        digest.update(f"{name} {len(files[name])}\n".encode() + files[name])
    return digest.hexdigest()
