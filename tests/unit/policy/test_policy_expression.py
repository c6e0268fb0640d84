from __future__ import annotations

import time
from dataclasses import replace

import pytest

from gateway.domain.label import Level, Tag
from gateway.policy.expression import (
    MAX_CHARACTERS,
    VARIABLES,
    Condition,
    ConditionFailed,
    ConditionRefused,
    bind,
    compile_condition,
    ladder,
)
from tests.fakes.policy_pack import facts


@pytest.mark.parametrize(
    "source",
    [
        "level == 3 && label == 'restricted'",
        "'phi' in tags && tags.size() == 2",
        "tenant == 'demo' && model == 'assistant'",
        "roles[0] == 'analyst' || roles == []",
        "tools.exists(tool, tool.startsWith('bank.'))",
        "prompt_tokens + output_tokens > 100",
        "!stream && endpoint == 'chat.completions' && workload == 'interactive'",
        "prompt == '' && scopes == [] && extensions == ['top_k']",
        "tenant.matches('^d[a-z]+$') // a comment at the end",
    ],
)
def test_sees_every_declared_fact(source: str) -> None:
    asked = facts(
        Level.RESTRICTED,
        tags=frozenset({Tag.PHI, Tag.PII}),
        roles=frozenset({"analyst", "clerk"}),
        tools=frozenset({"bank.transfer"}),
        extensions=frozenset({"top_k"}),
    )
    padded = f"size(roles) == 0 || ({source}\n)"
    assert compile_condition(padded).holds(bind(asked)) is True


def test_declares_the_documented_variables() -> None:
    assert set(VARIABLES) == {
        "label", "level", "tags", "tenant", "roles", "scopes", "model", "endpoint", "stream", "tools",
        "prompt", "prompt_tokens", "output_tokens", "extensions", "workload", "client", "protocols", "region",
        "hour", "minute", "weekday",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "line", "column", "found"),
    [
        ("lable == 'x'", 1, 1, "undeclared reference to 'lable'"),
        ("level > 1 &&\n  tenat == 'x'", 2, 3, "undeclared reference to 'tenat'"),
        ("level > 'x'", 1, 7, "no matching overload"),
        ("level == 1.0", 1, 7, "no matching overload"),
        ("level >", 1, 8, "Syntax error"),
        ("true) || (true", 1, 5, "Syntax error"),
        ("label.level == 1", 1, 6, "cannot be the operand of a select"),
        ("now() > 1", 1, 4, "undeclared reference to 'now'"),
        ("level", 1, 1, "one of type int"),
        ("dyn(true)", 1, 1, "one of type dyn"),
        ("", 1, 1, "Syntax error"),
        ("x" * (MAX_CHARACTERS + 1), 1, 1, str(MAX_CHARACTERS + 1)),
        ("(" * 200 + "true" + ")" * 200, 1, 1, "recursion limit"),
        ("\ud800", 1, 1, ""),
        ("tags[0] == 'phi'", 1, 1, "the error"),
        ("100 / prompt_tokens > 1", 1, 1, "divide by zero"),
        ("tenant.matches('(a')", 1, 1, "the error"),
    ],
)
def test_refuses_condition_with_line_and_column(source: str, line: int, column: int, found: str) -> None:
    with pytest.raises(ConditionRefused) as caught:
        compile_condition(source)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert found in caught.value.found
    assert len(str(caught.value)) < 500


def test_raises_when_a_condition_cannot_be_evaluated() -> None:
    condition = compile_condition("prompt_tokens != 7 || 1 / (prompt_tokens - 7) > 0")
    assert condition.holds(bind(facts())) is True
    with pytest.raises(ConditionFailed):
        condition.holds(bind(facts(prompt_tokens=7)))


def test_stops_a_condition_that_loops_too_long() -> None:
    condition = compile_condition("tools.all(a, tools.all(b, tools.all(c, a + b + c != 'x')))")
    asked = bind(facts(tools=frozenset(f"tool{index}" for index in range(200))))
    start = time.process_time()
    with pytest.raises(ConditionFailed):
        condition.holds(asked)
    assert time.process_time() - start < 1.0


def test_regular_expression_is_linear_in_the_text() -> None:
    condition = compile_condition("tenant.matches('(a+)+$')")
    asked = bind(facts(tenant="a" * 50_000 + "!"))
    start = time.process_time()
    assert condition.holds(asked) is False
    assert time.process_time() - start < 1.0


