from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.domain.decision import Denial, Permit
from gateway.domain.label import UNKNOWN, Level, Tag
from gateway.policy.compile import compile_bundle
from gateway.policy.compiled import CompiledPolicy, Memory
from gateway.policy.evaluate import evaluate, private_only, servable_models, warm
from tests.fakes.policy_pack import ALL, DESTINATIONS, MODELS, RULES, facts, pack


def policy(*rules: str, after: str = RULES) -> CompiledPolicy:
    """The usual rules behind the given ones."""
    added = "".join(f"  - {{{rule}}}\n" for rule in rules)
    return compile_bundle(pack(after.replace("rules:\n", "rules:\n" + added, 1)))


def permitted(decision: Permit | Denial) -> list[str]:
    assert isinstance(decision, Permit), decision
    return [place.name for place in decision.destinations]


def denied(decision: Permit | Denial) -> Denial:
    assert isinstance(decision, Denial), decision
    return decision


@pytest.mark.parametrize("level", [Level.CONFIDENTIAL, Level.RESTRICTED])
def test_sensitive_request_gets_only_the_private_place(level: Level) -> None:
    assert permitted(evaluate(policy(), facts(level), ALL)) == ["private"]


@pytest.mark.parametrize("level", [Level.PUBLIC, Level.INTERNAL])
def test_ordinary_request_gets_places_in_the_rules_order(level: Level) -> None:
    assert permitted(evaluate(policy(), facts(level), ALL)) == ["hosted", "private"]


def test_permit_names_label_rule_policy_and_model() -> None:
    compiled = policy()
    decision = evaluate(compiled, facts(Level.INTERNAL, tags=frozenset({Tag.FIN}), model="fast"), ALL)
    assert isinstance(decision, Permit)
    assert decision.rule_ids == ("ordinary",)
    assert (decision.policy_id, decision.policy_version) == ("test", "1")
    assert decision.policy_sha256 == compiled.sha256
    assert decision.label.tags == {Tag.FIN}
    assert [place.model for place in decision.destinations] == ["small", "moe"]


def test_permit_carries_the_rules_obligations() -> None:
    more = "obligations: {output_profile: strict, max_output_tokens: 64}"
    decision = evaluate(
        policy(f"id: a, labels: public..public, destinations: [hosted], {more}"), facts(), ALL
    )
    assert isinstance(decision, Permit)
    assert (decision.obligations.output_profile, decision.obligations.max_output_tokens) == ("strict", 64)


@pytest.mark.parametrize("place", ["before", "behind"])
def test_denial_beats_permit_wherever_it_stands(place: str) -> None:
    denial = "id: no-acme, labels: public..restricted, tenants: [acme], deny: Not for acme."
    compiled = policy(denial) if place == "before" else compile_bundle(pack(RULES + f"  - {{{denial}}}\n"))
    refused = denied(evaluate(compiled, facts(tenant="acme"), ALL))
    assert (refused.code, refused.message, refused.rule_ids) == (
        "denied-by-rule",
        "Not for acme.",
        ("no-acme",),
    )
    assert refused.status == 403
    assert permitted(evaluate(compiled, facts(tenant="demo"), ALL)) == ["hosted", "private"]


def test_first_permit_that_matches_decides() -> None:
    compiled = policy(
        "id: a, labels: public..internal, when: prompt_tokens > 100, destinations: [private]",
        "id: b, labels: public..internal, when: prompt_tokens > 50, destinations: [hosted]",
    )
    assert permitted(evaluate(compiled, facts(prompt_tokens=101), ALL)) == ["private"]
    assert permitted(evaluate(compiled, facts(prompt_tokens=51), ALL)) == ["hosted"]
    assert permitted(evaluate(compiled, facts(prompt_tokens=50), ALL)) == ["hosted", "private"]


def test_denial_without_condition_behind_conditional_ones_still_denies() -> None:
    compiled = policy(
        "id: a, labels: public..internal, when: prompt_tokens > 100, deny: Too long.",
        "id: b, labels: public..internal, models: [fast], deny: Fast is closed.",
    )
    assert denied(evaluate(compiled, facts(model="fast"), ALL)).rule_ids == ("b",)
    assert denied(evaluate(compiled, facts(model="fast", prompt_tokens=101), ALL)).rule_ids == ("a",)
    assert permitted(evaluate(compiled, facts(), ALL)) == ["hosted", "private"]


