"""A request that needs a second person: asked, approved, sent once; and every way round that is closed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.store import StoredLog
from tests.fakes.rig import CHAT, Rig, chat, no_trace, open_rig
from tests.fakes.stack import GatewayProcess
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.integration

WORDS = "a plain question about tides"
HEADER = "x-tidegate-approval"
RULE = """rules:
  - id: second-person
    labels: public..restricted
    when: workload == 'batch'
    destinations: [private-moe]
    obligations: {approval_required: true, approver_role: treasury-approver}
"""


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, valkey: ValkeyServer) -> Iterator[Rig]:
    with open_rig(
        tmp_path_factory.mktemp("approvals"), routing={"rules:\n": RULE}, redis_url=valkey.url
    ) as rig:
        yield rig


def ask(
    gateway: GatewayProcess, body: dict[str, Any], approval: str = "", subject: str = "alice", **who: Any
) -> httpx.Response:
    token = gateway.token(subject=subject, **who)
    headers = {"authorization": f"Bearer {token}", "x-tidegate-workload": "batch"}
    if approval:
        headers[HEADER] = approval
    return httpx.post(gateway.base_url + CHAT, json=body, headers=headers, timeout=30, trust_env=False)


def desk(
    gateway: GatewayProcess, method: str, path: str = "", subject: str = "bob", **who: Any
) -> httpx.Response:
    roles = who.pop("roles", ("treasury-approver",))
    headers = {"authorization": f"Bearer {gateway.token(subject=subject, roles=roles, **who)}"}
    url = f"{gateway.base_url}/v1/approvals{path}"
    return httpx.request(method, url, headers=headers, timeout=30, trust_env=False)


def asked(gateway: GatewayProcess, body: dict[str, Any]) -> str:
    answer = ask(gateway, body)
    assert answer.status_code == 409, answer.text
    return answer.headers[HEADER]


def granted(gateway: GatewayProcess, body: dict[str, Any]) -> str:
    approval = asked(gateway, body)
    answer = desk(gateway, "POST", f"/{approval}/approve")
    assert answer.status_code == 200, answer.text
    return approval


def code(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


def events(gateway: GatewayProcess) -> list[dict[str, Any]]:
    found = (json.loads(each) for each in stored_records(StoredLog(OsFiles(gateway.state.audit, ()))))
    return [each for each in found if each["event_type"].startswith("approval-")]


def test_is_asked_for_approved_by_another_person_and_sent_once(rig: Rig) -> None:
    body = chat(WORDS)
    with rig.watch() as seen:
        answer = ask(rig.gateway, body)
    approval = answer.headers[HEADER]
    assert (answer.status_code, code(answer)) == (409, "approval-required")
    assert answer.headers["x-should-retry"] == "false"
    assert approval in answer.json()["error"]["message"]
    assert seen.upstream_bytes == b""
    [record] = seen.records
    assert (record["phase"], record["reason_code"]) == ("denied", "approval-required")
    assert record["decision"]["approval"] == {"id": approval, "state": "pending"}

    [waiting] = [one for one in desk(rig.gateway, "GET").json()["data"] if one["id"] == approval]
    assert (waiting["state"], waiting["destinations"]) == ("pending", record_destinations(waiting))
    assert WORDS not in json.dumps(waiting)
    assert code(ask(rig.gateway, body, approval)) == "approval-pending"
    shown = desk(rig.gateway, "POST", f"/{approval}/approve").json()
    assert shown["state"] == "approved"

    with rig.watch() as seen:
        answer = ask(rig.gateway, body, approval)
        assert answer.status_code == 200, answer.text
    [intent] = [one for one in seen.records if one["phase"] == "admitted"]
    assert intent["decision"]["approval"] == {
        "id": approval,
        "state": "used",
        "approver_ref": shown["approver_ref"],
    }
    with rig.watch() as seen:
        answer = ask(rig.gateway, body, approval)
    assert (answer.status_code, code(answer)) == (409, "approval-used")
    assert seen.upstream_bytes == b""
    no_trace(answer, seen, WORDS)
    [event] = [one["event"] for one in events(rig.gateway) if one["event"]["approval_id"] == approval]
    assert event["approver_ref"] == shown["approver_ref"] != event["requester_ref"]


def record_destinations(waiting: dict[str, Any]) -> list[str]:
    """The private place only, with the model that it will be asked for."""
    return [each for each in waiting["destinations"] if each.startswith("private-moe/")]


def test_asking_again_gives_the_same_approval(rig: Rig) -> None:
    body = chat("asked twice")
    first = asked(rig.gateway, body)
    assert asked(rig.gateway, body) == first
    assert asked(rig.gateway, chat("asked otherwise")) != first
    desk(rig.gateway, "POST", f"/{first}/approve")
    answer = ask(rig.gateway, body)
    assert answer.headers[HEADER] == first
    assert "is approved" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"role": "user", "content": "changed afteR approval"}]},
        {"temperature": 0.5},
        {"stream": True},
        {"tools": [{"type": "function", "function": {"name": "transfer", "parameters": {"type": "object"}}}]},
    ],
    ids=["text", "setting", "stream", "tool"],
)
def test_negative_42_changed_after_approval(rig: Rig, change: dict[str, Any]) -> None:
    body = chat("changed after approval")
    approval = granted(rig.gateway, body)
    with rig.watch() as seen:
        answer = ask(rig.gateway, {**body, **change}, approval)
    assert (answer.status_code, code(answer)) == (409, "approval-mismatch")
    assert seen.upstream_bytes == b""
    assert [one["decision"]["approval"] for one in seen.records] == [{"id": approval, "state": "refused"}]
    # The attempt did not use the approval up.
    assert ask(rig.gateway, body, approval).status_code == 200


def test_another_caller_cannot_use_it(rig: Rig) -> None:
    body = chat("mine alone")
    approval = granted(rig.gateway, body)
    with rig.watch() as seen:
        answer = ask(rig.gateway, body, approval, subject="carol")
        assert (answer.status_code, code(answer)) == (403, "approval-not-yours")
        for other in ("apr_" + "0" * 48, "nonsense", approval.upper()):
            answer = ask(rig.gateway, body, other)
            assert (answer.status_code, code(answer)) == (403, "approval-unknown")
    assert seen.upstream_bytes == b""


def test_negative_28_the_person_who_asked_cannot_approve(rig: Rig) -> None:
    approval = asked(rig.gateway, chat("four eyes"))
    both: dict[str, Any] = {"subject": "alice", "roles": ("user", "treasury-approver")}
    for path in ("approve", "deny"):
        answer = desk(rig.gateway, "POST", f"/{approval}/{path}", **both)
        assert (answer.status_code, code(answer)) == (403, "approver-is-requester")
    assert desk(rig.gateway, "GET", f"/{approval}", **both).json()["state"] == "pending"
    refused = [one for one in events(rig.gateway) if one["event"]["approval_id"] == approval]
    assert [one["event_type"] for one in refused] == ["approval-refused", "approval-refused"]


def test_only_the_rule_s_role_sees_and_decides(rig: Rig) -> None:
    approval = asked(rig.gateway, chat("roles"))
    for roles in ((), ("approver",), ("admin",)):
        assert approval not in desk(rig.gateway, "GET", roles=roles).text
        answer = desk(rig.gateway, "POST", f"/{approval}/approve", roles=roles)
        assert (answer.status_code, code(answer)) == (404, "approval-unknown")
    own = desk(rig.gateway, "POST", f"/{approval}/approve", subject="alice", roles=("user",))
    assert (own.status_code, code(own)) == (403, "approver-role-missing")
    bare = httpx.get(f"{rig.gateway.base_url}/v1/approvals", timeout=30, trust_env=False)
    assert bare.status_code == 401


def test_negative_26_an_approval_of_another_tenant_is_as_unknown_as_one_that_never_was(rig: Rig) -> None:
    approval = asked(rig.gateway, chat("of one tenant"))
    never = "apr_" + "0" * 48
    for method, end in (("GET", ""), ("POST", "/approve"), ("POST", "/deny")):
        foreign, unknown = (
            desk(rig.gateway, method, f"/{each}{end}", tenant="acme") for each in (approval, never)
        )
        assert (foreign.status_code, foreign.json()["error"]) == (404, unknown.json()["error"])
    assert approval not in desk(rig.gateway, "GET", tenant="acme").text
    answers = [ask(rig.gateway, chat("of one tenant"), each, tenant="acme") for each in (approval, never)]
    assert {(each.status_code, code(each)) for each in answers} == {(403, "approval-unknown")}
    assert desk(rig.gateway, "GET", f"/{approval}").json()["state"] == "pending"


def test_a_denied_request_stays_denied_until_it_is_asked_anew(rig: Rig) -> None:
    body = chat("denied")
    approval = asked(rig.gateway, body)
    assert desk(rig.gateway, "POST", f"/{approval}/deny").json()["state"] == "denied"
    answer = ask(rig.gateway, body, approval)
    assert (answer.status_code, code(answer)) == (403, "approval-denied")
    answer = desk(rig.gateway, "POST", f"/{approval}/approve")
    assert (answer.status_code, code(answer)) == (409, "approval-closed")
    anew = asked(rig.gateway, body)
    assert anew != approval
    assert code(ask(rig.gateway, body, approval)) == "approval-unknown"


def test_negative_09_of_many_at_once_one_passes(rig: Rig) -> None:
    body = chat("all at once")
    approval = granted(rig.gateway, body)
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(ask(rig.gateway, body, approval).status_code))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [409] * 7


def test_a_request_that_needs_none_passes_without(rig: Rig) -> None:
    headers = {HEADER: "apr_" + "0" * 48, "authorization": f"Bearer {rig.gateway.token()}"}
    url = rig.gateway.base_url + CHAT
    answer = httpx.post(url, json=chat("free"), headers=headers, timeout=30, trust_env=False)
    assert answer.status_code == 200, answer.text


def test_the_command_line_decides_as_the_person_of_the_token(rig: Rig, tmp_path: Path) -> None:
    gateway = rig.gateway
    approval = asked(gateway, chat("by command"))
    token = tmp_path / "token"
    token.write_text(gateway.token(subject="bob", roles=("treasury-approver",)))
    at = ("--url", gateway.base_url, "--token", f"file:{token}")
    assert approval in gateway.tidegate("approvals", "list", *at).stdout
    assert "pending" in gateway.tidegate("approvals", "show", approval, *at).stdout
    approved = gateway.tidegate("approvals", "approve", approval, *at, "--json")
    assert json.loads(approved.stdout)["state"] == "approved"
    again = gateway.tidegate("approvals", "deny", approval, *at)
    assert (again.returncode, "approval-closed" in again.stderr) == (1, True)
    assert gateway.tidegate("approvals", "list", "--url", "http://127.0.0.1:1", *at[2:]).returncode == 2


def test_a_client_of_the_other_dialect_is_asked_and_let_through_alike(rig: Rig) -> None:
    body = {"model": "assistant", "max_tokens": 16, "messages": [{"role": "user", "content": "other words"}]}
    url = f"{rig.gateway.base_url}/v1/messages"
    token = rig.gateway.token()
    headers = {"authorization": f"Bearer {token}", "x-tidegate-workload": "batch"}
    answer = httpx.post(url, json=body, headers=headers, timeout=30, trust_env=False)
    assert answer.status_code == 409, answer.text
    assert answer.json()["error"]["details"]["error_code"] == "approval-required"
    approval = answer.headers[HEADER]
    assert desk(rig.gateway, "POST", f"/{approval}/approve").status_code == 200
    chat_body = chat("other words") | {"max_tokens": 16}
    assert code(ask(rig.gateway, chat_body, approval)) == "approval-mismatch"
    answer = httpx.post(url, json=body, headers={**headers, HEADER: approval}, timeout=30, trust_env=False)
    assert answer.status_code == 200, answer.text
