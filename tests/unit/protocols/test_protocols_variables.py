"""Which values a variable takes, and what is said about those it does not take."""

from __future__ import annotations

import pytest

from gateway.errors import Unresolvable
from gateway.protocols.variables import (
    ChoiceVariable,
    IntegerVariable,
    StringVariable,
    Variable,
    definition_fault,
    take_values,
    value_fault,
)

WORD = StringVariable(max_characters=20)
LINES = StringVariable(max_characters=20, multiline=True)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (WORD, "x"),
        (WORD, "x" * 20),
        (WORD, "Zürich 東京 नमस्ते"),
        (WORD, "12\u00a0000\u202f€"),
        (WORD, "می\u200cخواهم"),
        (WORD, "{{other}}"),
        (WORD, 'a "quoted" {value}'),
        (WORD, "a < b and c > d | e"),
        (WORD, "an inst. of s>t"),
        (LINES, "a\n\tb"),
        (IntegerVariable(minimum=-5, maximum=5), "-5"),
        (IntegerVariable(minimum=-5, maximum=5), "0"),
        (ChoiceVariable(("German", "French")), "German"),
    ],
)
def test_takes_ordinary_values(variable: Variable, value: str) -> None:
    assert value_fault(variable, value) is None


@pytest.mark.parametrize(
    "value",
    [
        "<|im_end|>",
        "<|im_start|>system",
        "<|eot_id|>",
        "< |im_end| >",
        "<｜User｜>",
        "|>",
        "[INST]",
        "[/inst]",
        "<<SYS>>",
        "</s>",
        "<bos>",
        "<end_of_turn>",
        "[TOOL_CALLS]",
        "</tool_call>",
        "</think>",
    ],
)
def test_refuses_what_a_chat_template_reads_as_the_end_of_a_message(value: str) -> None:
    fault = value_fault(WORD, value)
    assert fault is not None
    assert fault[0] == "prompt-variable-invalid"


@pytest.mark.parametrize(
    "value",
    [
        *("a\nb", "a\tb", "a\x00b", "a\x1b[2J", "a\rb", "a\x7f", "a\x85b", "a\u2028b", "a\u202eb"),
        *("a\u2066b", "a\u200bb", "a\ufeffb", "a\ud800", "a\U000e0041", "a\ue000", ""),
    ],
)
def test_refuses_control_and_invisible_characters(value: str) -> None:
    fault = value_fault(WORD, value)
    assert fault is not None
    assert fault[0] == "prompt-variable-invalid"


def test_refuses_other_controls_even_where_lines_are_allowed() -> None:
    assert value_fault(LINES, "a\nb\rc") is not None


@pytest.mark.parametrize("value", ["", "6", "-6", "1.0", "+1", "01", "1 ", "٣", "1e3", "x", "9" * 500])
def test_refuses_what_is_not_a_whole_number_in_range(value: str) -> None:
    fault = value_fault(IntegerVariable(minimum=-5, maximum=5), value)
    assert fault is not None
    assert fault[0] == "prompt-variable-invalid"


@pytest.mark.parametrize("value", ["german", "German ", "", "Klingon"])
def test_refuses_what_is_not_one_of_the_choices(value: str) -> None:
    assert value_fault(ChoiceVariable(("German", "French")), value) == (
        "prompt-variable-invalid",
        "expected one of: German, French",
    )


def test_says_too_long_before_anything_else() -> None:
    assert value_fault(WORD, "\x00" * 21) == ("prompt-variable-too-long", "expected at most 20 characters")


@pytest.mark.parametrize(
    "variable",
    [
        StringVariable(max_characters=0),
        StringVariable(max_characters=8193),
        StringVariable(max_characters=3, default="four"),
        IntegerVariable(minimum=2, maximum=1),
        IntegerVariable(maximum=10**16),
        IntegerVariable(default="-1"),
        ChoiceVariable(()),
        ChoiceVariable(("a", "a")),
        ChoiceVariable(("<|im_end|>",)),
        ChoiceVariable(("a",), default="b"),
    ],
)
def test_refuses_a_definition_that_contradicts_itself(variable: Variable) -> None:
    assert definition_fault(variable) is not None


@pytest.mark.parametrize(
    "variable",
    [WORD, LINES, IntegerVariable(), ChoiceVariable(("a", "b"), default="b"), StringVariable(default="x")],
)
def test_takes_a_sound_definition(variable: Variable) -> None:
    assert definition_fault(variable) is None


def test_fills_in_defaults_and_keeps_given_values() -> None:
    variables: dict[str, Variable] = {"a": WORD, "b": IntegerVariable(default="3")}
    assert take_values(variables, (("a", "x"),)) == {"a": "x", "b": "3"}
    assert take_values(variables, (("b", "4"), ("a", "x"))) == {"a": "x", "b": "4"}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ((), "prompt-variable-missing"),
        ((("a", "x"), ("z", "secret-word")), "prompt-variable-unknown"),
        ((("a", "x"), ("a", "y")), "prompt-variable-invalid"),
        ((("a", "secret-word\n"),), "prompt-variable-invalid"),
        ((("a", "secret-word" * 9),), "prompt-variable-too-long"),
    ],
)
def test_refuses_values_that_do_not_fit_without_repeating_them(
    given: tuple[tuple[str, str], ...], code: str
) -> None:
    refusal = take_values({"a": WORD}, given)
    assert isinstance(refusal, Unresolvable)
    assert (refusal.code, refusal.param) == (code, "prompt.variables")
    assert "secret-word" not in refusal.message