def test_denies_what_no_rule_permits() -> None:
    compiled = compile_bundle(pack("rules:\n  - {id: a, labels: public..public, destinations: [hosted]}\n"))
    refused = denied(evaluate(compiled, facts(Level.INTERNAL), ALL))
    assert (refused.code, refused.status, refused.rule_ids) == ("no-rule", 403, ())


def test_denies_everything_when_there_are_no_rules() -> None:
    compiled = compile_bundle(pack("rules: []\n"))
    for level in Level:
        assert denied(evaluate(compiled, facts(level), ALL)).code == "no-rule"


FAULTY = "prompt_tokens == 7 && 1 / (prompt_tokens - 7) > 0"


@pytest.mark.parametrize("effect", ["deny: Never.", "destinations: [private]"])
def test_error_in_a_rule_is_a_denial(effect: str) -> None:
    compiled = policy(f"id: faulty, labels: public..restricted, when: {FAULTY}, {effect}")
    refused = denied(evaluate(compiled, facts(prompt_tokens=7), ALL))
    assert (refused.code, refused.status) == ("rule-error", 403)
    assert permitted(evaluate(compiled, facts(prompt_tokens=8), ALL)) == ["hosted", "private"]


def test_denies_instead_of_raising_for_facts_of_another_shape() -> None:
    when = "\"prompt_tokens > 99 || roles == ['x']\""
    compiled = policy(f"id: a, labels: public..restricted, when: {when}, deny: Never.")
    assert denied(evaluate(compiled, facts(prompt_tokens=2**70), ALL)).code == "rule-error"
    assert denied(evaluate(compiled, facts(roles=frozenset({"\ud800"})), ALL)).code == "rule-error"


@pytest.mark.parametrize(
    "model",
    ["", "Assistant", "assistant ", " assistant", "assistant\u200b", "\u0430ssistant", "ASSISTANT", "moe",
     "big", "assistant/../fast", "openai/assistant", "assistant\x00", "a" * 100_000],
)  # fmt: skip
def test_unknown_model_is_not_found_and_never_normalised(model: str) -> None:
    refused = denied(evaluate(policy(), facts(model=model), ALL))
    assert (refused.code, refused.status, refused.param) == ("model-not-found", 404, "model")
    assert model == "" or model not in refused.message


@pytest.mark.parametrize("tenant", ["", "Demo", "demo ", "stranger"])
def test_unknown_tenant_is_denied(tenant: str) -> None:
    refused = denied(evaluate(policy(), facts(tenant=tenant), ALL))
    assert (refused.code, refused.status) == ("unknown-tenant", 403)


def test_leaves_out_places_that_this_deployment_does_not_have() -> None:
    assert permitted(evaluate(policy(), facts(), frozenset({"private"}))) == ["private"]
    assert permitted(evaluate(policy(), facts(), frozenset({"hosted"}))) == ["hosted"]


def test_compares_the_clearance_again_even_when_the_compiler_were_wrong() -> None:
    compiled = policy()
    ordinary = compiled.rules[1]
    unsound = replace(compiled, rules=(replace(ordinary, highest=Level.RESTRICTED),), memory=Memory())
    assert permitted(evaluate(unsound, facts(Level.RESTRICTED), ALL)) == ["private"]
    assert denied(evaluate(unsound, facts(Level.RESTRICTED), frozenset({"hosted"}))).code == "no-destination"


@pytest.mark.parametrize("configured", [frozenset[str](), frozenset({"hosted"}), frozenset({"elsewhere"})])
def test_sensitive_request_without_its_place_goes_nowhere(configured: frozenset[str]) -> None:
    refused = denied(evaluate(policy(), facts(Level.RESTRICTED), configured))
    assert (refused.code, refused.status, refused.rule_ids) == ("no-destination", 403, ("sensitive",))
    assert "ask an administrator" in refused.message


def test_model_that_no_place_serves_has_no_destination() -> None:
    assert denied(evaluate(policy(), facts(model="embedder"), ALL)).code == "no-destination"


