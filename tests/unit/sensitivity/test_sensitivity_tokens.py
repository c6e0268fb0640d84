"""Tokens of every issuer: one drawn for each form, and what only looks like one."""

from __future__ import annotations

import pytest

from gateway.domain.label import Level, Tag
from gateway.sensitivity import secrets, tokens
from gateway.sensitivity.detectors import build_detectors
from tests.unit.sensitivity import vectors

DETECTORS = build_detectors()


def _tags(text: str) -> list[tuple[Level, frozenset[Tag]]]:
    return [(finding.label.level, finding.label.tags) for finding in DETECTORS.find(text)]


@pytest.mark.parametrize("row", tokens.PREFIXES, ids=[row[0] for row in tokens.PREFIXES])
def test_finds_a_token_of_each_form(row: tuple[str, bytes, int]) -> None:
    kind, form, _ = row
    value = vectors.from_form(form, 5)
    rules = [rule for rule in tokens.RULES if rule.kind == kind]
    assert any(Tag.SECRET in rule.label.tags for rule in rules)
    found = DETECTORS.find(f"the value {value} was printed")
    assert any(finding.label.level is Level.RESTRICTED for finding in found), value
    assert any(Tag.SECRET in finding.label.tags for finding in found)


@pytest.mark.parametrize("row", tokens.NAMED, ids=[row[0] for row in tokens.NAMED])
@pytest.mark.parametrize("template", ['{}_KEY="{}"', "{}.value: {}", "{} = {}"])
def test_finds_a_value_beside_its_issuers_name(row: tuple[str, str, str], template: str) -> None:
    _, names, form = row
    value = vectors.from_form(form.encode(), 6)
    text = template.format(names.split("|")[0], value)
    assert (Level.RESTRICTED, frozenset({Tag.SECRET})) in _tags(text), text


def test_there_are_more_than_150_kinds_of_secrets() -> None:
    kinds = {rule.kind for rule in (*secrets.RULES, *tokens.RULES)}
    assert len(kinds) >= 150


@pytest.mark.parametrize(
    "text",
    [
        "commit dd703db3280e59f722493741e69ec5cf4f96cdc3",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        'integrity="sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC"',
        "request_id=08ead908-dc5c-4d5d-a063-396f23e06356",
        "cloudflare: see https://developers.cloudflare.com/workers/wrangler/configuration/",
        "datadog = require('datadog-metrics-client-node-library')",
        "heroku: the quick brown fox jumps over the lazy dog",
        "re_exported_names_of_the_module",
        "sm_pat_your_token_here",
        "ck_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "token = getAuthenticationTokenFromStorage",
        "secret_name: projects/my-project/secrets/my-secret/versions/latest",
        "key: arn:aws:kms:eu-west-1:111122223333:key",
        "public_key: AAAAC3NzaC1lZDI1NTE5",
        "primary_key = user_account_identifier_v2",
        "etag: W/5d8c72a5edda8d6a5f4b1c8e4f0f7d2a",
    ],
)
def test_passes_hashes_identifiers_and_code(text: str) -> None:
    assert _tags(text) == []
