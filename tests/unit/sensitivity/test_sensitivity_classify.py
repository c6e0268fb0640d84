"""The label of whole requests: every part, every fault, the floor and the cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.domain.chat import (
    ChatRequest,
    JsonText,
    Message,
    OpaquePart,
    ResolvedRequest,
    Role,
    Sampling,
    TextPart,
    ToolCall,
    ToolDefinition,
)
from gateway.domain.finding import Coverage, Finding, Verdict
from gateway.domain.label import PUBLIC, UNKNOWN, Label, Level, Tag
from gateway.sensitivity.classify import Classifier, FindingsCache
from gateway.sensitivity.detectors import build_detectors
from tests.unit.sensitivity import vectors

DETECTORS = build_detectors()
CARD = vectors.card("4539", 16, 1)
SSN = vectors.ssn(3)
KEY = "ghp_" + vectors.token(36, 5)


def _request(*messages: Message, **fields: object) -> ResolvedRequest:
    return ResolvedRequest(replace(ChatRequest("assistant", messages), **fields))  # type: ignore[arg-type]


def _user(*texts: str) -> Message:
    return Message(Role.USER, tuple(TextPart(text) for text in texts))


def _classifier(**fields: object) -> Classifier:
    return Classifier(DETECTORS, lambda: 0, **fields)  # type: ignore[arg-type]


def _classify(resolved: ResolvedRequest, floor: Label = PUBLIC) -> Verdict:
    return _classifier().classify(resolved, floor)


def test_text_without_findings_has_the_base_level() -> None:
    verdict = _classify(_request(_user("How do heat pumps work?")))
    assert (verdict.label, verdict.degraded) == (Label(Level.INTERNAL), None)
    assert verdict.detectors == (f"detectors@{_classifier().sha256[:16]}",)
    confidential = _classifier(base_level=Level.CONFIDENTIAL).classify(_request(_user("hi")), PUBLIC)
    assert confidential.label.level is Level.CONFIDENTIAL


def test_a_finding_sets_the_label_with_its_tags() -> None:
    verdict = _classify(_request(_user(f"pay {CARD}, write kim@vestfjord.no")))
    assert verdict.label == Label(Level.RESTRICTED, frozenset({Tag.PCI, Tag.PII}))
    assert verdict.kinds == ("email", "payment-card")


@pytest.mark.parametrize("level", list(Level))
def test_the_floor_is_joined_and_never_lowered(level: Level) -> None:
    floor = Label(level, frozenset({Tag.MNPI}))
    for text in ("hello", f"card {CARD}"):
        label = _classify(_request(_user(text)), floor).label
        assert label.level >= level
        assert Tag.MNPI in label.tags


EVERYWHERE: dict[str, Callable[[str], ResolvedRequest]] = {
    "messages[0].content[0]": lambda s: _request(_user(s)),
    "messages[0].content[1]": lambda s: _request(_user("first", s)),
    "messages[0].name": lambda s: _request(replace(_user("x"), name=s)),
    "messages[0].tool_call_id": lambda s: _request(Message(Role.TOOL, (TextPart("x"),), tool_call_id=s)),
    "messages[0].reasoning": lambda s: _request(Message(Role.ASSISTANT, reasoning=s)),
    "messages[0].refusal": lambda s: _request(Message(Role.ASSISTANT, refusal=s)),
    "messages[0].tool_calls[0].id": lambda s: _request(
        Message(Role.ASSISTANT, tool_calls=(ToolCall(s, "f", "{}"),))
    ),
    "messages[0].tool_calls[0].name": lambda s: _request(
        Message(Role.ASSISTANT, tool_calls=(ToolCall("c", s, "{}"),))
    ),
    "messages[0].tool_calls[0].arguments": lambda s: _request(
        Message(Role.ASSISTANT, tool_calls=(ToolCall("c", "f", json.dumps({"q": s})),))
    ),
    "tools[0].name": lambda s: _request(_user("x"), tools=(ToolDefinition(s),)),
    "tools[0].description": lambda s: _request(_user("x"), tools=(ToolDefinition("f", s),)),
    "tools[0].parameters": lambda s: _request(
        _user("x"), tools=(ToolDefinition("f", None, JsonText(json.dumps({"enum": [s]}))),)
    ),
    "tool_choice": lambda s: _request(_user("x"), tool_choice=JsonText(json.dumps({"name": s}))),
    "response_format": lambda s: _request(_user("x"), response_format=JsonText(json.dumps({"name": s}))),
    "stop[1]": lambda s: _request(_user("x"), sampling=Sampling(stop=("END", s))),
    "reasoning_effort": lambda s: _request(_user("x"), reasoning_effort=s),
    "guided": lambda s: _request(_user("x"), extensions=(("guided", JsonText(json.dumps(s))),)),
}


@pytest.mark.parametrize("path", sorted(EVERYWHERE))
@pytest.mark.parametrize("secret", [f"card {CARD}", KEY], ids=["card", "key"])
def test_finds_it_in_every_part_that_is_sent(path: str, secret: str) -> None:
    verdict = _classify(EVERYWHERE[path](secret))
    assert verdict.label.level is Level.RESTRICTED
    assert {part.path for part in verdict.parts if part.findings} == {path}


@pytest.mark.parametrize("role", list(Role))
def test_finds_it_in_messages_of_every_role(role: Role) -> None:
    verdict = _classify(_request(_user("hi"), Message(role, (TextPart(f"ssn {SSN}"),))))
    assert verdict.label.level is Level.RESTRICTED


def test_finds_it_through_json_escapes_of_tool_arguments() -> None:
    arguments = json.dumps({"note": json.dumps({"ssn": "".join(f"\\u{ord(x):04x}" for x in SSN)})})
    call = ToolCall("c", "f", arguments)
    assert _classify(_request(Message(Role.ASSISTANT, tool_calls=(call,)))).label.level is Level.RESTRICTED


def test_every_part_is_named_with_its_coverage() -> None:
    image = OpaquePart("image_url", JsonText("{}"))
    message = Message(Role.USER, (TextPart("look"), image, TextPart("")), name="kim")
    verdict = _classify(_request(message, sampling=Sampling(logit_bias=JsonText('{"1":2}'), stop=("a",))))
    assert [(part.path, part.coverage) for part in verdict.parts] == [
        ("messages[0].name", Coverage.SCANNED),
        ("messages[0].content[0]", Coverage.SCANNED),
        ("messages[0].content[1]", Coverage.UNSCANNABLE),
        ("messages[0].content[2]", Coverage.NOTHING),
        ("stop[0]", Coverage.SCANNED),
        ("logit_bias", Coverage.SCANNED),
    ]


def test_a_part_that_is_no_text_makes_the_request_restricted_and_opaque() -> None:
    verdict = _classify(_request(Message(Role.USER, (OpaquePart("image_url", JsonText("{}")),))))
    assert verdict.label == UNKNOWN
    assert verdict.degraded is None


SPLIT = f"{CARD[:4]} {CARD[4:8]} {CARD[8:12]} {CARD[12:]}"


@pytest.mark.parametrize("cut", range(1, len(SPLIT)))
def test_finds_a_card_cut_over_two_parts_at_every_place(cut: int) -> None:
    verdict = _classify(_request(_user(f"it is {SPLIT[:cut]}", f"{SPLIT[cut:]} ok")))
    assert verdict.label.level is Level.RESTRICTED


@pytest.mark.parametrize("cut", range(5, len(KEY) - 1, 4))
def test_finds_a_key_cut_over_two_turns_with_an_answer_between(cut: int) -> None:
    answer = Message(Role.ASSISTANT, (TextPart("Thanks, and the rest?"),))
    verdict = _classify(_request(_user(f"first {KEY[:cut]}"), answer, _user(f"{KEY[cut:]} that's it")))
    assert verdict.label.level is Level.RESTRICTED
    assert verdict.kinds == ("github-token",)


def test_finds_a_number_sent_in_many_messages() -> None:
    assert _classify(_request(*(_user(digit) for digit in CARD))).label.level is Level.RESTRICTED


def test_finds_a_number_whose_word_is_in_the_turn_before() -> None:
    ask = Message(Role.ASSISTANT, (TextPart("What is your SSN?"),))
    verdict = _classify(_request(ask, _user(SSN.replace("-", ""))))
    assert verdict.label.level is Level.RESTRICTED
    assert [part.path for part in verdict.parts if part.findings] == ["messages[1].content[0]"]


@pytest.mark.parametrize("behind", ["17 is next", "ok", "- no", "漢字"])
@pytest.mark.parametrize("secret", [CARD, SSN, vectors.iban("DE", "370400440532013999")])
def test_finds_a_number_cut_in_two_whatever_the_next_turn_begins_with(secret: str, behind: str) -> None:
    for cut in range(1, len(secret)):
        verdict = _classify(_request(_user(f"it is {secret[:cut]}"), _user(secret[cut:]), _user(behind)))
        assert verdict.label.level is Level.RESTRICTED, cut


class _Raising:
    identity = "raising@1"

    def find(self, text: str) -> tuple[Finding, ...]:
        if "boom" in text:
            raise RuntimeError("a fault in a detector")
        return ()


def test_a_detector_that_raises_makes_its_part_unscannable_and_the_request_restricted() -> None:
    classifier = Classifier(build_detectors("re2", (_Raising(),)), lambda: 0)
    verdict = classifier.classify(_request(_user("fine"), _user("boom")), PUBLIC)
    assert verdict.label == UNKNOWN
    assert verdict.degraded == "detector-raised"
    assert [part.coverage for part in verdict.parts] == [Coverage.SCANNED, Coverage.UNSCANNABLE]


def test_a_fault_in_the_request_itself_is_restricted_too() -> None:
    broken = ResolvedRequest(replace(ChatRequest("m", ()), messages=None))  # type: ignore[arg-type]
    verdict = _classify(broken)
    assert (verdict.label, verdict.degraded) == (UNKNOWN, "detector-raised")


def test_a_spent_budget_makes_the_rest_unscannable_and_the_request_restricted() -> None:
    ticks = iter(range(0, 10**9, 3_000_000))
    classifier = Classifier(DETECTORS, lambda: next(ticks), budget_ms=5)
    verdict = classifier.classify(_request(_user("one"), _user("two"), _user("three")), PUBLIC)
    assert verdict.label == UNKNOWN
    assert verdict.degraded == "budget-spent"
    assert [part.coverage for part in verdict.parts] == [Coverage.SCANNED, *[Coverage.UNSCANNABLE] * 2]


def test_a_budget_spent_inside_one_text_is_noticed() -> None:
    ticks = iter([0, 0, *[10**10] * 1000])
    classifier = Classifier(DETECTORS, lambda: next(ticks), budget_ms=5)
    verdict = classifier.classify(_request(_user("a@b.co " * 500)), PUBLIC)
    assert (verdict.degraded, verdict.parts[0].coverage) == ("budget-spent", Coverage.UNSCANNABLE)


def test_cached_verdicts_equal_fresh_ones() -> None:
    cache = FindingsCache(b"k" * 32)
    cached = _classifier(cache=cache)
    request = _request(_user("x" * 400 + f" {CARD}"), _user("y " * 300), _user(f"{SSN}"))
    first, second = cached.classify(request, PUBLIC), cached.classify(request, PUBLIC)
    assert first == second == _classify(request)
    assert len(cache) > 0


def test_the_cache_is_bounded_and_drops_what_was_used_longest_ago() -> None:
    cache = FindingsCache(b"k" * 32, entry_count=2)
    one, two, three = (cache.digest(text) for text in ("one", "two", "three"))
    cache.put(one, ())
    cache.put(two, ())
    assert cache.get(one) == ()
    cache.put(three, ())
    assert (len(cache), cache.get(two), cache.get(one)) == (2, None, ())


def test_the_cache_does_not_keep_texts_with_many_findings() -> None:
    cache = FindingsCache(b"k" * 32)
    finding = Finding("x", "x@1", UNKNOWN, 0, 1)
    cache.put(b"d", (finding,) * 65)
    assert len(cache) == 0


def test_cache_digests_depend_on_the_key() -> None:
    assert FindingsCache(b"a" * 32).digest("x") != FindingsCache(b"b" * 32).digest("x")
    with pytest.raises(ValueError, match="16 to 64"):
        FindingsCache(b"short")


def test_a_failed_scan_is_not_cached() -> None:
    cache = FindingsCache(b"k" * 32)
    classifier = Classifier(build_detectors("re2", (_Raising(),)), lambda: 0, cache=cache)
    classifier.classify(_request(_user("boom" * 200)), PUBLIC)
    assert len(cache) == 0


def test_the_digest_of_the_classifier_depends_on_detectors_and_base_level() -> None:
    other = Classifier(build_detectors("re2"), lambda: 0)
    assert len({_classifier().sha256, _classifier(base_level=Level.CONFIDENTIAL).sha256, other.sha256}) == 3


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(seed=int(CARD)),
        Sampling(max_output_tokens=int(CARD)),
        Sampling(n=int(CARD)),
        Sampling(logit_bias=JsonText(f'{{"{CARD}":1}}')),
        Sampling(logit_bias=JsonText(f'{{"{CARD[:10]}":1,"0000{CARD[10:]}":1}}')),
        Sampling(logit_bias=JsonText(f'{{"1":{CARD}}}')),
        Sampling(stop=(CARD[:10], CARD[10:])),
    ],
)
def test_reads_numbers_that_are_sent(sampling: Sampling) -> None:
    assert _classify(_request(_user("x"), sampling=sampling)).label.level is Level.RESTRICTED


_FIRST, _SECOND = (TextPart(CARD[:8]),), (TextPart(CARD[8:]),)


@pytest.mark.parametrize(
    "messages",
    [
        (Message(Role.ASSISTANT, _FIRST), Message(Role.ASSISTANT, _SECOND, reasoning="no")),
        (Message(Role.USER, _FIRST, refusal="no"), Message(Role.USER, _SECOND)),
        (Message(Role.USER, _FIRST, tool_calls=(ToolCall("c", "f", "no"),)), Message(Role.USER, _SECOND)),
    ],
    ids=["reasoning", "refusal", "tool-calls"],
)
def test_what_a_destination_does_not_receive_does_not_part_what_it_does(
    messages: tuple[Message, ...],
) -> None:
    assert _classify(_request(*messages)).label.level is Level.RESTRICTED


def test_reasoning_is_read_together_with_the_answer_too() -> None:
    message = Message(Role.ASSISTANT, (TextPart(CARD[8:]),), reasoning=CARD[:8])
    assert _classify(_request(message)).label.level is Level.RESTRICTED


class _Context:
    """Finds `quiet` words, and says of `bonjour` that it cannot read it. Counts what it is asked."""

    def __init__(self, identity: str = "context@1") -> None:
        self.identity = identity
        self.asked: list[str] = []

    def find(self, text: str) -> tuple[Finding, ...]:
        self.asked.append(text)
        if "boom" in text:
            raise RuntimeError("a fault in the model")
        if "bonjour" in text:
            return (Finding("unsupported-language", self.identity, Label(Level.PUBLIC), 0, 1),)
        if "merger" in text:
            label = Label(Level.CONFIDENTIAL, frozenset({Tag.MNPI}))
            return (Finding("mnpi", self.identity, label, 0, len(text)),)
        return ()


def test_the_contextual_model_reads_what_was_said_and_nothing_else() -> None:
    context = _Context()
    arguments = '{"note": "hers"}'
    call = ToolCall("id", "name", arguments)
    request = _request(
        Message(Role.SYSTEM, (TextPart("a system"),), name="kim"),
        _user("a question", "more"),
        Message(Role.ASSISTANT, (TextPart("an answer"),), tool_calls=(call,), reasoning="why", refusal="no"),
        Message(Role.TOOL, (TextPart("a result"),), tool_call_id="id"),
        tools=(ToolDefinition("tool", "a description", JsonText('{"enum":["a"]}')),),
        sampling=Sampling(seed=5, stop=("END",), temperature=0.5),
    )
    _classifier(context=context).classify(request, PUBLIC)
    said = ["a system", "a question", "more", "why", "an answer", "no", arguments, "a result"]
    assert context.asked == said


def test_findings_of_the_contextual_model_are_joined_to_those_of_the_rules() -> None:
    verdict = _classifier(context=_Context()).classify(_request(_user(f"the merger, {CARD}")), PUBLIC)
    assert verdict.label == Label(Level.RESTRICTED, frozenset({Tag.MNPI, Tag.PCI}))
    assert verdict.degraded is None


def test_a_part_in_a_language_that_the_model_does_not_know_is_unscannable() -> None:
    for classifier in (_classifier(context=_Context()), _classifier(context=_Context(), cache=_cache())):
        for _ in range(2):
            verdict = classifier.classify(_request(_user("hello"), _user("bonjour")), PUBLIC)
            assert verdict.label == UNKNOWN
            assert [part.coverage for part in verdict.parts] == [Coverage.SCANNED, Coverage.UNSCANNABLE]
            assert verdict.degraded is None


def test_a_model_that_raises_makes_its_part_unscannable_and_is_asked_again() -> None:
    context = _Context()
    classifier = _classifier(context=context, cache=_cache())
    for _ in range(2):
        verdict = classifier.classify(_request(_user("boom")), PUBLIC)
        assert (verdict.label, verdict.degraded) == (UNKNOWN, "detector-raised")
    assert context.asked == ["boom", "boom"]


def test_a_model_that_takes_too_long_spends_the_budget() -> None:
    ticks = iter([0, 0, 0, *[10**10] * 100])
    classifier = Classifier(DETECTORS, lambda: next(ticks), budget_ms=5, context=_Context())
    verdict = classifier.classify(_request(_user("hi")), PUBLIC)
    assert (verdict.label, verdict.degraded) == (UNKNOWN, "budget-spent")


def test_short_texts_are_shown_to_the_model_once_and_never_mixed_up_with_another_models() -> None:
    cache, first, second = _cache(), _Context(), _Context("context@2")
    request = _request(_user("the merger"))
    for _ in range(2):
        assert _classifier(cache=cache, context=first).classify(request, PUBLIC).label.tags == {Tag.MNPI}
    assert _classifier(cache=cache).classify(request, PUBLIC).label.tags == frozenset()
    _classifier(cache=cache, context=second).classify(request, PUBLIC)
    assert (first.asked, second.asked) == (["the merger"], ["the merger"])


def test_the_digest_of_the_classifier_depends_on_the_contextual_model() -> None:
    made = [_classifier(), _classifier(context=_Context()), _classifier(context=_Context("context@2"))]
    assert len({each.sha256 for each in made}) == 3


def _cache() -> FindingsCache:
    return FindingsCache(b"k" * 32)


_HALVES = (f"card {CARD[:4]} {CARD[4:8]}", f"{CARD[8:12]} {CARD[12:]}")


def _called(*values: str) -> Message:
    calls = tuple(ToolCall(f"c{place}", "f", json.dumps({"a": each})) for place, each in enumerate(values))
    return Message(Role.ASSISTANT, tool_calls=calls)


CUT: dict[str, ResolvedRequest] = {
    "descriptions": _request(_user("x"), tools=tuple(ToolDefinition("f", half) for half in _HALVES)),
    "schemas": _request(
        _user("x"),
        tools=tuple(ToolDefinition("f", None, JsonText(json.dumps({"const": half}))) for half in _HALVES),
    ),
    "names": _request(*(replace(_user("x"), name=half) for half in _HALVES)),
    "tool-names": _request(_user("x"), tools=tuple(ToolDefinition(half) for half in _HALVES)),
    "call-ids": _request(
        *(
            message
            for half in _HALVES
            for message in (
                Message(Role.ASSISTANT, tool_calls=(ToolCall(half, "f", "{}"),)),
                Message(Role.TOOL, (TextPart("x"),), tool_call_id=half),
            )
        )
    ),
    "arguments": _request(_called(*_HALVES)),
    "arguments-of-two-turns": _request(_called(_HALVES[0]), _user("and?"), _called(_HALVES[1])),
    "stops": _request(_user("x"), sampling=Sampling(stop=_HALVES)),
    "user-then-tool": _request(
        _user(_HALVES[0]),
        Message(Role.ASSISTANT, (TextPart("k"),)),
        Message(Role.TOOL, (TextPart(_HALVES[1]),)),
    ),
}


@pytest.mark.parametrize("where", sorted(CUT))
def test_finds_a_card_cut_over_two_texts_of_a_kind(where: str) -> None:
    verdict = _classify(CUT[where])
    assert verdict.kinds == ("payment-card",)
    assert verdict.label.level is Level.RESTRICTED


def test_many_plain_names_laid_end_to_end_are_no_blob() -> None:
    words = [f"get{letter}Wqz{other}Thing" for letter in "ABCDEFGHIJKLM" for other in "nopqrstuvwxy"]
    tools = tuple(ToolDefinition(word, word, JsonText(json.dumps({"enum": words}))) for word in words[:40])
    assert _classify(_request(_user("x"), _called(*words), tools=tools)).label == Label(Level.INTERNAL)


def test_a_long_list_of_token_biases_is_no_number() -> None:
    biases = JsonText(json.dumps({str(1000 + 7 * place): -100 for place in range(1024)}))
    assert _classify(_request(_user("x"), sampling=Sampling(logit_bias=biases))).label == Label(
        Level.INTERNAL
    )


@pytest.mark.parametrize("before", [0, 950, 1015, 1020, 1023, 2000])
def test_finds_a_card_cut_over_values_wherever_they_stand_in_a_long_list(before: int) -> None:
    values = ["word,"] * before + list(CARD) + [",word"] * 300
    call = ToolCall("c", "f", json.dumps(values))
    verdict = _classify(_request(Message(Role.ASSISTANT, tool_calls=(call,))))
    assert verdict.label.level is Level.RESTRICTED


def test_the_budget_is_asked_while_a_long_list_of_values_is_joined() -> None:
    call = ToolCall("c", "f", json.dumps(["a1"] * 5000))
    asked: list[int] = []

    def clock() -> int:
        asked.append(1)
        return 0

    Classifier(DETECTORS, clock).classify(_request(Message(Role.ASSISTANT, tool_calls=(call,))), PUBLIC)
    without = len(asked)
    ticks = iter([*[0] * (without // 2), *[10**10] * without])
    classifier = Classifier(DETECTORS, lambda: next(ticks), budget_ms=5)
    verdict = classifier.classify(_request(Message(Role.ASSISTANT, tool_calls=(call,))), PUBLIC)
    assert (verdict.label, verdict.degraded) == (UNKNOWN, "budget-spent")