def conditions(count: int) -> list[Condition]:
    return [compile_condition(f"prompt_tokens == {index} // rung {index}") for index in range(count)]


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 40])
def test_ladder_finds_the_first_condition_that_holds(count: int) -> None:
    steps = ladder(conditions(count))
    for index in range(count):
        assert steps.first(bind(facts(prompt_tokens=index))) == index
    assert steps.first(bind(facts(prompt_tokens=count))) == -1


def test_ladder_of_nothing_finds_nothing() -> None:
    assert ladder([]).first(bind(facts())) == -1


def test_ladder_raises_for_an_error_before_the_first_that_holds_and_not_for_one_behind_it() -> None:
    faulty = compile_condition("prompt_tokens != 7 ? false : 1 / (prompt_tokens - 7) > 0")
    always = compile_condition("true")
    with pytest.raises(ConditionFailed):
        ladder([faulty, always]).first(bind(facts(prompt_tokens=7)))
    assert ladder([always, faulty]).first(bind(facts(prompt_tokens=7))) == 0
    with pytest.raises(ConditionFailed):
        ladder([compile_condition("false"), faulty]).first(bind(facts(prompt_tokens=7)))


def test_ladder_takes_conditions_that_are_too_deep_to_be_joined() -> None:
    deep = "(" * 20 + "prompt_tokens == {}" + ")" * 20
    steps = ladder([compile_condition(deep.format(index)) for index in range(20)])
    assert [steps.first(bind(facts(prompt_tokens=index))) for index in range(21)] == [*range(20), -1]


def test_ladder_keeps_the_order_around_a_loop() -> None:
    loop = compile_condition("tools.exists(tool, tool == 'a')")
    steps = ladder([compile_condition("prompt_tokens == 1"), loop, compile_condition("prompt_tokens < 3")])
    tools = frozenset({"a"})
    assert steps.first(bind(facts(prompt_tokens=1, tools=tools))) == 0
    assert steps.first(bind(facts(prompt_tokens=2, tools=tools))) == 1
    assert steps.first(bind(facts(prompt_tokens=2))) == 2
    assert steps.first(bind(facts(prompt_tokens=3))) == -1


def test_ladder_gives_each_loop_its_own_budget() -> None:
    loop = "tools.exists(a, tools.exists(b, a + b == '{}'))"
    steps = ladder([compile_condition(loop.format(index)) for index in range(16)] + conditions(1))
    asked = facts(tools=frozenset(f"tool{index}" for index in range(60)), prompt_tokens=0)
    assert steps.first(bind(asked)) == 16


@pytest.mark.parametrize(
    ("at", "source"),
    [
        (0, "weekday == 4 && hour == 0 && minute == 0"),
        (1_796_124_599, "weekday == 2 && hour == 11 && minute == 29"),
        (1_796_601_599, "weekday == 7 && hour == 23 && minute == 59"),
        (1_796_601_600, "weekday == 1 && hour == 0 && minute == 0"),
    ],
)
def test_sees_the_time_of_the_request_in_utc(at: int, source: str) -> None:
    assert compile_condition(source).holds(bind(replace(facts(), at_seconds=at))) is True


def test_sees_declared_attributes_and_an_absent_one_as_empty() -> None:
    names = ("cost_centre", "purpose")
    condition = compile_condition("attributes.purpose == 'audit' && attributes.cost_centre == ''", names)
    sent = replace(facts(), attributes=(("purpose", "audit"),))
    assert condition.holds(bind(sent, names)) is True
    assert condition.holds(bind(facts(), names)) is False


@pytest.mark.parametrize("source", ["attributes.purpos == 'x'", "stream && attributes.purpos == 'x'"])
def test_refuses_an_attribute_that_is_not_declared(source: str) -> None:
    with pytest.raises(ConditionRefused, match=r"undeclared reference to 'attributes\.purpos'"):
        compile_condition(source, ("purpose",))


def test_sees_client_region_and_pinned_documents() -> None:
    asked = replace(facts(), client="app", region="eu", protocols=frozenset({"b@2.0.0", "a@1.0.0"}))
    source = "client == 'app' && region == 'eu' && protocols == ['a@1.0.0', 'b@2.0.0']"
    assert compile_condition(source).holds(bind(asked)) is True
