# ruff: noqa: E501  (a table of broken files reads best with one row a line)
from __future__ import annotations

import pytest

from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.policy.compile import compile_bundle
from tests.fakes.policy_pack import DESTINATIONS, DETECTORS, LIMITS, MODELS, OUTPUT, RULES, pack


def refusal(files: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        compile_bundle(files)
    return str(caught.value)


#: (file, text to replace, replacement, place and path, expected, found)
BROKEN = [
    ("routing", "id: test\n", "", "1:1: id", "a value", "nothing"),
    ("routing", 'version: "1"', "version: 1", "2:10: version", "text (put it in quotes)", "1"),
    ("routing", "models:\n", "modles:\n", "3:1: modles", "a known key (did you mean models?)", '"modles"'),
    ("routing", "id: test", "id: &a test", "1:5", "no anchor", '&"a"'),
    ("routing", "id: test", "id: !!python/name:os.system test", "1:5", "no tag", '"tag:yaml.org,2002:python'),
    ("routing", "  fast:", "  assistant:", "5:3", "each key once", '"assistant" again (first at line 4)'),
    ("routing", "kind: vllm", "kind: vlm", "9:11: destinations.private.kind", "one of openai, vllm, anthropic (did", '"vlm"'),
    ("routing", "clearance: internal", "clearance: secret", "18:16: destinations.hosted.clearance",
     "one of public, internal, confidential, restricted", '"secret"'),
    ("routing", "hosted: true", "hosted: yes", "19:13: destinations.hosted.hosted", "true or false", '"yes"'),
    ("routing", "    region: us\n", "", "17:5: destinations.hosted.region", "a value", "nothing"),
    ("routing", '    retention: "30 days."\n', "", "17:5: destinations.hosted", "a retention statement", "none"),
    ("routing", "[api.example.com]", "[]", "22:12: destinations.hosted.hosts", "at least one entry", "an empty"),
    ("routing", "[api.example.com]", "['https://api.example.com']", "22:13: destinations.hosted.hosts[0]",
     "a host name or address without scheme", '"https://api.example.com"'),
    ("routing", "[api.example.com]", "[API.example.com]", "22:13: destinations.hosted.hosts[0]",
     "a host name in lowercase", '"API.example.com"'),
    ("routing", "fast: small", "quick: small", "23:30: destinations.hosted.models.quick", "a known key", '"quick"'),
    ("routing", "{assistant: big, fast: small}", "{}", "23:13: destinations.hosted.models",
     "at least one logical model", "none"),
    ("routing", "id: ordinary", "id: sensitive", "28:9: rules[1].id", "each rule id once", '"sensitive" again'),
    ("routing", "public..internal", "restricted..public", "29:13: rules[1].labels",
     "a range such as public..internal", '"restricted..public"'),
    ("routing", "public..internal", "public-internal", "29:13: rules[1].labels",
     "a range such as public..internal", '"public-internal"'),
    ("routing", "public..internal", "public..secret", "29:13: rules[1].labels",
     "a range such as public..internal", '"public..secret"'),
    ("routing", "public..internal", "public..confidential", "30:20: rules[1].destinations[0]",
     "a clearance of at least confidential, because the rule is for public..confidential",
     "hosted with clearance internal"),
    ("routing", "destinations: [private]\n", "destinations: [private, hosted]\n", "27:29: rules[0].destinations[1]",
     "a clearance of at least restricted", "hosted with clearance internal"),
    ("routing", "[hosted, private]", "[hosted, privat]", "30:28: rules[1].destinations[1]",
     "a destination of this file (did you mean private?)", '"privat"'),
    ("routing", "[hosted, private]", "[hosted, hosted]", "30:28: rules[1].destinations[1]", "each entry once",
     '"hosted" again'),
    ("routing", "    destinations: [hosted, private]\n", "", "28:5: rules[1]", "either destinations or deny", "neither"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    deny: Not here.\n", "28:5: rules[1]",
     "either destinations or deny", "both"),
    ("routing", "    destinations: [hosted, private]\n", "    deny: No.\n    obligations: {}\n", "31:18: rules[1].obl",
     "no obligations on a rule that denies", "a mapping"),
    ("routing", "    destinations: [hosted, private]\n", "    deny: true\n", "30:11: rules[1].deny", "text", "true"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    models: [asistant]\n", "31:14: rules[1].models[0]",
     "a logical model of this file (did you mean assistant?)", '"asistant"'),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    tenants: [acne]\n", "31:15: rules[1].tenants[0]",
     "a tenant of limits.yaml (did you mean acme?)", '"acne"'),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    when: tenat == 'acme'\n", "31:11: rules[1].when",
     "a CEL condition", "undeclared reference to 'tenat'"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    when: level == 1 && tags == 2\n",
     "31:30: rules[1].when", "a CEL condition", "no matching overload for '_==_'"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    when: 'level +'\n", "31:19: rules[1].when",
     "a CEL condition", "Syntax error"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    when: |\n      level == 1 &&\n      levle == 2\n",
     "33:7: rules[1].when", "a CEL condition", "undeclared reference to 'levle'"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    when: >\n      level == 1 &&\n      levle == 2\n",
     "31:11: rules[1].when", "a CEL condition", "undeclared reference to 'levle' (line 1, column 15 of the"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    when: level\n", "31:11: rules[1].when",
     "a condition that is true or false", "one of type int"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {output_profile: strct}\n",
     "31:35: rules[1].obligations.output_profile", "a profile of output.yaml (did you mean strict?)", '"strct"'),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {mask: all}\n",
     "31:25: rules[1].obligations.mask", "no mask, because prompts cannot be masked yet", '"all"'),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {audit_level: none}\n",
     "31:32: rules[1].obligations.audit_level", "audit level metadata", '"none"'),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {max_output_tokens: 0}\n",
     "31:38: rules[1].obligations.max_output_tokens", "an integer from 1", "0"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n  - id: late\n    labels: public..public\n"
     "    destinations: [private]\n", "31:5: rules[2]", "a rule that can be reached", "late below ordinary"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {approval_required: yes}\n",
     "31:38: rules[1].obligations.approval_required", "true or false", '"yes"'),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {approver_role: boss}\n",
     "31:34: rules[1].obligations.approver_role", "approval_required: true beside it", '"boss"'),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {approval_required: true, approver_role: a b}\n",
     "31:59: rules[1].obligations.approver_role", "a name of letters", '"a b"'),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {regions: [us]}\n",
     "31:28: rules[1].obligations.regions", "a region of every destination of the rule; private is in home", "us"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {regions: []}\n",
     "31:28: rules[1].obligations.regions", "at least one entry", "an empty list"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {zero_retention: true}\n",
     "31:35: rules[1].obligations.zero_retention", "destinations that keep nothing; hosted does not state", "true"),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {zero_retention: no}\n",
     "31:35: rules[1].obligations.zero_retention", "true or false", '"no"'),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {variant: throughput}\n",
     "31:28: rules[1].obligations.variant", "destinations with both variants; hosted has only one of assistant",
     '"throughput"'),
    ("routing", "[hosted, private]\n", "[hosted, private]\n    obligations: {variant: fast}\n",
     "31:28: rules[1].obligations.variant", "one of speed, throughput", '"fast"'),
    ("routing", "[hosted, private]\n", "[hosted, private, hosted]\n", "30:37: rules[1].destinations[2]",
     "each entry once", '"hosted" again'),
    ("routing", "{assistant: moe, ", "{assistant: {speed: moe}, ", "14:25: destinations.private.models.assistant.throughput",
     "a value", "nothing"),
    ("routing", "{assistant: moe, ", "{assistant: {speed: moe, quality: x}, ",
     "14:38: destinations.private.models.assistant.quality", "a known key", '"quality"'),
    ("routing", '"30 days."', '"30 days."\n    zero_retention: 0', "22:21: destinations.hosted.zero_retention",
     "true or false", "0"),
    ("routing", 'version: "1"\n', 'version: "1"\nrevision: -1\n', "3:11: revision", "an integer from 0", "-1"),
    ("routing", 'version: "1"\n', 'version: "1"\nrevision: "7"\n', "3:11: revision", "an integer from 0", '"7"'),
    ("routing", 'version: "1"\n', 'version: "1"\nattributes: {Purpose: {values: [a]}}\n',
     "3:23: attributes.Purpose", "an attribute name of a-z, 0-9 and _", '"Purpose"'),
    ("routing", 'version: "1"\n', 'version: "1"\nattributes: {purpose: {values: []}}\n',
     "3:32: attributes.purpose.values", "at least one entry", "an empty list"),
    ("routing", 'version: "1"\n', 'version: "1"\nattributes: {purpose: [a]}\n', "3:23: attributes.purpose",
     "a mapping", "a list"),
    ("routing", "[private]\n", "[private]\n    when: attributes.purpose == 'x'\n", "28:21: rules[0].when",
     "a CEL condition", "undeclared reference to 'attributes.purpose'"),
    ("routing", "[private]\n", "[private]\n    when: hour == '9'\n", "28:16: rules[0].when", "a CEL condition",
     "no matching overload"),
    ("limits", "tokens_per_minute: 1000", 'tokens_per_minute: "10k"', "3:69: tenants.demo.tokens_per_minute",
     "an integer from 1 to 1000000000", '"10k"'),
    ("limits", "concurrency: 2}\n  acme", "concurrency: 0}\n  acme", "3:88: tenants.demo.concurrency",
     "an integer from 1", "0"),
    ("limits", ", concurrency: 2}\n  acme", "}\n  acme", "3:9: tenants.demo.concurrency", "a value", "nothing"),
    ("limits", "floor: internal", "floor: none", "4:17: tenants.acme.floor", "one of public", '"none"'),
    ("limits", "tenants:", "default: {concurrency: 5}\ntenants:", "2:10: default.requests_per_minute", "a value",
     "nothing"),
    ("limits", "tenants:", "default: {requests_per_minute: unlimited}\ntenants:",
     "2:32: default.requests_per_minute", "an integer from 1", '"unlimited"'),
    ("output", "default: {}", "usual: {}", "3:3: profiles", "a profile named default", "none"),
    ("output", "default: {}", "default: []", "3:12: profiles.default", "a mapping", "a list"),
    ("detectors", "patterns: []", "patterns: [{name: x}]", "3:12: patterns[0].level",
     "a value", "nothing"),
    ("detectors", "base_level: internal\n", "", "1:1: base_level", "a value", "nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "place", "expected", "found"), BROKEN)
def test_refuses_broken_file_and_says_where(
    file: str, old: str, new: str, place: str, expected: str, found: str
) -> None:
    files = pack()
    text = files[f"{file}.yaml"]
    assert old in text
    files[f"{file}.yaml"] = text.replace(old, new, 1)
    message = refusal(files)
    assert message.startswith(f"{file}.yaml:{place}")
    wanted, _, seen = message.partition(", found ")
    assert f"expected {expected}" in wanted
    assert seen.startswith(found)


@pytest.mark.parametrize("name", ["routing", "limits", "output", "detectors"])
def test_refuses_bundle_without_one_of_its_files(name: str) -> None:
    files = pack()
    del files[f"{name}.yaml"]
    assert refusal(files) == f"{name}.yaml: expected this file in the policy folder, found nothing"


@pytest.mark.parametrize("name", ["routing.yml", "deny.yaml"])
def test_refuses_file_that_would_be_ignored(name: str) -> None:
    assert refusal(pack() | {name: RULES}).startswith(f"{name}: expected one of routing.yaml")


@pytest.mark.parametrize("section", ["models", "destinations", "tenants", "profiles"])
def test_refuses_empty_section(section: str) -> None:
    files = pack()
    for name, text in files.items():
        lines = text.splitlines(keepends=True)
        if f"{section}:\n" in lines:
            start = lines.index(f"{section}:\n")
            end = next((n for n in range(start + 1, len(lines)) if not lines[n].startswith(" ")), len(lines))
            files[name] = "".join([*lines[:start], f"{section}: {{}}\n", *lines[end:]])
    assert f"{section}: expected " in refusal(files)


def test_compiles_a_sound_bundle_to_its_values() -> None:
    policy = compile_bundle(pack())
    assert (policy.id, policy.version, policy.base_level) == ("test", "1", Level.INTERNAL)
    assert list(policy.models) == ["assistant", "fast", "embedder"]
    private = policy.destinations["private"].models["assistant"]
    assert (private.model, private.clearance, private.hosted) == ("moe", Level.RESTRICTED, False)
    assert private.extensions == frozenset({"top_k", "min_p"})
    assert policy.destinations["hosted"].hosts == frozenset({"api.example.com"})
    assert policy.destinations["hosted"].retention == "30 days."
    assert policy.tenants["acme"].limits.requests_per_minute == 10
    assert [rule.id for rule in policy.rules] == ["sensitive", "ordinary"]
    assert policy.output_profiles == {"default": {}, "strict": {"rules": []}}
    assert policy.detectors == {"version": "1", "base_level": "internal", "patterns": []}


def test_fills_a_tenants_missing_limit_from_the_default() -> None:
    default = "default: {requests_per_minute: 1, tokens_per_minute: 2, concurrency: 3}\ntenants:"
    limits = LIMITS.replace("tenants:", default).replace(", concurrency: 2}\n  acme", "}\n  acme")
    policy = compile_bundle(pack(limits=limits))
    assert policy.tenants["demo"].limits.concurrency == 3
    assert policy.tenants["demo"].limits.requests_per_minute == 10
    assert policy.tenants["acme"].limits.concurrency == 2


def test_digest_names_the_meaning_and_not_the_layout() -> None:
    plain = compile_bundle(pack()).sha256
    commented = pack(limits="# a comment\n" + LIMITS.replace("floor: public, ", "floor:   public, "))
    assert compile_bundle(commented).sha256 == plain
    version, rest = LIMITS.split("\n", 1)
    assert compile_bundle(pack(limits=f"{rest}{version}\n")).sha256 == plain
    for name, text, old, new in (
        ("limits", LIMITS, "concurrency: 2", "concurrency: 3"),
        ("output", OUTPUT, "strict", "stricter"),
        ("detectors", DETECTORS, "internal", "public"),
        ("routing", MODELS + DESTINATIONS + RULES, "[hosted, private]", "[private, hosted]"),
    ):
        assert compile_bundle(pack(**{name: text.replace(old, new, 1)})).sha256 != plain


def test_cases_do_not_change_the_digest() -> None:
    cases = "cases:\n  - {name: x, facts: {tenant: demo, model: fast, label: public}, expect: {denied: no-rule}}\n"
    policy = compile_bundle(pack() | {"cases/a.yaml": cases})
    assert len(policy.cases) == 1
    assert policy.sha256 == compile_bundle(pack()).sha256


@pytest.mark.parametrize(
    "key", ["configured: [privat], expect: {denied: x}", "expect: {destinations: [privat]}"]
)
def test_refuses_case_about_an_unknown_destination(key: str) -> None:
    cases = f"cases:\n  - {{name: x, facts: {{tenant: demo, model: fast, label: public}}, {key}}}\n"
    message = refusal(pack() | {"cases/a.yaml": cases})
    assert message.startswith(
        "cases/a.yaml:2: expected a destination of routing.yaml (did you mean private?)"
    )
