from __future__ import annotations

import pytest

from gateway.policy.compare import Answer, Kind, Tally, answer_of, compare_cases, differences, kind_of
from gateway.policy.compile import compile_bundle
from gateway.policy.evaluate import evaluate
from tests.fakes.policy_pack import ALL, LIMITS, RULES, facts, pack

CASES = """\
cases:
  - name: ordinary
    facts: {tenant: demo, model: assistant, label: public}
    expect: {destinations: [hosted, private]}
  - name: sensitive
    facts: {tenant: demo, model: assistant, label: restricted}
    expect: {destinations: [private]}
"""


def answer(*places: str, denied: str | None = None, rules: tuple[str, ...] = ("r",)) -> Answer:
    return Answer(places, denied, rules)


def attended(*places: str) -> Answer:
    return Answer(places, None, ("r",), needs_approval=True)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (answer("a", "b"), answer("a", "b"), Kind.SAME),
        (answer("a", "b"), answer("a", "b", rules=("s",)), Kind.RULE),
        (answer(denied="no-rule"), answer("a"), Kind.OPENED),
        (answer("a"), answer(denied="no-rule"), Kind.CLOSED),
        (answer("a"), answer("b"), Kind.WIDENED),
        (answer("a", "b"), answer("c"), Kind.WIDENED),
        (answer("a", "b"), answer("b"), Kind.NARROWED),
        (answer("a", "b"), answer("b", "a"), Kind.REORDERED),
        (answer(denied="no-rule"), answer(denied="no-destination"), Kind.CODE),
        (answer("a"), attended("a"), Kind.ATTENDED),
        (attended("a"), answer("a"), Kind.UNATTENDED),
        (attended("a"), attended("a"), Kind.SAME),
        (attended("a", "b"), answer("b"), Kind.UNATTENDED),
        (answer("a"), attended("b"), Kind.WIDENED),
        (answer(denied="no-rule"), attended("a"), Kind.OPENED),
        (attended("a"), answer(denied="no-rule"), Kind.CLOSED),
    ],
)
def test_names_how_two_answers_differ(old: Answer, new: Answer, kind: Kind) -> None:
    assert kind_of(old, new) is kind


def test_counts_changes_by_rule_tenant_and_destination_with_ids() -> None:
    tally = Tally()
    tally.add("req_1", "acme", answer("a", "b", rules=("x",)), answer("b", "a", rules=("y",)))
    tally.add("req_2", "acme", answer("a", rules=("x",)), answer("b", rules=("y",)))
    tally.add("req_3", "demo", answer("a"), answer("a"))
    tally.add("req_4", "demo", answer("a"), answer("a", rules=("other",)))
    assert (tally.compared_count, tally.rule_only_count, len(tally.changes)) == (4, 1, 2)
    assert tally.by_rule() == {"x -> y": ["req_1", "req_2"]}
    assert tally.by_tenant() == {"acme": ["req_1", "req_2"]}
    assert tally.by_destination() == {"+b": ["req_2"], "-a": ["req_2"], ">b": ["req_1"]}
    assert tally.by_kind() == {"reordered": ["req_1"], "widened": ["req_2"]}


def test_a_rule_that_wants_a_person_to_agree_is_another_answer() -> None:
    wants = "[hosted, private]\n    obligations: {approval_required: true}\n"
    policy = compile_bundle(pack(rules=RULES.replace("[hosted, private]\n", wants)))
    decided = answer_of(evaluate(policy, facts(), ALL))
    assert decided.words == "hosted, private after approval"
    tally = compare_cases(compile_bundle(pack(**{"cases/a": CASES})), policy)
    assert tally.by_kind() == {"attended": ["cases/a.yaml:2: ordinary"]}


def test_an_answer_is_the_decision_without_its_texts() -> None:
    policy = compile_bundle(pack())
    assert answer_of(evaluate(policy, facts(), ALL)) == answer("hosted", "private", rules=("ordinary",))
    denied = answer_of(evaluate(policy, facts(model="nothing"), ALL))
    assert (denied.words, denied.rule) == ("denial model-not-found", "(no rule)")


def test_cases_of_both_policies_are_decided_by_both_and_equal_ones_once() -> None:
    old = compile_bundle(pack() | {"cases/a.yaml": CASES})
    more = CASES.replace("label: public", "label: internal")
    new = compile_bundle(pack(RULES.replace("[hosted, private]", "[private]")) | {"cases/b.yaml": more})
    tally = compare_cases(old, new)
    assert tally.compared_count == 3
    assert [(each.subject, each.kind) for each in tally.changes] == [
        ("cases/b.yaml:2: ordinary", Kind.NARROWED),
        ("cases/a.yaml:2: ordinary", Kind.NARROWED),
    ]


def test_says_which_parts_of_the_files_differ() -> None:
    old = compile_bundle(pack())
    rules = RULES.replace("[hosted, private]", "[private]") + (
        "  - {id: last, labels: public..internal, when: stream, deny: No.}\n"
    )
    new = compile_bundle(
        pack(rules, limits=LIMITS.replace("requests_per_minute: 10", "requests_per_minute: 9", 1))
    )
    found = {each.part: (each.added, each.removed, each.changed) for each in differences(old, new)}
    assert found == {"tenants": ((), (), ("demo",)), "rules": (("last",), (), ("ordinary",))}


def test_the_same_condition_is_no_difference_and_another_order_is_one() -> None:
    first = "  - {id: one, labels: public..public, when: stream, destinations: [private]}\n"
    second = "  - {id: two, labels: public..public, when: '!stream', destinations: [private]}\n"
    old, same = (compile_bundle(pack("rules:\n" + first + second)) for _ in range(2))
    assert differences(old, same) == ()
    (found,) = differences(old, compile_bundle(pack("rules:\n" + second + first)))
    assert (found.part, found.changed) == ("rule order", ("two", "one"))
