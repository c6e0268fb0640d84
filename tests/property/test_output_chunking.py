"""Properties of the output filter: whole equals any split, no finding leaves in full, prose is not held."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.finding import Finding
from gateway.domain.label import Level
from gateway.domain.stream import Channel, Finish, TextDelta
from gateway.errors import OutputBlocked
from gateway.output.judge import Find
from gateway.output.rules import HOLD_CHARS, Action, KindRule, OutputProfile
from gateway.sensitivity.detectors import build_detectors
from tests.fakes.output_finder import cut, delta, find, new_filter, released

_DETECTORS = build_detectors()


def _detect(text: str) -> tuple[Finding, ...]:
    return _DETECTORS.find(text)


FINDERS = {"fake": find, "detectors": _detect}
each_finder = pytest.mark.parametrize("finder", FINDERS.values(), ids=FINDERS)

_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
#: Each is found by the detectors, and what of it may not leave.
SECRETS = [
    "4539 1488 0343 6467",
    "4539148803436467",
    "4539-1488-0343-6467",
    "４５３９\u200b1488\u00a00343 6467",
    "GB29 NWBK 6016 1331 9268 19",
    "GB29NWBK60161331926819",
    "gb29 nwbk 6016 1331 9268 19",
    "DE89 3704 0044 0532 0130 00",
    "536-22-8726",
    "943 476 5919",
    "alice.smith+x@firma.org",
    "bob (at) firma (dot) org",
    "+44 20 7946 0958",
    "(212) 736-5000",
    "AKIAQ4ZP7XWM2RT5VBN3",
    "ghp_2jDmt9qrnRBBtGaprBPhLERW0CbvaQqrpxCC",
    "sk-proj-IA3kGzLtr9MWixrZ19ksQv80sjCoOwwCYsnNQz0yWgII4MDe",
    "xoxb-159449933013-921715115002-1A2ufeV13dNNtMbe7ozHhNNb",
    "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCJ9.eyJzdWIiOiAiMzI3NzI1IiwgImFkbSI6IHRydWV9.5L2ug3oIaCfCh95aMwBwJ5Zb",
    "password: Wiesel!2207",
    "The password is Copper^Lantern58",
    "https://admin:Tr0ub4dor&3@db.firma.org/x",
    f"-----BEGIN RSA PRIVATE KEY-----\n{_LINE}\n{_LINE}\n-----END RSA PRIVATE KEY-----",
    "NDUzOTE0ODgwMzQzNjQ2Nw==",
]
PROSE = [
    "The tide comes in twice a day. ",
    "In 2024 there were 17 of them, 3.5 % more; ",
    "(see e.g. the U.S. office) ",
    "well-known, ",
    "GitHub and JavaScript: ",
    "Größe, 東京は晴れ。 ",
    "\U0001f600\ufe0f ok ",
    "a_b = c[3] + 0x1f; // max_tokens\n",
    "https://docs.python.org/3/x?y=1 ",
    "* one\n* two\n\n# H\n| 1 | 2 |\n",
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 ",
    "d41d8cd98f00b204e9800998ecf8427e ",
    "123456789 and more words to come here, ",
    "-----BEGIN PRIVATE KEY----- is a marker. ",
    "token is ",
    "SSN ",
    "GB29 ",
    "AB 12 34 56 C ",
    "(at) ",
    "\\u0034\\n ",
    "\t\n",
    '"',
]
_JOINTS = ["", " ", "\n", ",", ", ", ".", '"', "(", "\u200b", "-", "=", "/"]

texts = st.lists(
    st.one_of(
        st.sampled_from(PROSE),
        st.sampled_from(SECRETS),
        st.sampled_from(_JOINTS),
        st.sampled_from("aZ09 @._-+/=:()\\\"'\u200b\u0664４é東\U000e0034"),
        st.text(max_size=5),
    ),
    max_size=14,
).map("".join)


@each_finder
@settings(max_examples=100, deadline=None)
@given(
    text=texts, seed=st.integers(0, 2**32), is_json=st.booleans(), action=st.sampled_from(["redact", "stop"])
)
def test_released_text_and_actions_do_not_depend_on_the_cuts(
    finder: Find, text: str, seed: int, is_json: bool, action: str
) -> None:
    profile = OutputProfile(
        "p", (KindRule("all@1", ("*",), Level.CONFIDENTIAL, Action[action.upper()]),), 128
    )
    channel = Channel.TOOL_ARGUMENTS if is_json else Channel.CONTENT
    random = Random(seed)
    whole = released([text], channel=channel, profile=profile, finder=finder)
    splits = [list(range(1, len(text)))]
    splits += [sorted(random.choices(range(len(text) + 1), k=random.randint(1, 20))) for _ in range(4)]
    for places in splits:
        assert released(cut(text, places), channel=channel, profile=profile, finder=finder) == whole


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_leaves_at_any_single_cut(secret: str) -> None:
    text = f"Here it is: {secret} and that was all of it, believe me."
    kinds = {finding.kind for finding in _detect(text)}
    assert kinds
    whole = released([text], finder=_detect)
    assert _is_gone(text, whole[0])
    assert {action.kind for action in whole[2]} & kinds
    for place in range(1, len(text)):
        assert released(cut(text, [place]), finder=_detect) == whole


def _is_gone(text: str, left: str) -> bool:
    """Whether of each finding at most what prose could have too is left, and no finding remains."""
    for finding in _detect(text):
        found = text[finding.start : finding.end]
        if found in left or found[-len(found) // 2 :] in left:
            return False
    return not [finding for finding in _detect(left) if finding.kind in {f.kind for f in _detect(text)}]


@settings(max_examples=150, deadline=None)
@given(
    secret=st.sampled_from(SECRETS),
    before=st.lists(st.sampled_from(PROSE[:11]), max_size=3).map("".join),
    after=st.lists(st.sampled_from(PROSE[:11]), max_size=3).map("".join),
    seed=st.integers(0, 2**32),
)
def test_no_finding_leaves_in_full_wherever_it_stands(
    secret: str, before: str, after: str, seed: int
) -> None:
    text = f"{before}Here: {secret} so {after}"
    random = Random(seed)
    parts = cut(text, random.choices(range(len(text)), k=9))
    left = released(parts, finder=_detect)[0]
    for finding in _detect(text):
        if finding.label.level >= Level.CONFIDENTIAL:
            assert text[finding.start : finding.end] not in left


@settings(max_examples=100, deadline=None)
@given(secret=st.sampled_from(SECRETS), seed=st.integers(0, 2**32), is_escaped=st.booleans())
def test_tool_arguments_stay_json_and_lose_the_secret(secret: str, seed: int, is_escaped: bool) -> None:
    written = json.dumps({"to": "x", "note": f"it is {secret} now", "n": [1, -2.5]}, ensure_ascii=True)
    if is_escaped:
        escaped = "".join(f"\\u{ord(character):04x}" for character in secret if ord(character) < 0x10000)
        written = f'{{"to":"x","note":"it is {escaped} now","n":[1,-2.5]}}'
    random = Random(seed)
    parts = cut(written, random.choices(range(len(written)), k=9))
    left = json.loads(released(parts, channel=Channel.TOOL_ARGUMENTS, finder=_detect)[0])
    assert secret not in left["note"]
    assert left["n"] == [1, -2.5]
    assert left["to"] == "x"


_words = st.lists(
    st.sampled_from(
        [
            "the",
            "tide",
            "Gate",
            "NATO",
            "isn't",
            "well-known",
            "(so)",
            "said:",
            "yes,",
            "no.",
            "and/or",
            "-",
            "\u2014",
            "it",
        ]
    ),
    min_size=1,
    max_size=40,
).map(" ".join)


@settings(max_examples=100, deadline=None)
@given(text=_words, seed=st.integers(0, 2**32))
def test_prose_is_never_held(text: str, seed: int) -> None:
    filter_ = new_filter(finder=_never)
    random = Random(seed)
    for part in cut(text, random.choices(range(len(text) + 1), k=30)):
        assert filter_.feed(delta(part)) == (delta(part),)
        assert filter_.held_count == 0


def _never(text: str) -> tuple[Finding, ...]:
    raise AssertionError(text)


@settings(max_examples=100, deadline=None)
@given(text=texts, size=st.integers(1, 7))
def test_hold_is_bounded(text: str, size: int) -> None:
    filter_ = new_filter(finder=find)
    for begin in range(0, len(text), size):
        filter_.feed(delta(text[begin : begin + size]))
        assert filter_.held_count <= HOLD_CHARS


@settings(max_examples=50, deadline=None)
@given(one=texts, other=texts, seed=st.integers(0, 2**32))
def test_choices_do_not_disturb_each_other(one: str, other: str, seed: int) -> None:
    random = Random(seed)
    alone = [released([text])[0] for text in (one, other)]
    filter_ = new_filter()
    left = ["", ""]
    parts = [
        [part for part in cut(text, random.choices(range(len(text) + 1), k=6)) if part]
        for text in (one, other)
    ]
    while parts[0] or parts[1]:
        choice = random.choice([index for index in (0, 1) if parts[index]])
        for event in filter_.feed(delta(parts[choice].pop(0), choice=choice)):
            assert isinstance(event, TextDelta)
            left[event.choice] += event.text
    for choice in (1, 0):
        for event in filter_.feed(Finish(choice, "stop")):
            if isinstance(event, TextDelta):
                left[event.choice] += event.text
    assert left == alone


@settings(max_examples=50, deadline=None)
@given(text=texts, fault_at=st.integers(0, 6), seed=st.integers(0, 2**32))
def test_no_tail_leaves_after_a_fault(text: str, fault_at: int, seed: int) -> None:
    """What left before the fault is a beginning of what would have left without it."""
    whole = released([text])[0]
    random = Random(seed)
    filter_ = new_filter(finder=_failing_after(fault_at))
    left = ""
    for part in cut(text, random.choices(range(len(text) + 1), k=9)):
        try:
            events = filter_.feed(delta(part))
        except OutputBlocked:
            break
        left += "".join(event.text for event in events if isinstance(event, TextDelta))
    assert whole.startswith(left)


def _failing_after(count: int) -> Callable[[str], tuple[Finding, ...]]:
    left = [count]

    def finder(text: str) -> tuple[Finding, ...]:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError(text)
        return find(text)

    return finder
