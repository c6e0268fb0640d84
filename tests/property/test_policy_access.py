"""What must hold for every policy that compiles: clearance, monotony in the label, denials only narrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.decision import Denial, Facts, Permit
from gateway.domain.label import Label, Level, Tag
from gateway.errors import ConfigurationError
from gateway.policy.bundle import load_bundle
from gateway.policy.compile import compile_bundle
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.evaluate import candidates, evaluate, private_only
from gateway.policy.explain import explain
from tests.fakes.policy_pack import MODELS, pack

DEFAULT_PACK = load_bundle(Path(__file__).parents[2] / "policies")
WORDS = [level.word for level in Level]
PLACES = ("low", "middle", "high", "home")
CONDITIONS = (
    None, "level >= 1", "stream", "'pii' in tags", "prompt_tokens > 50",
    "roles.exists(role, role == 'clerk')",
    "prompt_tokens == 7 && 1 / (prompt_tokens - 7) > 0", "tenant == 'acme'", "extensions == []",
    "hour < 12 && weekday < 6", "attributes.purpose == 'audit'", "workload == 'batch'",
)  # fmt: skip


#: Every place honours the first three; only some honour the last.
OBLIGATIONS = (
    "",
    "",
    "",
    "{regions: [r, s]}",
    "{max_output_tokens: 5}",
    "{variant: throughput}",
    "{regions: [r]}",
)
ATTRIBUTES = "attributes: {purpose: {values: [audit, sales]}}\n"


@st.composite
def rule(draw: st.DrawFn, index: int, clearances: dict[str, int], *, denies: bool | None = None) -> str:
    low, high = sorted(draw(st.tuples(st.integers(0, 3), st.integers(0, 3))))
    lines = [f"  - id: r{index}", f"    labels: {WORDS[low]}..{WORDS[high]}"]
    condition = draw(st.sampled_from(CONDITIONS))
    if condition is not None:
        lines.append(f'    when: "{condition}"')
    for key, known in (("models", ("assistant", "fast")), ("tenants", ("demo", "acme"))):
        chosen = draw(st.lists(st.sampled_from(known), unique=True, max_size=2))
        if chosen:
            lines.append(f"    {key}: [{', '.join(chosen)}]")
    if denies if denies is not None else draw(st.integers(0, 3)) == 0:
        lines.append("    deny: Not here.")
    else:
        # Mostly places that the compiler takes, now and then any.
        cleared = [place for place, clearance in clearances.items() if clearance >= high]
        any_place = not cleared or draw(st.integers(0, 9)) == 0
        choice = st.sampled_from(PLACES if any_place else tuple(cleared))
        lines.append(f"    destinations: [{', '.join(draw(st.lists(choice, unique=True, min_size=1)))}]")
        wanted = draw(st.sampled_from(OBLIGATIONS))
        if wanted:
            lines.append(f"    obligations: {wanted}")
    return "\n".join(lines) + "\n"


@st.composite
def bundles(draw: st.DrawFn) -> dict[str, str]:
    clearances = {place: draw(st.integers(0, 3)) for place in PLACES}
    text = "destinations:\n"
    for place, clearance in clearances.items():
        hosted = "false" if place == "home" else "true"
        extensions = "top_k" if place in {"home", "low"} else ""
        text += (
            f"  {place}: {{kind: openai, clearance: {WORDS[clearance]}, hosted: {hosted}, "
            f"region: {'s' if place == 'low' else 'r'}, retention: none, hosts: [h], "
            f"models: {{assistant: {{speed: a, throughput: b}}, fast: {{speed: f, throughput: g}}}}, "
            f"extensions: [{extensions}]}}\n"
        )
    rules = "".join(draw(rule(index, clearances)) for index in range(draw(st.integers(1, 6))))
    return pack(routing=f"{ATTRIBUTES}{MODELS}{text}rules:\n{rules}")


facts = st.builds(
    Facts,
    tenant=st.sampled_from(["demo", "acme"]),
    roles=st.sampled_from([frozenset[str](), frozenset({"clerk"})]),
    scopes=st.just(frozenset[str]()),
    label=st.builds(
        Label, st.sampled_from(list(Level)), st.sampled_from([frozenset[Tag](), frozenset({Tag.PII})])
    ),
    model=st.sampled_from(["assistant", "fast", "assistant-fast", "embedder"]),
    endpoint=st.just("chat.completions"),
    stream=st.booleans(),
    tool_names=st.just(frozenset[str]()),
    prompt=st.none(),
    prompt_tokens=st.sampled_from([0, 7, 100]),
    output_tokens=st.just(1),
    extensions=st.sampled_from([frozenset[str](), frozenset({"top_k"})]),
    workload=st.sampled_from(["interactive", "batch"]),
    attributes=st.sampled_from([(), (), (("purpose", "audit"),), (("purpose", "other"),)]),
    at_seconds=st.sampled_from([0, 1_796_124_599, 1_796_601_600]),
)
configured = st.one_of(st.just(frozenset(PLACES)), st.sets(st.sampled_from(PLACES)).map(frozenset))


def everyone(asked: Facts) -> Iterator[Facts]:
    """The same request by each tenant, for each model, at each level: 24 of them."""
    for tenant in ("demo", "acme"):
        for model in ("assistant", "fast", "embedder"):
            for level in Level:
                yield replace(asked, tenant=tenant, model=model, label=Label(level, asked.label.tags))


def compiled(files: dict[str, str]) -> CompiledPolicy | None:
    """The policy, or None for one that the compiler refuses (over a clearance, unreachable)."""
    try:
        return compile_bundle(files)
    except ConfigurationError:
        return None


def places(decision: Permit | Denial) -> frozenset[str]:
    return (
        frozenset(place.name for place in decision.destinations)
        if isinstance(decision, Permit)
        else frozenset()
    )


@settings(max_examples=200, deadline=None)
@given(bundles(), facts, configured)
def test_every_place_of_a_permit_is_cleared_configured_and_asked_for(
    files: dict[str, str], asked: Facts, here: frozenset[str]
) -> None:
    policy = compiled(files)
    if policy is None:
        return
    for one in everyone(asked):
        decision = evaluate(policy, one, here)
        if not isinstance(decision, Permit):
            continue
        assert decision.label == one.label
        for place in decision.destinations:
            assert place.clearance >= one.label.level
            assert place.name in here
            assert one.extensions <= place.extensions
            variant = decision.obligations.variant or ("throughput" if one.workload == "batch" else "speed")
            assert place == policy.destinations[place.name].serving(one.model, variant)
            assert not decision.obligations.regions or place.region in decision.obligations.regions
        private = private_only(decision)
        assert (private is None) == all(place.hosted for place in decision.destinations)
        assert private is None or not any(place.hosted for place in private.destinations)


@settings(max_examples=200, deadline=None)
@given(bundles(), facts)
def test_explanation_agrees_with_decision_and_rules_with_clearances(
    files: dict[str, str], asked: Facts
) -> None:
    policy = compiled(files)
    if policy is None:
        return
    for rules in policy.rules:
        assert all(policy.destinations[name].clearance >= rules.highest for name in rules.destinations)
    for one in everyone(asked):
        explanation = explain(policy, one, frozenset(PLACES))
        assert explanation.decision == evaluate(policy, one, frozenset(PLACES))
        permitted = tuple(step.name for step in explanation.destinations if step.is_permitted)
        assert set(permitted) == places(explanation.decision)


@settings(max_examples=200, deadline=None)
@given(bundles(), rule(99, {}, denies=True), st.data(), facts, configured)
def test_adding_a_denial_never_widens_access(
    files: dict[str, str], denial: str, data: st.DataObject, asked: Facts, here: frozenset[str]
) -> None:
    narrower = dict(files)
    head, *rules = files["routing.yaml"].split("  - id: ")
    index = data.draw(st.integers(0, len(rules)))
    pieces = [f"  - id: {text}" for text in rules]
    narrower["routing.yaml"] = head + "".join([*pieces[:index], denial, *pieces[index:]])
    before, after = compiled(files), compiled(narrower)
    if before is None or after is None:
        return
    for one in everyone(asked):
        wide, narrow = evaluate(before, one, here), evaluate(after, one, here)
        assert places(narrow) <= places(wide)
        if isinstance(narrow, Permit):
            assert isinstance(wide, Permit)
            assert narrow.destinations == wide.destinations


@settings(max_examples=200, deadline=None)
@given(bundles(), facts, configured, st.sampled_from(list(Level)))
def test_raising_a_label_never_adds_a_place_to_what_a_rule_gives(
    files: dict[str, str], asked: Facts, here: frozenset[str], higher: Level
) -> None:
    policy = compiled(files)
    if policy is None:
        return
    raised = replace(asked, label=asked.label.join(Label(higher)))
    for one in policy.rules:
        assert set(candidates(policy, one, raised, here)) <= set(candidates(policy, one, asked, here))


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(4)), facts, configured, st.sampled_from(list(Level)))
def test_raising_a_label_never_adds_a_place_where_each_level_has_all_places_cleared_for_it(
    order: list[int], asked: Facts, here: frozenset[str], higher: Level
) -> None:
    text = "destinations:\n" + "".join(
        f"  {place}: {{kind: openai, clearance: {WORDS[index]}, hosted: true, region: r, retention: none, "
        "hosts: [h], models: {assistant: a, fast: f}}\n"
        for index, place in enumerate(PLACES)
    )
    rules = "".join(
        f"  - {{id: r{level}, labels: {WORDS[level]}..{WORDS[level]}, "
        f"destinations: [{', '.join(PLACES[level:])}]}}\n"
        for level in order
    )
    policy = compile_bundle(pack(routing=f"{MODELS}{text}rules:\n{rules}"))
    plain = replace(asked, extensions=frozenset())
    raised = replace(plain, label=asked.label.join(Label(higher)))
    assert places(evaluate(policy, raised, here)) <= places(evaluate(policy, plain, here))


@settings(max_examples=200, deadline=None)
@given(
    facts,
    st.sets(st.sampled_from(sorted(DEFAULT_PACK.destinations))).map(frozenset),
    st.sampled_from(list(Level)),
)
def test_raising_a_label_never_adds_a_place_in_the_default_pack(
    asked: Facts, here: frozenset[str], higher: Level
) -> None:
    raised = replace(asked, label=asked.label.join(Label(higher)))
    assert places(evaluate(DEFAULT_PACK, raised, here)) <= places(evaluate(DEFAULT_PACK, asked, here))