def test_extension_field_leaves_out_places_that_do_not_take_it() -> None:
    assert permitted(evaluate(policy(), facts(extensions=frozenset({"top_k"})), ALL)) == ["private"]


def test_field_that_no_place_takes_is_named() -> None:
    asked = facts(extensions=frozenset({"top_k", "zeta"}))
    refused = denied(evaluate(policy(), asked, ALL))
    assert (refused.code, refused.status, refused.param) == ("unsupported-field", 400, "zeta")
    only_hosted = denied(evaluate(policy(), facts(extensions=frozenset({"top_k"})), frozenset({"hosted"})))
    assert only_hosted.param == "top_k"


def test_fields_that_only_different_places_take_are_refused_with_one_that_the_first_lacks() -> None:
    text = MODELS + DESTINATIONS.replace("    retention", "    extensions: [tier]\n    retention") + RULES
    compiled = compile_bundle(pack(routing=text))
    refused = denied(evaluate(compiled, facts(extensions=frozenset({"top_k", "tier"})), ALL))
    assert (refused.code, refused.param) == ("unsupported-field", "top_k")


def test_only_places_that_serve_the_endpoint_are_permitted() -> None:
    asked = replace(facts(), endpoint="embeddings")
    refused = denied(evaluate(policy(), asked, ALL))
    assert (refused.status, refused.code, refused.param) == (400, "endpoint-not-served", "model")
    text = (
        MODELS + DESTINATIONS.replace("    retention", "    operations: [embeddings]\n    retention") + RULES
    )
    compiled = compile_bundle(pack(routing=text))
    assert permitted(evaluate(compiled, asked, ALL)) == ["hosted"]
    assert permitted(evaluate(compiled, facts(), ALL)) == ["private"]
    assert denied(evaluate(compiled, replace(facts(), endpoint="audio"), ALL)).code == "endpoint-not-served"


def test_a_place_whose_format_cannot_say_the_request_is_left_out() -> None:
    assert permitted(evaluate(policy(), replace(facts(), unsaid=(("openai", "seed"),)), ALL)) == ["private"]
    mute = denied(evaluate(policy(), replace(facts(), unsaid=(("openai", "seed"), ("vllm", "n"))), ALL))
    assert (mute.status, mute.code) == (400, "unsupported-field")
    assert mute.param in {"seed", "n"}
    assert f"`{mute.param}`" in mute.message


def test_private_only_drops_hosted_places() -> None:
    both = evaluate(policy(), facts(), ALL)
    hosted = evaluate(policy(), facts(), frozenset({"hosted"}))
    private = evaluate(policy(), facts(Level.RESTRICTED), ALL)
    assert isinstance(both, Permit)
    assert isinstance(hosted, Permit)
    assert isinstance(private, Permit)
    rest = private_only(both)
    assert rest is not None
    assert [place.name for place in rest.destinations] == ["private"]
    assert (rest.label, rest.rule_ids, rest.policy_sha256) == (both.label, both.rule_ids, both.policy_sha256)
    assert private_only(hosted) is None
    assert private_only(private) is private


def test_lists_models_that_a_tenant_could_be_given() -> None:
    rule = "{id: a, labels: public..public, models: [fast], tenants: [acme], destinations: [hosted]}"
    compiled = compile_bundle(pack(f"rules:\n  - {rule}\n"))
    assert servable_models(policy(), "demo", ALL) == ("assistant", "fast")
    assert servable_models(compiled, "acme", ALL) == ("fast",)
    assert servable_models(compiled, "acme", frozenset({"private"})) == ()
    assert servable_models(compiled, "demo", ALL) == ()
    assert servable_models(policy(), "stranger", ALL) == ()


def test_warming_changes_no_decision() -> None:
    cold, warmed = policy(), policy()
    warm(warmed)
    for level in Level:
        for model in ("assistant", "fast", "embedder", "other"):
            asked = facts(level, model=model)
            assert evaluate(cold, asked, ALL) == evaluate(warmed, asked, ALL)


def test_floor_of_an_unknown_tenant_is_the_highest() -> None:
    assert policy().floor("acme").level is Level.INTERNAL
    assert policy().floor("stranger").level is UNKNOWN.level


