from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from gateway.domain.decision import Facts
from gateway.domain.label import Level, Tag
from gateway.domain.record import Phase, RequestRecord
from gateway.evaluation.replay import compare_recorded, find, recorded, replay_records
from gateway.policy.compare import Kind
from gateway.policy.compile import compile_bundle
from tests.fakes.decided import activation, record_of, stored
from tests.fakes.policy_pack import ALL, DESTINATIONS, LIMITS, MODELS, RULES, facts, pack

POLICY = compile_bundle(pack())
ATTRIBUTES = "attributes: {purpose: {values: [audit, sales]}}\n"
FULL = replace(
    facts(
        Level.RESTRICTED,
        tags=frozenset({Tag.PII, Tag.FIN}),
        roles=frozenset({"clerk", "auditor"}),
        tools=frozenset({"accounts.read"}),
        extensions=frozenset({"top_k"}),
    ),
    scopes=frozenset({"chat"}),
    stream=True,
    prompt="summary@1.0.0",
    workload="batch",
    client="claims-app",
    attributes=(("purpose", "audit"),),
    region="eu",
    at_seconds=1_796_000_000,
    unsaid=(("anthropic", "seed"),),
)


def test_every_fact_but_the_pins_comes_back_from_the_record() -> None:
    policy = compile_bundle(pack(routing=ATTRIBUTES + MODELS + DESTINATIONS + RULES))
    (one,) = recorded(stored([record_of(policy, FULL, ALL, "req_1")]))
    assert one.facts == FULL
    assert one.answer.destinations == ("private",)
    assert one.answer.rule_ids == ("sensitive",)
    assert not one.is_degraded


def test_every_fact_of_a_request_has_its_place_in_the_record() -> None:
    empty = Facts(
        "", frozenset(), frozenset(), FULL.label, "", "", False, frozenset(), None, 0, 0, frozenset()
    )
    same = {name for name in Facts.__dataclass_fields__ if getattr(FULL, name) == getattr(empty, name)}
    # A new fact fails here until the test above carries it; `protocols` comes from the pins.
    assert same == {"label", "protocols"}


def test_the_same_policy_changes_nothing() -> None:
    asked = [facts(level, tenant=tenant) for level in Level for tenant in ("demo", "acme")]
    lines = stored(record_of(POLICY, each, ALL, f"req_{at}") for at, each in enumerate(asked))
    result = replay_records(lines, POLICY)
    assert (result.tally.compared_count, result.tally.changes, result.skipped) == (8, [], Counter())


def test_counts_what_a_candidate_changes_with_ids() -> None:
    lines = stored(
        [
            record_of(POLICY, facts(), ALL, "req_1"),
            record_of(POLICY, facts(Level.RESTRICTED), ALL, "req_2"),
            record_of(POLICY, facts(tenant="acme"), ALL, "req_3"),
        ]
    )
    candidate = compile_bundle(pack(RULES.replace("[hosted, private]", "[private]")))
    result = replay_records(lines, candidate)
    assert result.tally.by_tenant() == {"acme": ["req_3"], "demo": ["req_1"]}
    assert result.tally.by_destination() == {"-hosted": ["req_1", "req_3"]}
    assert result.tally.by_rule() == {"ordinary -> ordinary": ["req_1", "req_3"]}
    assert (result.first_utc, result.last_utc) == (
        "2026-12-01T09:00:00.000000Z",
        "2026-12-01T09:00:02.000000Z",
    )


def test_takes_only_the_period() -> None:
    lines = stored(record_of(POLICY, facts(), ALL, f"req_{at}") for at in range(5))
    result = replay_records(lines, POLICY, start="2026-12-01T09:00:01", end="2026-12-01T09:00:03")
    assert result.tally.compared_count == 2


