"""Laws of the sensitivity room over any text: total, bounded, monotone, the same by either engine."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Callable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.chat import ChatRequest, Message, ResolvedRequest, Role, TextPart
from gateway.domain.label import PUBLIC, Level, join_all
from gateway.sensitivity import views
from gateway.sensitivity.classify import Classifier, FindingsCache
from gateway.sensitivity.detectors import build_detectors
from tests.unit.sensitivity import vectors

HYPERSCAN = build_detectors("hyperscan")
RE2 = build_detectors("re2")
FRESH = Classifier(HYPERSCAN, lambda: 0)
CACHED = Classifier(HYPERSCAN, lambda: 0, cache=FindingsCache(b"p" * 32, entry_count=8))

#: Pieces that bring patterns, escapes and odd characters together more often than chance would.
FRAGMENTS = st.sampled_from(
    [
        vectors.card("4539", 16, 1),
        vectors.iban("DE", "370400440532013999"),
        vectors.ssn(2),
        "kim@vestfjord.no",
        "+44 20 7946 0123",
        "ghp_" + vectors.token(36, 5),
        "password=",
        "-----BEGIN PRIVATE KEY-----",
        "eyJhbGciOiJIUzI1NiJ9.e30.",
        base64.b64encode(b"ssn 513-42-5031 and more").decode(),
        "%34%35",
        "\\u0034",
        "\\\\",
        "&#52;",
        "\u200b",
        "４５",
        "½",
        "é",
        "漢",
        "\U000e0041",
        "\ud800",
        "\x00",
        " ",
        "\n",
        "-",
    ]
)
TEXT = st.lists(st.one_of(FRAGMENTS, st.text(max_size=12)), max_size=10).map("".join)
BENIGN = st.sampled_from(vectors.BENIGN)
PLANTED = st.integers(0, 500).flatmap(
    lambda seed: st.sampled_from(
        [
            vectors.card("5" + "12345"[seed % 5], 16, seed),
            vectors.iban("DE", f"{37040044 * 10**10 + seed * 7919:018d}"),
            vectors.ssn(seed),
            "ghp_" + vectors.token(36, seed),
            "AKIA" + vectors.token(16, seed, vectors.UPPER).upper(),
        ]
    )
)


def _request(*texts: str) -> ResolvedRequest:
    return ResolvedRequest(ChatRequest("m", tuple(Message(Role.USER, (TextPart(text),)) for text in texts)))


def _level(text: str) -> Level:
    return join_all(finding.label for finding in HYPERSCAN.find(text)).level


@settings(max_examples=200, deadline=None)
@given(TEXT)
def test_any_text_is_read_without_a_fault_and_spans_stay_inside(text: str) -> None:
    findings = HYPERSCAN.find(text)
    assert all(0 <= finding.start < finding.end <= len(text) for finding in findings)
    for before, after in pairwise(findings):
        assert before.start <= after.start
        assert before.end < after.end


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_a_fault(data: bytes) -> None:
    verdict = FRESH.classify(_request(data.decode("utf-8", "replace"), data.decode("latin-1")), PUBLIC)
    assert verdict.degraded is None


@settings(max_examples=200, deadline=None)
@given(TEXT)
def test_both_engines_find_the_same(text: str) -> None:
    assert HYPERSCAN.find(text) == RE2.find(text)


@settings(max_examples=100, deadline=None)
@given(TEXT, st.data())
def test_every_span_of_every_view_comes_from_inside_the_text(text: str, data: st.DataObject) -> None:
    view = views.canonical(text)
    for reading in (view, views.unescaped(view)):
        assert len(reading.data) == len(reading.text) <= views.MAX_EXPANSION * len(text)
        start = data.draw(st.integers(0, len(reading.text)))
        end = data.draw(st.integers(start, len(reading.text)))
        first, last = reading.origin(start, end)
        assert 0 <= first <= last <= len(text)


@settings(max_examples=150, deadline=None)
@given(BENIGN, PLANTED, BENIGN)
def test_benign_text_around_a_finding_never_lowers_the_label(before: str, secret: str, after: str) -> None:
    assert _level(f"{before} {secret} {after}") is Level.RESTRICTED
    assert _level(f"{before}\n{secret}\n{after}") is Level.RESTRICTED


def _fullwidth(text: str) -> str:
    return "".join(chr(ord(x) + 0xFEE0) if "!" <= x <= "~" else x for x in text)


def _lookalikes(text: str) -> str:
    return text.translate(str.maketrans("ABEHKMOPTXaeopcxGD", "АВЕНКМОРТХаеорсхGD"))


EVASIONS = st.sampled_from(
    [
        "\u200b".join,
        "\u2060\u00ad".join,
        lambda text: f"\u202e{text}\u202c",
        _fullwidth,
        _lookalikes,
        lambda text: base64.b64encode(f"value: {text}".encode()).decode(),
        lambda text: base64.urlsafe_b64encode(f"{text} end".encode()).decode().rstrip("="),
        lambda text: "".join(f"\\u{ord(x):04x}" for x in text),
        lambda text: "".join(f"%{ord(x):02x}" for x in text),
        lambda text: "".join(f"&#x{ord(x):x};" for x in text),
        lambda text: f"value {text}".encode().hex(),
    ]
)


@settings(max_examples=200, deadline=None)
@given(PLANTED, EVASIONS, BENIGN)
def test_evasions_keep_the_label(secret: str, evade: object, around: str) -> None:
    assert callable(evade)
    assert _level(f"{around} {evade(secret)} ok") is Level.RESTRICTED


@settings(max_examples=100, deadline=None)
@given(PLANTED, st.data())
def test_a_secret_cut_over_messages_keeps_the_label(secret: str, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(secret) - 1))
    second = data.draw(st.integers(first, len(secret)))
    request = _request("it is " + secret[:first], secret[first:second], secret[second:] + " ok")
    assert FRESH.classify(request, PUBLIC).label.level is Level.RESTRICTED


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(TEXT, TEXT.map(lambda text: text * 40)), max_size=5))
def test_a_cached_verdict_equals_a_fresh_one(texts: list[str]) -> None:
    request = _request(*texts)
    fresh = FRESH.classify(request, PUBLIC)
    assert CACHED.classify(request, PUBLIC) == fresh
    assert CACHED.classify(request, PUBLIC) == fresh


#: Ways to write a text so that people do not see what it says.
DISGUISES = st.sampled_from(
    [
        lambda text: base64.b85encode(text.encode()).decode(),
        lambda text: base64.a85encode(text.encode()).decode(),
        lambda text: ",".join(str(code) for code in text.encode()),
        lambda text: " ".join(f"{code:08b}" for code in text.encode()),
        lambda text: "\n".join(textwrap.wrap(text.encode().hex(), 32)),
        lambda text: "\n".join(
            f"{place:08x}: {text.encode()[place : place + 16].hex(' ', 2)}"
            for place in range(0, len(text), 16)
        ),
        lambda text: "+" + base64.b64encode(text.encode("utf-16-be")).decode().rstrip("=") + "-",
    ]
)


@settings(max_examples=60, deadline=None)
@given(DISGUISES, PLANTED, BENIGN, BENIGN)
def test_a_disguised_identifier_stays_restricted_in_any_company(
    disguise: Callable[[str], str], planted: str, before: str, behind: str
) -> None:
    hidden = disguise(f"please note: {planted}, and thank you")
    assert _level(hidden) == Level.RESTRICTED
    assert _level(f"{before}\n\n{hidden}\n\n{behind}") == Level.RESTRICTED


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([base64.b85encode, base64.a85encode]), PLANTED, st.data())
def test_a_disguised_identifier_is_found_however_it_is_cut_over_messages(
    encode: Callable[[bytes], bytes], planted: str, data: st.DataObject
) -> None:
    hidden = encode(f"please note: {planted}, and thank you".encode()).decode()
    cut = data.draw(st.integers(1, len(hidden) - 1))
    assert FRESH.classify(_request(hidden[:cut], hidden[cut:]), PUBLIC).label.level == Level.RESTRICTED