VARIANTS = DESTINATIONS.replace(
    "{assistant: big, fast: small}", "{assistant: {speed: big, throughput: slow}, fast: small}"
)


@pytest.mark.parametrize(
    ("workload", "obligation", "model"),
    [
        ("interactive", "", "big"),
        ("batch", "", "slow"),
        ("interactive", ", obligations: {variant: throughput}", "slow"),
        ("batch", ", obligations: {variant: speed}", "big"),
    ],
)
def test_workload_class_chooses_the_variant_and_an_obligation_overrides_it(
    workload: str, obligation: str, model: str
) -> None:
    rule = (
        "rules:\n  - {id: r, labels: public..internal, models: [assistant], "
        f"destinations: [hosted]{obligation}}}\n"
    )
    compiled = compile_bundle(pack(routing=MODELS + VARIANTS + rule))
    decision = evaluate(compiled, replace(facts(), workload=workload), ALL)
    assert isinstance(decision, Permit)
    assert [place.model for place in decision.destinations] == [model]


def test_a_model_without_variants_serves_batches_too() -> None:
    assert permitted(evaluate(policy(), replace(facts(), workload="batch"), ALL)) == ["hosted", "private"]


@pytest.mark.parametrize(
    "obligation",
    ["{regions: [us, home]}", "{zero_retention: true}", "{regions: [home, us], zero_retention: true}"],
)
def test_obligations_that_every_destination_honours_stand_in_the_permit(obligation: str) -> None:
    places = DESTINATIONS.replace('"30 days."', '"Nothing."\n    zero_retention: true')
    rule = (
        "rules:\n  - {id: r, labels: public..internal, destinations: [hosted, private], "
        f"obligations: {obligation}}}\n"
    )
    decision = evaluate(compile_bundle(pack(routing=MODELS + places + rule)), facts(), ALL)
    assert permitted(decision) == ["hosted", "private"]
    assert isinstance(decision, Permit)
    assert decision.obligations.zero_retention == ("zero" in obligation)
    assert decision.obligations.regions == (
        frozenset({"us", "home"}) if "regions" in obligation else frozenset()
    )


def test_a_place_that_does_not_honour_an_obligation_is_no_candidate_even_if_the_compiler_erred() -> None:
    sound = policy()
    wanted = replace(sound.rules[1].obligations, regions=frozenset({"home"}), zero_retention=True)
    erred = replace(
        sound, rules=(sound.rules[0], replace(sound.rules[1], obligations=wanted)), memory=Memory()
    )
    assert permitted(evaluate(erred, facts(), ALL)) == ["private"]


ATTRIBUTES = "attributes: {cost_centre: {values: [a1]}, purpose: {values: [audit, sales]}}\n"


def test_a_declared_attribute_can_decide() -> None:
    rule = "  - {id: no, labels: public..restricted, when: attributes.purpose == 'sales', deny: No sales.}\n"
    compiled = compile_bundle(pack(routing=ATTRIBUTES + MODELS + DESTINATIONS + RULES + rule))
    assert denied(evaluate(compiled, replace(facts(), attributes=(("purpose", "sales"),)), ALL)).rule_ids == (
        "no",
    )
    assert permitted(evaluate(compiled, replace(facts(), attributes=(("purpose", "audit"),)), ALL))
    assert permitted(evaluate(compiled, facts(), ALL))


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ((("purpose", "Audit"),), "x-tidegate-attribute-purpose"),
        ((("purpos", "audit"),), "x-tidegate-attribute-purpos"),
        ((("cost_centre", "audit"),), "x-tidegate-attribute-cost-centre"),
        ((("purpose", ""),), "x-tidegate-attribute-purpose"),
    ],
)
def test_an_attribute_that_is_not_declared_is_refused(sent: tuple[tuple[str, str], ...], param: str) -> None:
    compiled = compile_bundle(pack(routing=ATTRIBUTES + MODELS + DESTINATIONS + RULES))
    denial = denied(evaluate(compiled, replace(facts(), attributes=sent), ALL))
    assert (denial.code, denial.status, denial.param) == ("invalid-attribute", 400, param)
