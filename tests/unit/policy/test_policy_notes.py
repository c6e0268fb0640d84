from __future__ import annotations

import pytest

from gateway.policy.compile import compile_bundle
from gateway.policy.notes import notes
from tests.fakes.policy_pack import DESTINATIONS, MODELS, OUTPUT, RULES, pack

CASE = """\
cases:
  - name: sensitive stays
    facts: {tenant: demo, model: assistant, label: restricted}
    expect: {destinations: [private]}
"""
#: A pack about which there is nothing to say.
QUIET = {
    "routing": MODELS.replace("  embedder: {description: Vectors.}\n", "") + DESTINATIONS + RULES,
    "output": OUTPUT.replace("  strict: {rules: []}\n", ""),
}
CLOSED = "  - {id: closed, labels: public..restricted, deny: Closed.}\n"


def test_a_policy_in_which_everything_is_used_has_no_note() -> None:
    assert notes(compile_bundle(pack(**QUIET) | {"cases/a.yaml": CASE})) == ()


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("rules:\n", "rules:\n" + CLOSED, "rule sensitive permits nothing: closed denies all its requests"),
        (
            "id: ordinary\n",
            "id: ordinary\n    models: [more]\n",
            "rule ordinary permits nothing: none of its destinations serves one of its models",
        ),
        (
            "[hosted, private]",
            "[private, hosted]",
            "rule ordinary falls back from a private destination to a hosted one",
        ),
        ("[hosted, private]", "[private]", "destination hosted is named by no rule"),
        ("public..internal", "public..public", "tenant demo is permitted nothing at internal"),
        (
            'version: "1"\n',
            'version: "1"\nattributes: {purpose: {values: [a]}}\n',
            "attribute purpose is asked by no rule",
        ),
    ],
)
def test_says_what_does_nothing(old: str, new: str, note: str) -> None:
    changed = QUIET["routing"]
    if "more" in new:
        changed = changed.replace("models:\n", "models:\n  more: {description: More.}\n", 1)
    assert old in changed
    texts = QUIET | {"routing": changed.replace(old, new, 1)}
    found = notes(compile_bundle(pack(**texts) | {"cases/a.yaml": CASE}))
    assert note in found


def test_says_which_tenant_gets_nothing() -> None:
    rules = "rules:\n  - {id: r, labels: public..restricted, tenants: [acme], destinations: [private]}\n"
    assert "tenant demo is permitted nothing" in notes(compile_bundle(pack(rules)))


def test_says_which_model_and_profile_nobody_uses_and_that_there_are_no_cases() -> None:
    found = notes(compile_bundle(pack()))
    assert "model embedder is served by no destination of a rule" in found
    assert "output profile strict is used by no rule" in found
    assert found[-1].startswith("there are no cases")
