"""Registry folders in memory, for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import yaml

from gateway.domain.caller import Caller
from gateway.protocols.document import document_sha256
from gateway.protocols.registry import Registry, build_registry, format_lock, split_documents

TOOLS = b"""[{"name": "look_up", "description": "Looks up.",
"parameters": {"type": "object", "properties": {"q": {"type": "string"}, "a": {"type": "integer"}}},
"roles": ["user"], "side_effects": "read", "idempotent": true, "timeout_seconds": 5,
"errors": {"not-found": {"retryable": false}}, "result_label": "internal", "result": {"type": "object"}}]"""


def parse_yaml(text: str, file: str) -> object:
    """A stand-in for the policy room's reader: good for well-formed files only."""
    return yaml.safe_load(text)


def manifest(**fields: Any) -> bytes:
    """A manifest with these fields."""
    return yaml.safe_dump(fields).encode()


def prompt_manifest(name: str = "greeting", version: str = "1.0.0", **fields: Any) -> bytes:
    """A good manifest of a prompt with one variable `who`."""
    good = {"description": "Greets.", "variables": {"who": {"type": "string", "max_characters": 20}}}
    return manifest(kind="prompt", name=name, version=version, **(good | fields))


def tools_manifest(name: str = "search", version: str = "1.0.0", **fields: Any) -> bytes:
    """A good manifest of a tool set."""
    return manifest(kind="tools", name=name, version=version, description="Searches.", **fields)


def good_files() -> dict[str, bytes]:
    """Two versions of a prompt, one with tools, and the tool set."""
    return {
        "greeting/1.0.0/manifest.yaml": prompt_manifest(),
        "greeting/1.0.0/prompt.md": b"Greet {{who}}. Only {{who}}.\n",
        "greeting/1.10.0/manifest.yaml": prompt_manifest(
            version="1.10.0", tools="search@1.0.0", label_floor="internal"
        ),
        "greeting/1.10.0/prompt.md": b"Hello {{who}}",
        "search/1.0.0/manifest.yaml": tools_manifest(label_floor="confidential"),
        "search/1.0.0/tools.json": TOOLS,
        "channels.yaml": b"greeting:\n  stable: 1.0.0\n",
    }


def lock_of(files: Mapping[str, bytes]) -> bytes:
    """The lock that fits `files`."""
    return format_lock({key: document_sha256(content) for key, content in split_documents(files).items()})


def caller(**fields: Any) -> Caller:
    """A caller of the tenant `demo` with the role `user`, at the beginning of time."""
    good: dict[str, Any] = {
        "tenant": "demo",
        "roles": frozenset({"user"}),
        "now_seconds": 0,
        "keyed_digest": lambda data: hashlib.sha256(data).hexdigest(),
    }
    return Caller(**(good | fields))


def registry_of(files: Mapping[str, bytes]) -> Registry:
    """The registry of `files`, locked as they are."""
    return build_registry(files, lock_of(files), parse_yaml)
