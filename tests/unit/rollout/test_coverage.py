from __future__ import annotations

import time
from dataclasses import dataclass, replace

import pytest

from gateway.domain.chat import ChatRequest, JsonText, Message, ResolvedRequest
from gateway.domain.finding import Coverage, PartVerdict, Verdict
from gateway.domain.label import PUBLIC, UNKNOWN, Label
from gateway.errors import ConfigurationError
from gateway.rollout.coverage import CANARY, NO_TEXT, PROBES, check_coverage, matrix, text_fields
from gateway.sensitivity.classify import Classifier
from gateway.sensitivity.detectors import build_detectors

CLASSIFIER = Classifier(build_detectors(), time.perf_counter_ns, budget_ms=60_000)


def test_the_classifier_reads_every_field_of_a_request() -> None:
    check_coverage(CLASSIFIER.classify)


def test_the_matrix_has_a_row_for_every_text_of_a_request() -> None:
    assert (
        {cell.field for cell in matrix()} == set(text_fields(ChatRequest)) == PROBES.keys() | NO_TEXT.keys()
    )


def test_each_probe_holds_the_identifier_in_one_place_only() -> None:
    for field, chat in PROBES.items():
        assert repr(chat).count(CANARY) == 1, field


@pytest.mark.parametrize("field", sorted(PROBES))
def test_a_classifier_that_forgets_one_field_is_noticed(field: str) -> None:
    def forgets(resolved: ResolvedRequest, floor: Label) -> Verdict:
        if resolved.chat == PROBES[field]:
            return Verdict(PUBLIC, (PartVerdict("x", Coverage.SCANNED),), ())
        return Verdict(UNKNOWN, (PartVerdict("x", Coverage.UNSCANNABLE),), ())

    with pytest.raises(ConfigurationError) as caught:
        check_coverage(forgets)
    assert str(caught.value).endswith(f"does not read {field}")


def test_a_high_base_level_does_not_hide_a_blind_spot() -> None:
    """The level alone would say restricted about everything."""

    def blind(resolved: ResolvedRequest, floor: Label) -> Verdict:
        return Verdict(UNKNOWN, (PartVerdict("x", Coverage.SCANNED),), ())

    with pytest.raises(ConfigurationError, match="does not read"):
        check_coverage(blind)


def test_finds_text_in_every_shape_that_a_request_has() -> None:
    @dataclass(frozen=True)
    class Inner:
        note: str

    @dataclass(frozen=True)
    class Outer:
        count: int
        plain: str
        maybe: str | None
        json: JsonText | None
        many: tuple[str, ...]
        pairs: tuple[tuple[str, JsonText], ...]
        inner: Inner | None
        inners: tuple[Inner | Message, ...]

    Outer.__annotations__ |= {"inner": Inner | None, "inners": tuple[Inner | Message, ...]}
    found = set(text_fields(Outer))
    assert {"plain", "maybe", "json", "many[]", "pairs[]", "inner.note", "inners[].note"} <= found
    assert "inners[].tool_calls[].arguments" in found
    assert "count" not in found


def test_a_field_without_a_probe_is_noticed() -> None:
    known = {field: chat for field, chat in PROBES.items() if field != "tool_choice"}
    with pytest.raises(ConfigurationError, match="no guard is shown to read tool_choice"):
        matrix(known)


def test_probes_are_requests_of_their_own() -> None:
    assert replace(PROBES["tool_choice"], tool_choice=None) == replace(
        PROBES["response_format"], response_format=None
    )
