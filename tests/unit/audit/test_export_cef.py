"""CEF events: a reader of the format finds every field again, whatever the texts hold."""

from __future__ import annotations

import dataclasses
import re

from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.bench import sample_record
from gateway.audit.canonical import Stamp, encode_request, seal, uuid7
from gateway.audit.export_cef import cef_lines, key_of
from gateway.audit.reading import plain
from gateway.audit.request_cells import COLUMNS
from gateway.audit.request_rows import Tally, Wanted, request_rows
from gateway.domain.record import Phase, RouteFact
from tests.fakes.audit_logs import CONTEXT

_FIELD = re.compile(r"(?:^| )([A-Za-z0-9]+)=((?:[^\\=]|\\[\\=])*?)(?= [A-Za-z0-9]+=|$)")


def record(seq: int, phase: Phase, **changes: object) -> bytes:
    made = dataclasses.replace(sample_record(phase, "req_a"), **changes)  # type: ignore[arg-type]
    stamp = Stamp(uuid7(seq, seq), "2026-11-02T12:00:00.123456Z", seq)
    return seal(CONTEXT.head, seq, encode_request(made, CONTEXT, stamp))


def read_back(*records: bytes) -> list[tuple[list[str], dict[str, str]]]:
    """Header and extension of each line, unescaped."""
    found = []
    for line in cef_lines(request_rows(records, Wanted(), Tally())):
        text = line.decode()
        assert text.endswith("\n")
        assert text[:-1].isprintable()
        parts = re.split(r"(?<!\\)\|", text[:-1], maxsplit=7)
        fields = {key: re.sub(r"\\([\\=])", r"\1", value) for key, value in _FIELD.findall(parts[7])}
        found.append((parts[:7], fields))
    return found


def test_an_event_says_who_where_and_what_was_decided() -> None:
    tried = (("a", "upstream-timeout"), ("b", "answered"))
    route = RouteFact("assistant", ("a", "b"), "b", "m", True, "eu", "internal", 2, tried)
    (head, intent), (_, end) = read_back(record(0, Phase.ADMITTED), record(1, Phase.COMPLETED, route=route))
    assert head == ["CEF:0", "Tidegate", "Tidegate", "audit/1", "admitted", "request admitted", "1"]
    assert (intent["externalId"], intent["suid"], intent["tidegateLabel"]) == (
        "req_a",
        "5" * 64,
        "restricted",
    )
    assert "destinationServiceName" not in intent
    assert end["rt"] == "1793620800123"
    assert (end["destinationServiceName"], end["tidegateHosted"], end["out"]) == ("b", "true", "1234")
    assert end["tidegateAttempts"] == "a: upstream-timeout, b: answered"
    assert (end["tidegateSeq"], len(end["tidegateLeafSha256"])) == ("1", 64)


def test_a_refusal_is_more_severe_than_an_answer() -> None:
    heads = [read_back(record(0, phase))[0][0] for phase in (Phase.COMPLETED, Phase.ABORTED, Phase.DENIED)]
    assert [head[6] for head in heads] == ["1", "3", "5"]


def test_every_column_has_a_key_of_its_own() -> None:
    keys = [key_of(name) for name in COLUMNS]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch("[A-Za-z0-9]+", key) for key in keys)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.text("\\|= \n\r\ta", max_size=12))
def test_no_text_ends_its_field_or_its_line(text: str, name: str) -> None:
    made = text + name
    route = RouteFact(made, (), None, made, False, None, None, 1)
    ((head, fields),) = read_back(record(0, Phase.COMPLETED, route=route))
    assert head[4] == "completed"
    assert fields.get("tidegateModelAsked", "") == plain(made)
    assert fields.get("tidegateDestinationModel", "") == plain(made)