def test_uses_the_destinations_that_the_log_names_and_new_ones_of_the_candidate() -> None:
    alone = frozenset({"private"})
    lines = stored([activation("private", "hosted private"), record_of(POLICY, facts(), alone, "req_1")])
    assert replay_records(lines, POLICY).tally.changes == []
    (change,) = replay_records(lines, POLICY, configured=ALL).tally.changes
    assert change.kind is Kind.WIDENED
    second = DESTINATIONS[DESTINATIONS.index("  private:") : DESTINATIONS.index("  hosted:\n")]
    new = DESTINATIONS + second.replace("  private:", "  second:")
    candidate = compile_bundle(
        pack(routing=MODELS + new + RULES.replace("[hosted, private]", "[hosted, second, private]"))
    )
    (change,) = replay_records(lines, candidate).tally.changes
    assert change.new.destinations == ("second", "private")


def test_a_higher_floor_of_the_candidate_shows() -> None:
    lines = stored([record_of(POLICY, facts(), ALL, "req_1")])
    candidate = compile_bundle(pack(limits=LIMITS.replace("floor: public", "floor: restricted")))
    (change,) = replay_records(lines, candidate).tally.changes
    assert (change.kind, change.new.rule_ids) == (Kind.NARROWED, ("sensitive",))


def test_a_degraded_request_is_compared_without_hosted_places() -> None:
    lines = stored([record_of(POLICY, facts(), frozenset({"private"}), "req_1", degraded=True)])
    assert replay_records(lines, POLICY).tally.changes == []
    hosted_only = compile_bundle(pack(RULES.replace("[hosted, private]", "[hosted]")))
    (change,) = replay_records(lines, hosted_only).tally.changes
    assert change.new.denied == "limits-unavailable"


def test_a_permit_that_was_refused_later_is_compared_as_a_permit() -> None:
    spent = replace(
        record_of(POLICY, facts(), ALL, "req_1"), phase=Phase.DENIED, reason_code="tokens-limit-exceeded"
    )
    assert replay_records(stored([spent]), POLICY).tally.changes == []


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (RequestRecord(Phase.DENIED, "req_1", "invalid-json", "chat.completions"), "not-decided"),
        (replace(record_of(POLICY, facts(), ALL, "req_1"), asked=None), "without-facts"),
    ],
)
def test_a_record_without_facts_is_counted_and_left_out(record: RequestRecord, reason: str) -> None:
    result = replay_records(stored([record]), POLICY)
    assert (result.tally.compared_count, result.skipped) == (0, Counter({reason: 1}))


def test_what_is_no_record_is_counted_and_left_out() -> None:
    good = stored([record_of(POLICY, facts(), ALL, "req_1")])[0]
    lines = [b"", b"{}", good[:-40], good.replace(b'"level":"public"', b'"level":"lowest"')]
    result = replay_records(lines, POLICY)
    assert (result.tally.compared_count, result.skipped) == (0, Counter({"unreadable": 4}))


def test_says_when_a_rule_asks_for_tools_that_the_record_does_not_name() -> None:
    lines = stored([record_of(POLICY, facts(), ALL, "req_1", other_tool_count=2)])
    assert replay_records(lines, POLICY).inexact == []
    rule = "  - {id: tools, labels: public..restricted, when: \"'x' in tools\", deny: No.}\n"
    assert replay_records(lines, compile_bundle(pack(RULES + rule))).inexact == ["req_1"]


def test_closing_records_are_not_read() -> None:
    end = RequestRecord(Phase.COMPLETED, "req_1", "ok", "chat.completions")
    lines = stored([record_of(POLICY, facts(), ALL, "req_1"), end])
    assert replay_records(lines, POLICY).tally.compared_count == 1


def test_finds_one_request() -> None:
    lines = stored(record_of(POLICY, facts(), ALL, f"req_{at}") for at in range(3))
    found = find(lines, "req_1")
    assert found is not None
    assert found.request_id == "req_1"
    assert find(lines, "req_9") is None


def test_compares_two_policies_whatever_the_log_says() -> None:
    lines = stored(
        [record_of(POLICY, facts(), ALL, "req_1"), record_of(POLICY, facts(Level.RESTRICTED), ALL, "r")]
    )
    stricter = compile_bundle(pack(RULES.replace("[hosted, private]", "[private]")))
    assert compare_recorded(lines, stricter, stricter).changes == []
    tally = compare_recorded(lines, stricter, POLICY)
    assert [(each.subject, each.kind) for each in tally.changes] == [("req_1", Kind.WIDENED)]
