"""Refusals of the admin API as problem documents (RFC 9457), with a candidate's findings taken apart."""

from __future__ import annotations

import re

import msgspec

from gateway.administration import Reply
from gateway.errors import CandidateRejected, Refusal
from gateway.web.admin_answers import Finding, Problem

MAX_FINDINGS = 50
_MAX_CHARACTERS = 1000
_PLACE = re.compile(
    r"(?P<file>[^\s:]+\.[a-z]+)(?::(?P<line>\d+))?(?::(?P<column>\d+))?: (?P<rest>.*)", re.DOTALL
)
_EXPECTED = re.compile(r"expected (?P<expected>.*?)(?:, found (?P<found>.*))?", re.DOTALL)
_TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    412: "Precondition failed",
    413: "Payload too large",
    415: "Unsupported media type",
    422: "Candidate rejected",
    428: "Precondition required",
    429: "Too many requests",
    500: "Internal error",
    503: "Not ready",
}


def findings_of(text: str) -> tuple[Finding, ...]:
    """The lines of a rejection, each with file, line, column, expected and found, as far as it says them."""
    return tuple(_finding(line[:_MAX_CHARACTERS]) for line in text.splitlines()[:MAX_FINDINGS])


def _finding(line: str) -> Finding:
    place = _PLACE.fullmatch(line)
    rest = place["rest"] if place else line
    said = re.search(r"expected .*", rest, re.DOTALL)
    words = _EXPECTED.fullmatch(said[0]) if said else None
    return Finding(
        message=line,
        file=place["file"] if place else "",
        line=int(place["line"]) if place and place["line"] else None,
        column=int(place["column"]) if place and place["column"] else None,
        expected=words["expected"] if words else "",
        found=(words["found"] or "") if words else "",
    )


def problem_reply(refusal: Refusal, request_id: str) -> Reply:
    """A refusal as an answer; only its public parts are in it."""
    status = refusal.http_status
    body = Problem(
        type=f"urn:tidegate:problem:{refusal.public_code}",
        title=_TITLES.get(status, "Refused"),
        status=status,
        detail=refusal.message,
        code=refusal.public_code,
        request_id=request_id,
        findings=findings_of(refusal.findings) if isinstance(refusal, CandidateRejected) else (),
    )
    return Reply(
        status,
        msgspec.json.encode(body),
        code=refusal.code,
        retry_after_seconds=refusal.retry_after_seconds,
    )
