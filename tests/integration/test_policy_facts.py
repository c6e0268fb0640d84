"""Facts that a caller states in headers, over a running gateway: into the decision, into the record, back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.rig import Rig, chat, open_rig
from tests.fakes.stack import copy_policies, tidegate

pytestmark = pytest.mark.integration
ATTRIBUTES = "attributes:\n  purpose:\n    values: [audit, sales]\n\nmodels:\n  assistant:\n"
DENIAL = (
    "rules:\n  - id: no-sales\n    labels: public..restricted\n    when: attributes.purpose == 'sales'\n"
    "    deny: Not for sales.\n\n  - id: batches-stay\n    labels: public..internal\n"
    "    when: workload == 'batch'\n    destinations: [private-moe]\n\n"
)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    edits = {"models:\n  assistant:\n": ATTRIBUTES, "rules:\n": DENIAL}
    with open_rig(tmp_path_factory.mktemp("facts"), routing=edits, policy_extra='region = "eu"') as rig:
        yield rig


def test_workload_and_attributes_decide_and_stand_in_the_record(rig: Rig) -> None:
    with rig.watch() as seen, rig.ended():
        body = chat("plain words", tools=[{"type": "function", "function": {"name": "own_tool"}}])
        answer = rig.post(body, "X-Tidegate-Workload: batch", "X-Tidegate-Attribute-Purpose: audit")
    assert answer.status == 200, answer.body
    assert answer.headers["x-tidegate-destination"] == "private-moe"
    assert seen.hosted_bytes == b""
    asked = seen.records[0]["decision"]["asked"]
    assert (asked["workload"], asked["region"], asked["attributes"]) == ("batch", "eu", {"purpose": "audit"})
    assert (asked.get("tools"), asked["other_tool_count"]) == (None, 1)
    # What an application states is not passed on.
    assert b"purpose" not in seen.upstream_bytes.lower()


@pytest.mark.parametrize(
    ("header", "status", "code"),
    [
        ("X-Tidegate-Attribute-Purpose: sales", 403, "denied-by-rule"),
        ("X-Tidegate-Attribute-Purpose: Sales-of-secret-things", 400, "invalid-attribute"),
        ("X-Tidegate-Attribute-Purpos: audit", 400, "invalid-attribute"),
        ("X-Tidegate-Workload: BATCH", 400, "invalid-workload"),
    ],
)
def test_what_is_not_declared_is_refused_recorded_and_kept_out_of_the_record(
    rig: Rig, header: str, status: int, code: str
) -> None:
    with rig.watch() as seen:
        answer = rig.post(chat("plain words"), header)
    assert (answer.status, answer.code) == (status, code)
    assert seen.reasons == [("denied", code)]
    assert seen.upstream_bytes == b""
    assert "secret-things" not in str(seen.records) + seen.log_text


def test_the_log_of_a_running_gateway_is_replayed_and_explained(rig: Rig) -> None:
    with rig.watch() as seen, rig.ended():
        assert rig.post(chat("some words"), "X-Tidegate-Attribute-Purpose: audit").status == 200
    audit, request_id = str(rig.gateway.state.audit), seen.records[0]["request_id"]
    policies = str(rig.gateway.policies)
    same = tidegate("policy", "replay", "--audit", audit, "--candidate", policies)
    assert same.returncode == 0, same.stderr
    assert " 0 change, 0 same answer by another rule" in same.stdout
    told = tidegate("policy", "explain", policies, "--request", request_id, "--audit", audit)
    assert told.returncode == 0, told.stderr
    assert "permit: hosted-openai, private-moe (rule ordinary-prefers-hosted)" in told.stdout


def test_a_shadow_is_recorded_while_the_active_policy_decides(tmp_path: Path) -> None:
    shadow = copy_policies(tmp_path / "shadow", {"[hosted-openai, private-moe]": "[private-moe]"})
    for case in (shadow / "cases").iterdir():
        case.unlink()
    with (
        open_rig(tmp_path, policy_extra=f'shadow_directory = "{shadow}"') as rig,
        rig.watch() as seen,
        rig.ended(),
    ):
        assert rig.post(chat("plain words")).headers["x-tidegate-destination"] == "hosted-openai"
    told = seen.records[0]["decision"]["shadow"]
    assert (told["destinations"], told["rule_ids"]) == (["private-moe"], ["ordinary-prefers-hosted"])
    assert seen.grown('tidegate_policy_shadow_decisions_total{outcome="differs"}') == 1
