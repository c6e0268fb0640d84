"""Which request an approval lets through, and who may decide."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.approvals.judge import (
    bound,
    new_id,
    place_of,
    reason_not_to_decide,
    reason_not_to_use,
    state_at,
)
from gateway.domain.approval import Approval, ApprovalAsk, ApprovalState
from tests.fakes.rooms import PRINCIPAL

ID = new_id("0" * 32, "1" * 16)
ASK = ApprovalAsk(
    tenant="demo",
    subject_ref=PRINCIPAL.subject_ref,
    request_hmac="r" * 64,
    policy_sha256="p" * 64,
    destinations=("hosted/gpt", "private/moe"),
    level="internal",
    tags=("fin",),
    role="approver",
    rule_ids=("ordinary",),
    model="assistant",
    client_id="app",
    request_id="req_1",
)
APPROVED = Approval(ID, ApprovalState.APPROVED, ASK, asked_ms=0, until_ms=1_000, approver_ref="a" * 64)
PENDING = replace(APPROVED, state=ApprovalState.PENDING, approver_ref=None)
APPROVER = replace(PRINCIPAL, subject="bob", subject_ref="b" * 64, roles=frozenset({"approver"}))
#: Facts for the person who decides; the request may come again with others.
NOT_BOUND = {"rule_ids", "model", "client_id", "request_id"}


def test_lets_the_same_request_through() -> None:
    assert reason_not_to_use(APPROVED, ID, replace(ASK, request_id="req_2"), 999) is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (ApprovalState.PENDING, "approval-pending"),
        (ApprovalState.DENIED, "approval-denied"),
        (ApprovalState.USED, "approval-used"),
    ],
)
def test_only_an_approved_one_lets_through(state: ApprovalState, reason: str) -> None:
    assert reason_not_to_use(replace(APPROVED, state=state), ID, ASK, 0) == reason


@pytest.mark.parametrize("state", [ApprovalState.PENDING, ApprovalState.APPROVED])
def test_ends_at_its_time(state: ApprovalState) -> None:
    approval = replace(APPROVED, state=state)
    assert state_at(approval, 999) is state
    assert reason_not_to_use(approval, ID, ASK, 1_000) == "approval-expired"
    assert reason_not_to_decide(approval, ID, APPROVER, 1_000) == "approval-closed"


@pytest.mark.parametrize("state", [ApprovalState.USED, ApprovalState.DENIED])
def test_what_is_decided_stays_so(state: ApprovalState) -> None:
    assert state_at(replace(APPROVED, state=state), 5_000) is state


def changed(value: object) -> object:
    return (*value, "other") if isinstance(value, tuple) else f"{value}x"


@pytest.mark.parametrize("name", [field.name for field in fields(ApprovalAsk) if field.name not in NOT_BOUND])
def test_any_change_of_what_is_bound_is_refused(name: str) -> None:
    change: dict[str, Any] = {name: changed(getattr(ASK, name))}
    other = replace(ASK, **change)
    assert bound(other) != bound(ASK)
    wanted = {"tenant": "approval-unknown", "subject_ref": "approval-not-yours"}
    assert reason_not_to_use(APPROVED, ID, other, 0) == wanted.get(name, "approval-mismatch")


def test_another_caller_is_not_told_more() -> None:
    other = replace(ASK, subject_ref="o" * 64, request_hmac="x" * 64)
    for state in ApprovalState:
        assert reason_not_to_use(replace(APPROVED, state=state), ID, other, 0) == "approval-not-yours"


def test_an_older_round_of_the_same_place_is_unknown() -> None:
    older = new_id("0" * 32, "2" * 16)
    assert reason_not_to_use(APPROVED, older, ASK, 0) == "approval-unknown"
    assert reason_not_to_decide(PENDING, older, APPROVER, 0) == "approval-unknown"
    assert reason_not_to_use(None, ID, ASK, 0) == "approval-unknown"


@pytest.mark.parametrize(
    ("person", "reason"),
    [
        (APPROVER, None),
        (replace(APPROVER, roles=frozenset({"user"})), "approver-role-missing"),
        (replace(APPROVER, subject_ref=ASK.subject_ref), "approver-is-requester"),
        (replace(APPROVER, tenant="other"), "approval-unknown"),
    ],
)
def test_a_second_person_of_the_role_and_tenant_decides(person: Any, reason: str | None) -> None:
    assert reason_not_to_decide(PENDING, ID, person, 0) == reason


@pytest.mark.parametrize("state", [state for state in ApprovalState if state is not ApprovalState.PENDING])
def test_nothing_is_decided_twice(state: ApprovalState) -> None:
    assert reason_not_to_decide(replace(PENDING, state=state), ID, APPROVER, 0) == "approval-closed"


@given(
    st.text("0123456789abcdef", min_size=32, max_size=32),
    st.text("0123456789abcdef", min_size=16, max_size=16),
)
def test_an_id_leads_back_to_its_place(place: str, nonce: str) -> None:
    assert place_of(new_id(place, nonce)) == place


@given(st.text())
def test_no_other_text_is_an_id(text: str) -> None:
    assert place_of(text) is None or len(text) == 52


@given(st.sampled_from(list(ApprovalState)), st.integers(0, 5_000), st.integers(0, 5_000))
def test_what_is_not_approved_or_is_over_never_passes(state: ApprovalState, until: int, now: int) -> None:
    approval = replace(APPROVED, state=state, until_ms=until)
    passes = reason_not_to_use(approval, ID, ASK, now) is None
    assert passes == (state is ApprovalState.APPROVED and now < until)
