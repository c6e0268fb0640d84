"""`tidegate audit timeline`: every question about one request, answered from verified records only."""

from __future__ import annotations

import dataclasses
import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.audit import layout
from gateway.audit.bench import sample_record
from gateway.audit.canonical import LogEvent, encode_event, encode_request
from gateway.audit.checkpoint import TrustedKey
from gateway.audit.commit import Committer, Entry
from gateway.audit.files import OsFiles
from gateway.audit.keys import encode_trust
from gateway.audit.tree import leaf_hash, verify_inclusion
from gateway.cli.main import main as cli
from gateway.domain.approval import ApprovalFact
from gateway.domain.record import Phase, RouteFact, ToolCallFact
from tests.fakes.audit_logs import CONTEXT, KEY, ORIGIN, HandClock, new_committer

#: What a hostile model name or upstream id would try: markup, a terminal sequence, a direction mark.
HOSTILE = '</td><script>alert(1)</script>"\x1b[2J\u202e'
APPROVAL = "apr_" + "a" * 48


def entry(request_id: str, phase: Phase, **changes: object) -> Entry:
    record = dataclasses.replace(sample_record(phase, request_id), **changes)  # type: ignore[arg-type]
    return Entry(encode_request(record, CONTEXT, HandClock().stamp()), phase, request_id)


def event(kind: str, code: str, **facts: str | int) -> Entry:
    body = encode_event(LogEvent(kind, code, tuple(facts.items())), CONTEXT, HandClock().stamp())
    return Entry(body, Phase.LOG, "")


def fill(log: Committer) -> None:
    """A request with an approval and a fallback, one with hostile text, a refused one, two without an end."""
    base = sample_record(Phase.ADMITTED, "x").classifier
    assert base is not None
    seen = dataclasses.replace(base, degraded="context-model-late", inherited="confidential")
    intent = RouteFact("assistant", ("private-moe", "private-spare"), hosted=False)
    tried = (("private-moe", "upstream-timeout"), ("private-spare", "answered"))
    went = RouteFact(
        "assistant", intent.destinations, "private-spare", "m", False, "eu", "restricted", 2, tried
    )
    approved = ApprovalFact(APPROVAL, "used", "b" * 64)
    call = ToolCallFact("lookup", "claims@2", "sha256:00", "9" * 64, "released")
    log.commit(
        [event("approval-granted", "ok", approval_id=APPROVAL, request_id="req_asked", approver_ref="b")]
    )
    log.commit([entry("req_1", Phase.ADMITTED, classifier=seen, route=intent, approval=approved)])
    log.commit([entry("req_10", Phase.ADMITTED)])
    log.commit(
        [
            event(
                "upstream-attempt",
                "upstream-timeout",
                request_id="req_1",
                attempt=2,
                destination="private-spare",
            )
        ]
    )
    log.commit([entry("req_1", Phase.COMPLETED, classifier=None, route=went, tool_calls=(call,))])
    log.commit([entry("req_hostile", Phase.ADMITTED, route=RouteFact(HOSTILE, (HOSTILE,)))])
    log.commit([entry("req_hostile", Phase.COMPLETED)])
    log.commit([entry("req_denied", Phase.DENIED, reason_code="no-destination", route=None, filters=())])
    none = dataclasses.replace(base, kinds=(), tags=(), finding_count=0)
    result = sample_record(Phase.COMPLETED, "x").result
    assert result is not None
    blocked = dataclasses.replace(result, error_class="OutputBlocked", status=502)
    log.commit([entry("req_blocked", Phase.ADMITTED, classifier=none)])
    log.commit(
        [entry("req_blocked", Phase.ABORTED, reason_code="output-blocked", filters=(), result=blocked)]
    )
    log.commit([entry("req_late", Phase.ADMITTED)])
    log.commit([entry("req_late", Phase.ABORTED, reason_code="audit-deadline", route=None, filters=())])
    log.commit([entry("req_lost", Phase.ADMITTED)])
    log.commit([entry("req_lost", Phase.ABANDONED, route=None, filters=(), result=None)])


