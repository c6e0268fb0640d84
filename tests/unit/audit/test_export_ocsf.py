"""OCSF events: their shape is the schema's, for every phase and for records that say little.

`SHAPE`, `ENUMS` and `AT_LEAST_ONE` are the part of OCSF 1.8.0 that the export uses: type of each attribute,
`[]` for arrays, `!` for required ones. An attribute that is not listed fails.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.bench import sample_record
from gateway.audit.canonical import Stamp, encode_request, seal, uuid7
from gateway.audit.export_ocsf import ocsf_lines
from gateway.audit.request_cells import COLUMNS
from gateway.audit.request_rows import Tally, Wanted, request_rows
from gateway.domain.record import Actor, Phase, RequestRecord, RouteFact
from tests.fakes.audit_logs import CONTEXT

_SHAPE = {
    "actor": "idp:idp user:user",
    "ai_model": "ai_provider:string_t! name:string_t!",
    "api": "operation:string_t! request:request response:response service:service",
    "api_activity": (
        "action:string_t action_id:integer_t activity_id:integer_t! activity_name:string_t "
        "actor:actor! ai_model:ai_model api:api! category_name:string_t category_uid:integer_t! "
        "class_name:string_t class_uid:integer_t! disposition:string_t disposition_id:integer_t "
        "dst_endpoint:network_endpoint duration:long_t http_response:http_response "
        "message_context:message_context metadata:metadata! policy:policy severity:string_t "
        "severity_id:integer_t! src_endpoint:network_endpoint! status:string_t status_code:string_t "
        "status_id:integer_t time:timestamp_t! type_name:string_t type_uid:long_t! unmapped:object"
    ),
    "group": "name:string_t",
    "http_response": "body_length:integer_t code:integer_t!",
    "idp": "issuer:string_t name:string_t",
    "message_context": (
        "completion_tokens:integer_t prompt_tokens:integer_t service:service total_tokens:integer_t"
    ),
    "metadata": (
        "correlation_uid:string_t event_code:string_t log_format:string_t original_time:string_t "
        "product:product! profiles:string_t[] sequence:integer_t tenant_uid:string_t uid:string_t "
        "version:string_t!"
    ),
    "network_endpoint": "name:string_t",
    "organization": "uid:string_t",
    "policy": "name:string_t uid:string_t version:string_t",
    "product": "name:string_t vendor_name:string_t",
    "request": "uid:string_t!",
    "response": "code:integer_t error:string_t",
    "service": "name:string_t",
    "user": "groups:group[] name:string_t org:organization type_id:integer_t uid:string_t",
}
SHAPE = {
    kind: {pair.partition(":")[0]: pair.partition(":")[2] for pair in text.split()}
    for kind, text in _SHAPE.items()
}
TYPES: dict[str, type] = {
    "string_t": str,
    "integer_t": int,
    "long_t": int,
    "timestamp_t": int,
    "object": dict,
}
ENUMS: dict[str, dict[int, str | None]] = {
    "status_id": {0: "Unknown", 1: "Success", 2: "Failure", 99: None},
    "action_id": {1: "Allowed", 2: "Denied"},
    "disposition_id": {1: "Allowed", 2: "Blocked"},
    "severity_id": {1: "Informational"},
}
#: Of the members that the export writes, one must be there.
AT_LEAST_ONE = {
    "actor": ("user",),
    "user": ("name", "uid"),
    "network_endpoint": ("name",),
    "policy": ("name", "uid"),
    "product": ("name",),
    "service": ("name",),
    "message_context": ("service",),
    "idp": ("name",),
}


def check(value: Any, kind: str) -> None:
    """Compare an object with the schema, and all below it."""
    spec = SHAPE[kind]
    assert {name for name, each in spec.items() if each.endswith("!")} <= set(value)
    assert any(value.get(name) for name in AT_LEAST_ONE.get(kind, tuple(value)))
    for name, member in value.items():
        word = spec[name].removesuffix("!")
        assert isinstance(member, list) is word.endswith("[]")
        for each in member if isinstance(member, list) else [member]:
            if (plain_kind := word.removesuffix("[]")) in SHAPE:
                check(each, plain_kind)
            else:
                assert type(each) is TYPES[plain_kind]


def record(seq: int, phase: Phase, **changes: object) -> bytes:
    made: RequestRecord = dataclasses.replace(sample_record(phase, "req_a"), **changes)  # type: ignore[arg-type]
    stamp = Stamp(uuid7(seq, seq), "2026-11-02T12:00:00.123456Z", seq)
    return seal(CONTEXT.head, seq, encode_request(made, CONTEXT, stamp))


def events(*records: bytes) -> list[dict[str, Any]]:
    lines = list(ocsf_lines(request_rows(records, Wanted(), Tally())))
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert all(all(0x20 <= each <= 0x7E for each in line[:-1]) for line in lines)
    return [json.loads(line) for line in lines]


#: Nothing but a phase: what the log itself writes when a request was left open.
BARE = {
    "actor": None,
    "policy": None,
    "classifier": None,
    "route": None,
    "pins": (),
    "limits": None,
    "filters": (),
    "result": None,
    "endpoint": "",
}
NAMELESS = {"actor": Actor("", "", "", "", "", "", ())}
PHASES = [Phase.ADMITTED, Phase.COMPLETED, Phase.DENIED, Phase.ABORTED, Phase.ABANDONED]


@pytest.mark.parametrize("changes", [{}, BARE, NAMELESS], ids=["full", "bare", "nameless"])
@pytest.mark.parametrize("phase", PHASES)
def test_an_event_has_the_shape_of_api_activity(phase: Phase, changes: dict[str, object]) -> None:
    (made,) = events(record(0, phase, **changes))
    check(made, "api_activity")
    assert (made["class_uid"], made["category_uid"], made["type_uid"]) == (6003, 6, 600399)
    assert made["type_uid"] == made["class_uid"] * 100 + made["activity_id"]
    assert made["activity_name"] == phase.value.capitalize()
    for name, words in ENUMS.items():
        assert words[made[name]] in (None, made[name.removesuffix("_id")])
    assert set(made["unmapped"]["tidegate"]) <= set(COLUMNS)


def test_an_event_says_who_where_and_what_was_decided() -> None:
    tried = (("a", "upstream-timeout"), ("b", "answered"))
    route = RouteFact("assistant", ("a", "b"), "b", "m", True, "eu", "internal", 2, tried)
    intent, end = events(record(0, Phase.ADMITTED), record(1, Phase.COMPLETED, route=route, classifier=None))
    assert intent["status"] == "Permitted"
    assert "dst_endpoint" not in intent
    assert end["time"] == int(datetime(2026, 11, 2, 12, tzinfo=UTC).timestamp()) * 1000 + 123
    assert end["metadata"]["correlation_uid"] == intent["metadata"]["correlation_uid"] == "req_a"
    assert (end["metadata"]["tenant_uid"], end["metadata"]["sequence"]) == ("acme", 1)
    assert end["dst_endpoint"] == {"name": "b"}
    assert end["ai_model"] == {"name": "m", "ai_provider": "b"}
    assert end["message_context"]["total_tokens"] == 150
    assert end["duration"] == 90
    assert end["actor"]["user"]["groups"] == [{"name": "clerk"}]
    rest = end["unmapped"]["tidegate"]
    assert rest["attempts"] == ["a: upstream-timeout", "b: answered"]
    assert (rest["label"], rest["hosted"], rest["tokens_settled"]) == ("restricted", True, 333)


def test_a_denied_request_is_blocked_and_a_lost_one_is_neither_success_nor_failure() -> None:
    (denied,) = events(record(0, Phase.DENIED, reason_code="no-destination", route=None))
    assert (denied["action"], denied["disposition"], denied["status"]) == ("Denied", "Blocked", "Failure")
    assert denied["status_code"] == "no-destination"
    lost = events(record(0, Phase.ADMITTED), record(1, Phase.ABANDONED, **BARE))[1]
    assert (lost["action"], lost["status"]) == ("Allowed", "Unknown")
    # The caller and the label are those of the intent, which the closing record of the log does not name.
    assert lost["actor"]["user"]["uid"] == "5" * 64
    assert lost["unmapped"]["tidegate"]["label"] == "restricted"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_stays_a_value_on_one_line_of_printable_ascii(text: str) -> None:
    route = RouteFact(text, (text,), text, text, False, text, text, 1, ((text, "answered"),))
    (made,) = events(record(0, Phase.COMPLETED, route=route))
    assert made["unmapped"]["tidegate"].get("model_asked", "") == text
    assert made.get("dst_endpoint", {"name": ""}) == {"name": text}
