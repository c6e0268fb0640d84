"""Records as stored bytes."""

from __future__ import annotations

import dataclasses
import json
import uuid

import msgspec
import pytest

from gateway.audit.bench import sample_record
from gateway.audit.canonical import (
    LogEvent,
    Stamp,
    WriterContext,
    encode_event,
    encode_request,
    rfc3339_us,
    seal,
    uuid7,
)
from gateway.audit.schema import RecordDoc
from gateway.audit.verify import RECORD
from gateway.domain.record import AskedFact, Phase, RequestRecord, RouteFact, ShadowFact

CONTEXT = WriterContext("dep/replica/3", "1.2.3", "a" * 64, "boot-1")
STAMP = Stamp("01a230dd-7979-7f13-9c59-f4ef069b00de", "2026-12-01T09:09:10.649830Z", 17)


def _stored(record: RequestRecord) -> bytes:
    return seal(CONTEXT.head, 42, encode_request(record, CONTEXT, STAMP))


def test_the_envelope_holds_what_the_schema_names() -> None:
    tree = json.loads(_stored(sample_record(Phase.ADMITTED, "req_1")))
    assert list(tree)[:6] == ["v", "origin", "seq", "phase", "event_type", "request_id"]
    assert (tree["v"], tree["origin"], tree["seq"]) == ("audit/1", "dep/replica/3", 42)
    assert (tree["event_id"], tree["ts_utc"], tree["ts_mono_ns"]) == dataclasses.astuple(STAMP)
    assert tree["boot_id"] == "boot-1"
    assert tree["clock"] == {"source": "system"}
    assert tree["writer"] == {"replica": "replica", "slot": "3", "build": "1.2.3", "config_sha256": "a" * 64}
    assert tree["retention_class"] == "standard"
    assert (tree["outcome"], tree["reason_code"]) == ("permitted", "ok")


def test_who_decision_and_result_are_kept_whole() -> None:
    tree = json.loads(_stored(sample_record(Phase.COMPLETED, "req_1")))
    assert tree["who"]["tenant"] == "acme"
    assert tree["who"]["actor"]["roles"] == ["clerk"]
    decision = tree["decision"]
    assert decision["policy"]["rule_ids"] == ["restricted-stays", "default-deny"]
    assert decision["classifier"]["coverage"] == {"scanned": 3}
    assert decision["route"]["destination"] == "private-moe"
    assert decision["route"]["hosted"] is False
    assert decision["filters"] == [{"rule": "identifiers@1", "action": "mask", "kind": "iban", "count": 1}]
    assert tree["result"]["latency_us"] == {"queue": 12, "classify": 55, "total": 90_000}
    assert tree["result"]["usage"]["source"] == "provider"
    assert tree["content"]["response_hmac"] == "0" * 64


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_begins_as_the_verifier_expects(phase: Phase) -> None:
    seen = RECORD.match(_stored(RequestRecord(phase, "req_1", "ok", "chat.completions")))
    assert seen is not None
    assert (seen[1], seen[2], seen[3], seen[5]) == (b"dep/replica/3", b"42", phase.value.encode(), b"req_1")


def test_an_event_of_the_log_begins_as_the_verifier_expects() -> None:
    event = LogEvent("segment-close", "ok", (("size", 7), ("file", "x")))
    seen = RECORD.match(seal(CONTEXT.head, 0, encode_event(event, CONTEXT, STAMP)))
    assert seen is not None
    assert (seen[3], seen[4], seen[5]) == (b"log", b"segment-close", b"")


@pytest.mark.parametrize(
    "text",
    [
        "line\nbreak\r\n",
        "\x1b[31mred\x1b]0;title\x07",
        "\x9b31m C1 control",
        "\x7f delete",
        "\u2028\u2029\u0085 separators",
        "\u202e bidirectional \u2066",
        "emoji 🙂 and 字",
        '=cmd|"/c calc"!A1',
        'quote " backslash \\ {"seq":1}',
        "\x00",
    ],
)
def test_hostile_text_stays_on_one_line_of_printable_ascii(text: str) -> None:
    record = RequestRecord(
        Phase.DENIED,
        "req_1",
        "policy-denied",
        "chat",
        route=RouteFact(model_asked=text, destinations=(text,)),
    )
    stored = _stored(record)
    assert all(0x20 <= byte <= 0x7E for byte in stored)
    assert len(stored.decode().splitlines()) == 1
    assert json.loads(stored)["decision"]["route"] == {"model_asked": text, "destinations": [text]}
    seen = RECORD.match(stored)
    assert seen is not None
    assert seen[2] == b"42"


def test_refuses_text_that_is_not_unicode() -> None:
    record = RequestRecord(Phase.DENIED, "req_1", "x", "chat", route=RouteFact("\ud800", ()))
    with pytest.raises(ValueError, match="surrogates"):
        encode_request(record, CONTEXT, STAMP)


@pytest.mark.parametrize("request_id", ["", 'a"b', "a\\b", "a b", "a\n", "é", "x" * 201])
def test_refuses_a_request_id_that_the_gateway_does_not_make(request_id: str) -> None:
    with pytest.raises(ValueError, match="request id"):
        encode_request(RequestRecord(Phase.DENIED, request_id, "x", "chat"), CONTEXT, STAMP)


def test_the_same_arguments_give_the_same_bytes() -> None:
    assert _stored(sample_record(Phase.ADMITTED, "r")) == _stored(sample_record(Phase.ADMITTED, "r"))


def test_ids_are_uuids_of_version_7_in_order_of_time() -> None:
    early, late = uuid7(1_764_578_879_123_456, 2**74 - 1), uuid7(1_764_578_879_124_456, 0)
    parsed = uuid.UUID(early)
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == 1_764_578_879_123
    assert early < late
    assert uuid7(0, 0) == "00000000-0000-7000-8000-000000000000"
    assert uuid7(0, 2**74 - 1) == "00000000-0000-7fff-bfff-ffffffffffff"


def test_times_have_microseconds() -> None:
    assert rfc3339_us(5_000_042, "1970-01-01T00:00:05") == "1970-01-01T00:00:05.000042Z"


def test_what_the_policy_was_asked_is_kept_and_defaults_are_left_out() -> None:
    record = dataclasses.replace(
        sample_record(Phase.ADMITTED, "req_1"),
        asked=AskedFact(False, 10, 20, 1_796_000_000, attributes=(("purpose", "audit"),)),
        shadow=ShadowFact("c" * 64, (), "no-rule", ()),
    )
    decision = json.loads(_stored(record))["decision"]
    assert decision["asked"] == {
        "at": 1_796_000_000,
        "prompt_tokens": 10,
        "output_tokens": 20,
        "attributes": {"purpose": "audit"},
    }
    assert decision["shadow"] == {"sha256": "c" * 64, "denied": "no-rule"}


def test_a_record_of_before_reads_as_one_without_these_facts() -> None:
    tree = json.loads(_stored(sample_record(Phase.ADMITTED, "req_1")))
    assert "asked" not in tree["decision"]
    assert msgspec.json.decode(json.dumps(tree), type=RecordDoc).decision.asked is None  # type: ignore[union-attr]
