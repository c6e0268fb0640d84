"""What can be known of the chart without Helm: values, schema, the text of the templates, the policy pack."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "helm" / "tidegate"
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
TEMPLATES = sorted((CHART / "templates").glob("*.yaml"))
PACK = CHART / "files" / "policies"


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """As Helm merges: mappings key by key, all else replaced."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def defaults() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return values


def with_values(**changes: Any) -> dict[str, Any]:
    """The laptop example with changes over it."""
    return merged(merged(defaults(), yaml.safe_load((CHART / "examples/laptop.yaml").read_text())), changes)


def is_valid(values: dict[str, Any]) -> bool:
    return jsonschema_rs.Draft7Validator(SCHEMA).is_valid(values)


def test_the_schema_is_a_json_schema() -> None:
    jsonschema_rs.meta.validate(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_fits_the_schema(example: Path) -> None:
    values = merged(defaults(), yaml.safe_load(example.read_text()))
    assert [error.message for error in jsonschema_rs.Draft7Validator(SCHEMA).iter_errors(values)] == []


def test_the_defaults_lack_only_a_token_issuer() -> None:
    errors = list(jsonschema_rs.Draft7Validator(SCHEMA).iter_errors(defaults()))
    assert [error.instance_path for error in errors] == [["identity", "issuers"]]


def test_every_object_of_the_schema_refuses_unknown_names() -> None:
    def open_objects(schema: Any, where: str) -> list[str]:
        if isinstance(schema, list):
            return [place for each in schema for place in open_objects(each, where)]
        if not isinstance(schema, dict):
            return []
        found = [where] if "required" in schema and "properties" in schema and "type" in schema else []
        found = [place for place in found if schema.get("additionalProperties") is not False]
        return found + [
            place for key, each in schema.items() for place in open_objects(each, f"{where}/{key}")
        ]

    assert open_objects(SCHEMA, "") == []


@pytest.mark.parametrize(
    "cidr", ["0.0.0.0/0", "0.0.0.0/1", "10.0.0.0/7", "::/0", "2000::/3", "10.0.0.1", "anywhere"]
)
def test_refuses_a_network_that_is_nearly_everything(cidr: str) -> None:
    opening = {"name": "x", "cidr": cidr, "ports": [443]}
    assert not is_valid(with_values(networkPolicy={"egress": [opening]}))


@pytest.mark.parametrize("cidr", ["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32", "2001:db8::1/128"])
def test_takes_a_network_that_is_a_network(cidr: str) -> None:
    assert is_valid(with_values(networkPolicy={"egress": [{"name": "x", "cidr": cidr, "ports": [443]}]}))


@pytest.mark.parametrize(
    "changes",
    [
        {"redis": {"url": "redis://:word@host"}},
        {"gateway": {"replicas": 0}},
        {"gateway": {"port": 80}},
        {"audit": {"accessMode": "ReadWriteMany"}},
        {"image": {"tag": "latest"}},
        {"image": {"digest": "sha256:short"}},
        {"networkPolicy": {"clients": [{}]}},
        {"networkPolicy": {"clients": [{"podLabels": {}}]}},
        {"networkPolicy": {"egress": [{"name": "x", "cidr": "192.0.2.0/24", "ports": []}]}},
        {"networkPolicy": {"enabled": False}},
        {"destinations": {"hosted": {"url": "https://user:word@host/v1"}}},
        {"destinations": {"hosted": {"url": "https://host/v1?key=word"}}},
        {"destinations": {"hosted": {"url": "https://host/v1", "credential": "word"}}},
        {"sensitivity": {"contextualModel": ""}},
    ],
    ids=str,
)
def test_refuses_a_value_that_would_open_or_leak(changes: dict[str, Any]) -> None:
    assert not is_valid(with_values(**changes))


def test_no_template_makes_a_secret() -> None:
    kinds = {kind for path in TEMPLATES for kind in re.findall(r"(?m)^kind: *(\S+)", path.read_text())}
    assert "StatefulSet" in kinds
    assert "Secret" not in kinds
    assert not any("stringData" in path.read_text() for path in TEMPLATES)


@pytest.mark.parametrize("path", [p for p in TEMPLATES if "statefulset" in p.name], ids=lambda p: p.name)
def test_every_container_takes_the_one_security_context(path: Path) -> None:
    text = path.read_text()
    containers = text.count("          image: {{")
    assert containers == 2
    assert text.count('securityContext: {{- include "tidegate.containerSecurity"') == containers
    assert text.count('securityContext: {{- include "tidegate.podSecurity"') == 1
    assert text.count("securityContext:") == containers + 1
    assert "automountServiceAccountToken: false" in text


def test_the_security_context_is_the_strict_one() -> None:
    text = (CHART / "templates" / "_helpers.tpl").read_text()
    body = text.split('define "tidegate.containerSecurity" -}}')[1].split("{{- end")[0]
    assert yaml.safe_load(body) == {
        "runAsNonRoot": True,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_the_pack_is_the_policy_folder_with_the_host_of_the_cluster() -> None:
    def files(folder: Path) -> dict[str, str]:
        paths = [*folder.glob("*"), *folder.glob("cases/*"), *folder.glob("protocols/**/*")]
        return {str(path.relative_to(folder)): path.read_text() for path in paths if path.is_file()}

    wanted, found = files(ROOT / "policies"), files(PACK)
    host = defaults()["privateNode"]["serviceName"]
    changed = wanted["routing.yaml"].replace('hosts: ["127.0.0.1", localhost]', f"hosts: [{host}]")
    assert changed != wanted["routing.yaml"]
    assert found == wanted | {"routing.yaml": changed}


def test_every_path_of_the_pack_can_be_a_key_and_come_back() -> None:
    for path in PACK.rglob("*"):
        name = str(path.relative_to(PACK))
        assert "__" not in name
        assert re.fullmatch(r"[-._a-zA-Z0-9]+", name.replace("/", "__"))