@pytest.fixture
def trust(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(encode_trust((TrustedKey(ORIGIN, KEY.public_key),)), "utf-8")
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "audit"
    place.mkdir()
    log = new_committer(OsFiles(place, (layout.SEGMENTS, layout.CHECKPOINTS)))
    log.start()
    fill(log)
    log.stop("ok")
    return place


def run(request_id: str, directory: Path, trust: Path, *more: str) -> Result:
    arguments = ["audit", "timeline", request_id, "--dir", str(directory), "--trust", str(trust), *more]
    return CliRunner().invoke(cli, arguments)


def says(output: str, name: str, value: str) -> bool:
    return re.search(rf"^  {re.escape(name)} +{re.escape(value)}$", output, re.MULTILINE) is not None


def test_every_question_about_a_request_is_answered(directory: Path, trust: Path) -> None:
    done = run("req_1", directory, trust)
    assert done.exit_code == 0, done.output
    for name, value in (
        ("tenant", "acme"),
        ("label", "restricted"),
        ("kinds found", "iban"),
        ("inherited from earlier answers", "confidential"),
        ("degraded", "context-model-late"),
        ("policy", "routing version 7"),
        ("rules", "restricted-stays, default-deny"),
        (APPROVAL, "used (admitted record)"),
        ("destinations", "private-moe, private-spare"),
        ("any of them hosted", "no"),
        ("attempt 2 permitted to", "private-spare"),
        ("attempt 1", "private-moe: upstream-timeout"),
        ("attempt 2", "private-spare: answered"),
        ("destination", "private-spare"),
        ("output filter", "identifiers@1: mask iban, 1 times"),
        ("tool call", "lookup (claims@2): released"),
        ("tokens reserved", "400"),
        ("tokens settled", "333"),
        ("time, total", "90.000 ms"),
    ):
        assert says(done.output, name, value), (name, done.output)
    # The approval was granted to the request before, and the attempt is a record of the log itself.
    kinds = re.findall(r"^  record \d+ +(\S+) at", done.output, re.MULTILINE)
    assert kinds[0] == "approval-granted"
    assert "upstream-attempt" in kinds
    assert len(re.findall(r"^  record \d+ ", done.output, re.MULTILINE)) == 4


def test_the_json_holds_each_record_as_stored_with_a_proof_to_the_signed_root(
    directory: Path, trust: Path
) -> None:
    tree = json.loads(run("req_1", directory, trust, "--json").output)
    root = bytes.fromhex(tree["log"]["root"])
    assert ORIGIN in tree["log"]["checkpoint"]
    assert len(tree["records"]) == 4
    lines = run("req_1", directory, trust, "--json").output.splitlines()[1:]
    for row, line in zip(tree["records"], lines, strict=False):
        stored = line.partition(',"record":')[2].rstrip(",").removesuffix("}")
        leaf = leaf_hash(stored.encode())
        assert leaf.hex() == row["leaf"]
        proof = [b64decode(node) for node in row["proof"]]
        assert verify_inclusion(leaf, row["seq"], tree["log"]["size"], proof, root)


class Page(HTMLParser):
    """Elements of a page, and whether each is closed by its own end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("request_id", ["req_1", "req_hostile"])
def test_the_page_stands_alone_and_nothing_in_a_record_acts(
    directory: Path, trust: Path, tmp_path: Path, request_id: str
) -> None:
    out = tmp_path / "page.html"
    assert run(request_id, directory, trust, "--html", str(out)).exit_code == 0
    text = out.read_text("utf-8")
    page = Page(text)
    assert page.open == []
    assert not {"script", "link", "img", "iframe", "a", "form"} & set(page.tags)
    assert "default-src 'none'" in text
    assert '<html lang="en">' in text
    assert page.tags.count("h1") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert ("&lt;script&gt;" in text) is (request_id == "req_hostile")
    again = run(request_id, directory, trust, "--html", str(out))
    assert again.exit_code == 1
    assert "--html: cannot be made" in again.output


def test_no_terminal_sequence_of_a_record_reaches_the_terminal(directory: Path, trust: Path) -> None:
    output = run("req_hostile", directory, trust).output
    assert "\\x1b[2J\\u202e" in output
    assert "\x1b" not in output
    assert "\u202e" not in output


def test_a_refused_request_went_nowhere_and_a_lost_one_may_have_gone_anywhere(
    directory: Path, trust: Path
) -> None:
    denied = run("req_denied", directory, trust).output
    assert says(denied, "destination", "nowhere: it was refused before anything left")
    assert says(denied, "destinations", "nowhere")
    unknown = "unknown: it may have gone to every place that was allowed"
    for request_id in ("req_lost", "req_late"):
        told = run(request_id, directory, trust).output
        assert says(told, "destination", unknown)
        assert "output filter" not in told
    # Closed by nobody: the log stopped with it open, or the writer closed it as abandoned.
    assert says(run("req_10", directory, trust).output, "destination", unknown)


def test_an_unknown_request_a_part_of_an_id_and_an_approval_alone_are_refused(
    directory: Path, trust: Path
) -> None:
    for request_id in ("req_2", "req_", "", "req_asked", "réq"):
        done = run(request_id, directory, trust)
        assert done.exit_code == 1
        assert "no record of this request is in the log" in done.output


def test_records_that_no_checkpoint_covers_are_not_told(tmp_path: Path, trust: Path) -> None:
    place = tmp_path / "live"
    place.mkdir()
    log = new_committer(OsFiles(place, (layout.SEGMENTS, layout.CHECKPOINTS)))
    log.start()
    log.commit([entry("req_live", Phase.ADMITTED)])
    done = run("req_live", place, trust)
    log.stop("ok")
    assert done.exit_code == 1
    assert "no signed checkpoint covers the records of this request yet" in done.output
    assert run("req_live", place, trust).exit_code == 0


def test_a_changed_log_tells_nothing(directory: Path, trust: Path) -> None:
    segment = next((directory / layout.SEGMENTS).glob("*.seg"))
    segment.write_bytes(segment.read_bytes().replace(b'"kinds":["iban"]', b'"kinds":["ibam"]', 1))
    done = run("req_1", directory, trust)
    assert done.exit_code == 2
    assert "the log does not hold" in done.output
    assert "ibam" not in done.output


def test_a_label_without_a_finding_and_an_answer_that_was_stopped_are_told(
    directory: Path, trust: Path
) -> None:
    told = run("req_blocked", directory, trust).output
    assert says(told, "output filter", "stopped the answer: output-blocked")
    assert "did nothing" not in told
    assert "a floor (of the tenant, of a pinned document, or declared by the caller)" in told
    assert "other reason" not in run("req_1", directory, trust).output
