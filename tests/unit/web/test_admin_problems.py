from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import AdminForbidden, CandidateRejected, NotAuthenticated
from gateway.web.admin_answers import Finding
from gateway.web.admin_problems import MAX_FINDINGS, findings_of, problem_reply


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (
            'routing.yaml:43:16: destinations.x.at: expected one of public, internal, found "internul"',
            ("routing.yaml", 43, 16, "one of public, internal", '"internul"'),
        ),
        (
            "cases/a.yaml:7: case 'x': expected permit, found deny",
            ("cases/a.yaml", 7, None, "permit", "deny"),
        ),
        ("bundle.sig: expected 2 signatures", ("bundle.sig", None, None, "2 signatures", "")),
        ("the policy cannot be loaded", ("", None, None, "", "")),
    ],
)
def test_takes_a_line_apart(line: str, finding: tuple[object, ...]) -> None:
    [found] = findings_of(line)
    assert (found.file, found.line, found.column, found.expected, found.found) == finding
    assert found.message == line


@given(st.text(max_size=5000))
def test_any_text_gives_bounded_findings(text: str) -> None:
    found = findings_of(text)
    assert len(found) <= MAX_FINDINGS
    assert all(isinstance(each, Finding) and len(each.message) <= 1000 for each in found)


def test_a_problem_tells_only_what_is_public() -> None:
    refusal = AdminForbidden("No.", code="user-token", detail="for operators only")
    body = json.loads(problem_reply(refusal, "req_1").body)
    assert body == {
        "type": "urn:tidegate:problem:user-token",
        "title": "Forbidden",
        "status": 403,
        "detail": "No.",
        "code": "user-token",
        "request_id": "req_1",
    }


def test_a_failed_authentication_has_one_body_for_every_cause() -> None:
    causes = [problem_reply(NotAuthenticated("No.", code=code), "r").body for code in ("expired", "bad-alg")]
    assert causes[0] == causes[1]


def test_a_rejected_candidate_tells_its_findings() -> None:
    reply = problem_reply(CandidateRejected("No.", findings="a.yaml:1:2: k: expected x, found y"), "r")
    assert json.loads(reply.body)["findings"][0]["column"] == 2
