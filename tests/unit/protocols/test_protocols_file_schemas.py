"""The schemas for editors: as published, and taking what the gateway takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from gateway.cli.protocol_folder import parse_yaml
from gateway.protocols.file_schemas import file_schemas

POLICIES = Path(__file__).parents[3] / "policies"
SCHEMAS = file_schemas()


def judge(name: str) -> Any:
    return jsonschema_rs.Draft202012Validator(json.loads(SCHEMAS[f"protocol-{name}.schema.json"]))


def schema_of(path: Path) -> str:
    if path.parent.name == "tests":
        return "prompt-cases" if (path.parents[1] / "prompt.md").exists() else "tool-cases"
    return path.stem


FILES = [
    path
    for path in sorted((POLICIES / "protocols").rglob("*"))
    if path.suffix in {".yaml", ".json"} and path.is_file()
]


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_the_published_schemas_are_those_of_the_types(name: str) -> None:
    # When this fails: tidegate protocol schemas policies/schema
    assert (POLICIES / "schema" / name).read_bytes() == SCHEMAS[name]


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-4:]))
def test_every_file_of_this_project_fits_its_schema(path: Path) -> None:
    text = path.read_text("utf-8")
    tree = json.loads(text) if path.suffix == ".json" else parse_yaml(text, path.name)
    assert [error.message for error in judge(schema_of(path)).iter_errors(tree)] == []


@pytest.mark.parametrize(
    ("name", "tree"),
    [
        ("manifest", {"kind": "prompt", "name": "a", "version": "1.0.0", "description": "d", "extra": 1}),
        ("manifest", {"kind": "recipe", "name": "a", "version": "1.0.0", "description": "d"}),
        ("tools", []),
        ("tools", [{"name": "a b", "description": "d", "parameters": {"type": "object"}}]),
        ("tools", [{"name": "a", "description": "d", "parameters": {"type": "object"}, "roles": []}]),
        ("channels", {"a": {"stable": "1.0.0", "newest": "2.0.0"}}),
        ("channels", {"a": {"canary": {"version": "1.0.0"}}}),
        ("floors", {"acme": {"a": {}}}),
        ("prompt-cases", {"cases": [{"variables": {}}]}),
        ("tool-cases", {"cases": [{"name": "a", "expect": "valid"}]}),
    ],
)
def test_a_schema_refuses_what_the_gateway_refuses(name: str, tree: object) -> None:
    assert not judge(name).is_valid(tree)
