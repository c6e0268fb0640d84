from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest

from gateway.policy.document import parse, plain
from tests.fakes.policy_pack import pack

pytestmark = pytest.mark.integration
POLICIES = Path(__file__).parents[2] / "policies"
FILES = sorted(POLICIES.glob("*.yaml")) + sorted(POLICIES.glob("cases/*.yaml"))
KINDS = ("routing", "limits", "output", "detectors", "cases")


def validator(kind: str) -> jsonschema_rs.Draft202012Validator:
    schema = json.loads((POLICIES / "schema" / f"{kind}.schema.json").read_text(encoding="utf-8"))
    return jsonschema_rs.Draft202012Validator(schema)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_policy_file_fits_its_schema(path: Path) -> None:
    kind = "cases" if path.parent.name == "cases" else path.stem
    tree = plain(parse(path.read_text(encoding="utf-8"), path.name))
    assert [error.message for error in validator(kind).iter_errors(tree)] == []


def test_every_policy_file_names_its_schema_for_editors() -> None:
    assert len(FILES) >= 5
    for path in FILES:
        first = path.read_text(encoding="utf-8").splitlines()[0]
        reference = first.removeprefix("# yaml-language-server: $schema=")
        assert (path.parent / reference).resolve().is_file(), path.name


@pytest.mark.parametrize("kind", KINDS)
def test_schema_refuses_an_unknown_key(kind: str) -> None:
    tree: dict[str, object] = {"cases": []}
    if kind != "cases":
        read = plain(parse(pack()[f"{kind}.yaml"].replace("rules: []", "hold_chars: 256"), kind))
        assert isinstance(read, dict)
        tree = dict(read)
    checker = validator(kind)
    assert checker.is_valid(tree)
    assert not checker.is_valid(tree | {"extra": 1})


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("routing", '    retention: "30 days."\n', ""),
        ("routing", "public..internal", "internal..public"),
        ("routing", "    destinations: [private]\n", ""),
        ("routing", "[private]\n", "[private]\n    deny: No.\n"),
        ("routing", "kind: vllm", "kind: other"),
        ("routing", "[api.example.com]", "['https://api.example.com']"),
        ("limits", "concurrency: 2", "concurrency: 0"),
        ("limits", ", concurrency: 2", ""),
        ("limits", "floor: public, ", ""),
        ("output", "default", "usual"),
        ("detectors", "patterns: []", "patterns: [a]"),
    ],
)
def test_schema_refuses_what_the_compiler_refuses(kind: str, old: str, new: str) -> None:
    text = pack()[f"{kind}.yaml"]
    assert old in text
    assert not validator(kind).is_valid(plain(parse(text.replace(old, new, 1), kind)))
