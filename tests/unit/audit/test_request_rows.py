"""Records about requests for exports, and their lines of comma-separated values."""

from __future__ import annotations

import csv
import dataclasses
import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.audit.bench import sample_record
from gateway.audit.canonical import Stamp, encode_request, seal, uuid7
from gateway.audit.export_csv import csv_lines, neutral
from gateway.audit.reading import Unproven, as_signed
from gateway.audit.request_cells import COLUMNS, cells
from gateway.audit.request_rows import RequestRow, Tally, Wanted, request_rows
from gateway.audit.tree import MerkleTree, leaf_hash
from gateway.domain.record import Actor, Phase, RouteFact
from tests.fakes.audit_logs import CONTEXT

FORMAT_PAGE = Path(__file__).parents[3] / "docs" / "audit-format.md"


def record(seq: int, request_id: str, phase: Phase, day: int = 1, **changes: object) -> bytes:
    made = dataclasses.replace(sample_record(phase, request_id), **changes)  # type: ignore[arg-type]
    stamp = Stamp(uuid7(seq, seq), f"2026-11-{day:02}T12:00:00.000000Z", seq)
    return seal(CONTEXT.head, seq, encode_request(made, CONTEXT, stamp))


def actor(tenant: str) -> Actor:
    return Actor(tenant, "5" * 64, "7" * 64, "https://issuer.example", "app", "k1", ("clerk",))


def listed(records: list[bytes], wanted: Wanted = Wanted()) -> tuple[list[RequestRow], Tally]:  # noqa: B008
    tally = Tally()
    return list(request_rows(records, wanted, tally)), tally


LOG = [
    record(0, "req_a", Phase.ADMITTED, 1, actor=actor("acme")),
    record(1, "req_b", Phase.ADMITTED, 1, actor=actor("other")),
    record(2, "req_a", Phase.COMPLETED, 2, actor=actor("acme"), classifier=None),
    record(3, "req_b", Phase.ABANDONED, 3, actor=None, classifier=None, route=None),
    record(4, "req_c", Phase.DENIED, 3, actor=None, classifier=None, route=None),
]


def test_each_record_is_a_row_and_a_closing_one_has_the_caller_and_label_of_its_intent() -> None:
    rows, tally = listed(LOG)
    assert [(row.seq, row.record.phase) for row in rows] == [
        (0, "admitted"),
        (1, "admitted"),
        (2, "completed"),
        (3, "abandoned"),
        (4, "denied"),
    ]
    assert [row.who.tenant if row.who else None for row in rows] == ["acme", "other", "acme", "other", None]
    assert [row.level for row in rows] == ["restricted"] * 4 + [None]
    assert [row.leaf for row in rows] == [leaf_hash(stored) for stored in LOG]
    assert (tally.rows, tally.without_tenant) == (5, 0)


@pytest.mark.parametrize(
    ("wanted", "seqs", "without_tenant"),
    [
        (Wanted("2026-11-02"), [2, 3, 4], 0),
        (Wanted("2026-11-01", "2026-11-02"), [0, 1], 0),
        (Wanted(tenant="acme"), [0, 2], 1),
        (Wanted("2026-11-03", tenant="other"), [3], 1),
        (Wanted(tenant="acm"), [], 1),
    ],
)
def test_a_period_and_a_tenant_choose_rows(wanted: Wanted, seqs: list[int], without_tenant: int) -> None:
    rows, tally = listed(LOG, wanted)
    assert [row.seq for row in rows] == seqs
    assert (tally.rows, tally.without_tenant) == (len(seqs), without_tenant)


def test_a_record_that_cannot_be_read_or_is_out_of_place_ends_the_export() -> None:
    broken = LOG[1].replace(b'"outcome"', b'"0utcome"')
    with pytest.raises(Unproven, match="record 1 cannot be read"):
        listed([LOG[0], broken, *LOG[2:]])
    with pytest.raises(Unproven, match="record 1 cannot be read"):
        listed([LOG[0], LOG[2]])


