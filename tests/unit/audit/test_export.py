"""Exports and their check."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest

from gateway.audit.checkpoint import SignedCheckpoint
from gateway.audit.export import Manifest, digest_of, export_rows, find_request, stored_records, verify_export
from gateway.audit.keys import PemKey, new_pem, sign_note
from gateway.audit.report import EXIT_BROKEN, EXIT_SOUND, Report
from gateway.audit.tree import leaf_hash
from gateway.audit.verify import verify_log
from tests.fakes.audit_logs import ORIGIN, TRUST, closed_log, files_of

_FILES = files_of(closed_log(10))
_REPORT = verify_log(_FILES, TRUST)
_ROWS = list(export_rows(_FILES, _REPORT.tree.size))


def _manifest(signed: SignedCheckpoint | None = None) -> str:
    last = signed or _REPORT.last
    assert last is not None
    return Manifest(last, len(_ROWS), 0, "2026-12-01T00:00:00Z", digest_of(_ROWS)).encode()


def _check(rows: list[bytes], manifest: str | None = None) -> Report:
    return verify_export(_manifest() if manifest is None else manifest, rows, TRUST)


def test_an_export_is_sound_and_holds_every_record() -> None:
    report = _check(_ROWS)
    assert report.exit_status == EXIT_SOUND
    assert report.tree.root() == _REPORT.tree.root()
    assert len(_ROWS) == _REPORT.tree.size


def test_a_row_holds_the_stored_bytes_their_leaf_and_a_proof() -> None:
    stored = list(stored_records(_FILES))[5]
    row = json.loads(_ROWS[5])
    assert stored in _ROWS[5]
    assert row["seq"] == 5
    assert row["leaf"] == leaf_hash(stored).hex()
    assert row["record"] == json.loads(stored)
    assert all(len(b64decode(node)) == 32 for node in row["proof"])


def test_the_manifest_says_what_the_rows_are() -> None:
    tree = json.loads(_manifest())
    assert (tree["format"], tree["origin"], tree["count"]) == ("tidegate-export/1", ORIGIN, len(_ROWS))
    assert tree["root"] == _REPORT.tree.root().hex()
    assert tree["signed_by"][0]["name"] == ORIGIN
    assert "public_key" not in json.dumps(tree)


@pytest.mark.parametrize("place", [0, 7, len(_ROWS) - 1])
def test_a_changed_missing_moved_or_doubled_row_is_found(place: int) -> None:
    changed = list(_ROWS)
    changed[place] = _ROWS[place].replace(b'"outcome"', b'"Outcome"')
    missing = _ROWS[:place] + _ROWS[place + 1 :]
    doubled = [*_ROWS[: place + 1], *_ROWS[place:]]
    for rows, index in ((changed, place), (missing, place), (doubled, place + 1)):
        report = _check(rows)
        assert report.exit_status == EXIT_BROKEN
        assert report.first_bad_index == index


@pytest.mark.parametrize(
    "row",
    [
        b"",
        b"{}\n",
        b'{"seq":0,"record":{}}\n',
        b'{"seq":0,"leaf":5,"proof":7,"record":{}}\n',
        b'{"seq":0,"leaf":"","proof":["%"],"record":{}}\n',
        b'not json,"record":{}}\n',
        b"\xff\xfe\n",
    ],
)
def test_a_malformed_row_is_found(row: bytes) -> None:
    report = _check([row, *_ROWS[1:]])
    assert [(f.code, f.index) for f in report.findings] == [("bad-row", 0)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"seq":', b'{"record":{"phase":"denied"},"seq":'),
        (b'{"seq":', b'{"record" : {"phase":"denied"},"seq":'),
        (b'{"seq":', b'{"note":"sent to another place","seq":'),
        (b'{"seq":', b'{"seq":9,"seq":'),
        (b'{"seq":', b'{ "seq":'),
        (b',"record":', b',"note":1,"record":'),
        (b',"record":', b',"record":{},"record":'),
        (b"}\n", b',"record":{}}\n'),
        (b"}\n", b"}"),
        (b"}\n", b"}\r\n"),
        (b"}\n", b"} \n"),
        (b'="]', b'=",""]'),
    ],
)
def test_a_row_that_says_anything_beside_its_record_is_found(old: bytes, new: bytes) -> None:
    first, last = _ROWS[3].split(old, 1) if old != b"}\n" else (_ROWS[3][:-2], b"")
    report = _check([*_ROWS[:3], first + new + last, *_ROWS[4:]])
    assert [(f.code, f.index) for f in report.findings] == [("bad-row", 3)]


def test_a_proof_spelt_otherwise_is_found() -> None:
    """The last character of base64 before a padding has bits that say nothing."""
    at = _ROWS[3].index(b'="')
    letter = _ROWS[3][at - 1 : at]
    assert b64decode(b"AA" + letter + b"=") == b64decode(b"AA" + bytes([letter[0] + 1]) + b"=")
    row = _ROWS[3][: at - 1] + bytes([letter[0] + 1]) + _ROWS[3][at:]
    assert [f.code for f in _check([*_ROWS[:3], row, *_ROWS[4:]]).findings] == ["bad-row"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 99),
        ("count", None),
        ("origin", "tidegate/other/0"),
        ("records_sha256", "0" * 64),
        ("size", 3),
        ("root", "00"),
        ("first_seq", 1),
        ("record_schema", "audit/2"),
        ("signed_by", []),
        ("verify_with", "true"),
        ("unsigned_count", -1),
        ("unsigned_count", True),
        ("created", "yesterday"),
        ("note", "all is well"),
    ],
)
def test_a_manifest_that_says_otherwise_is_found(name: str, value: object) -> None:
    tree = {**json.loads(_manifest()), name: value}
    report = _check(_ROWS, json.dumps(tree, indent=2) + "\n")
    assert [(f.code, f.index) for f in report.findings] == [("bad-manifest", len(_ROWS))]
    assert report.signed_tree.size == len(_ROWS)


def test_a_manifest_that_says_something_twice_is_found() -> None:
    told = _manifest().replace('{\n  "format"', '{\n  "count": 99,\n  "format"')
    assert [finding.code for finding in _check(_ROWS, told).findings] == ["bad-manifest"]


def test_a_row_more_than_was_signed_is_found() -> None:
    report = _check([*_ROWS, _ROWS[-1]])
    assert [(f.code, f.index) for f in report.findings] == [("bad-row", len(_ROWS))]


def test_a_manifest_signed_by_a_rogue_key_is_found() -> None:
    assert _REPORT.last is not None
    point = _REPORT.last.checkpoint
    rogue = SignedCheckpoint(point, (sign_note(PemKey(new_pem()), ORIGIN, point.text()),))
    report = _check(_ROWS, _manifest(rogue))
    assert [finding.code for finding in report.findings] == ["rogue-signature"]


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "[" * 100_000,
        "{}",
        '{"format":"tidegate-export/1","checkpoint":"x"}',
        '{"format":"tidegate-export/1"}',
    ],
)
def test_a_malformed_manifest_is_found(manifest: str) -> None:
    report = _check(_ROWS, manifest)
    assert [finding.code for finding in report.findings] == ["malformed-checkpoint"]


def test_finds_the_records_of_one_request_only() -> None:
    found = [json.loads(stored) for stored in find_request(_FILES, "r1")]
    assert [(row["request_id"], row["phase"]) for row in found] == [("r1", "admitted"), ("r1", "completed")]
    assert list(find_request(_FILES, "acme")) == []