def test_records_that_are_not_the_signed_ones_end_the_export() -> None:
    tree = MerkleTree()
    tree.extend(map(leaf_hash, LOG))
    assert list(as_signed(LOG, tree)) == LOG
    for other in (LOG[:-1], [*LOG, LOG[0]], [LOG[0].replace(b"acme", b"acmf"), *LOG[1:]]):
        with pytest.raises(Unproven, match="not those that were signed"):
            list(as_signed(other, tree))


def read_back(rows: list[RequestRow]) -> list[dict[str, str]]:
    text = b"".join(csv_lines(rows)).decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_a_line_says_what_the_record_says() -> None:
    route = RouteFact(
        "assistant",
        ("a", "b"),
        "b",
        "m",
        False,
        "eu",
        "restricted",
        2,
        (("a", "upstream-timeout"), ("b", "answered")),
    )
    rows = read_back(listed([LOG[0], record(1, "req_a", Phase.COMPLETED, 2, route=route)])[0])
    assert list(rows[0]) == list(COLUMNS)
    assert (rows[0]["phase"], rows[0]["tenant"], rows[0]["label"], rows[0]["kinds"]) == (
        "admitted",
        "acme",
        "restricted",
        "iban",
    )
    end = rows[1]
    assert end["attempts"] == "a: upstream-timeout, b: answered"
    assert (end["destination"], end["hosted"], end["tokens_settled"]) == ("b", "false", "333")
    assert (end["latency_us"], end["status"], end["input_tokens"]) == ("90000", "200", "100")
    assert end["filters"] == "identifiers@1 mask iban 1"
    assert (rows[0]["status"], rows[0]["destination"]) == ("", "")


def test_every_column_has_a_value_in_each_row_and_a_line_in_the_documentation() -> None:
    page = FORMAT_PAGE.read_text("utf-8")
    for row in listed(LOG)[0]:
        assert tuple(sorted(cells(row))) == tuple(sorted(COLUMNS))
    assert [name for name in COLUMNS if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("value", "safe"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\\tx"),
        ("\rx", "'\\rx"),
        ("  =1", "'  =1"),
        ("\uff1dcmd", "'\uff1dcmd"),
        ("a;=cmd", "a;'=cmd"),
        ('a;"=cmd', "a;'\"=cmd"),
        ("a\n=cmd", "a\\n'=cmd"),
        ("model-a", "model-a"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_formulas_stand_behind_an_apostrophe(value: str, safe: str) -> None:
    assert neutral(value) == safe


@given(st.text(max_size=40), st.text(alphabet="=+-@\t\r\n,;|\"' a", max_size=20))
def test_no_text_begins_a_formula_moves_a_column_or_breaks_a_line(model: str, name: str) -> None:
    text = "".join(c for c in model if not "\ud800" <= c <= "\udfff")
    route = RouteFact(name, (text, name), name, text, False, text, "restricted", 1, ((text, "answered"),))
    written = b"".join(csv_lines(listed([record(0, "req_a", Phase.ADMITTED, 1, route=route)])[0]))
    assert written.count(b"\r\n") == written.count(b"\n") == written.count(b"\r") == 2
    for delimiter in ",;\t|":
        for row in csv.reader(io.StringIO(written.decode(), newline=""), delimiter=delimiter):
            assert not any(cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)
    assert all(
        None not in row for row in read_back(listed([record(0, "r", Phase.ADMITTED, 1, route=route)])[0])
    )


def test_memory_does_not_grow_with_the_log() -> None:
    def peak(count: int) -> tuple[int, int]:
        def records() -> Iterator[bytes]:
            for number in range(count):
                yield record(2 * number, f"req_{number}", Phase.ADMITTED)
                yield record(2 * number + 1, f"req_{number}", Phase.COMPLETED, classifier=None)

        tracemalloc.start()
        written = sum(map(len, csv_lines(request_rows(records(), Wanted(), Tally()))))
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top, written

    peak(10)
    small, _ = peak(20)
    large, written = peak(600)
    assert written > 500_000
    assert large < small + 64 * 1024
