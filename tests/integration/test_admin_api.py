"""The admin API of a real gateway process: who may call what, and what a change does."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.store import StoredLog
from gateway.web.admin_openapi import openapi_route
from gateway.web.admin_routes import ROUTES
from gateway.web.admin_table import Route
from tests.fakes.admin import AdminStack, revised, running_admin, upload_of
from tests.fakes.stack import free_port, tidegate

pytestmark = pytest.mark.integration

ALL = (*ROUTES, openapi_route(ROUTES))
READ = {"auditor", "administrator", "checker"}
CHANGE = {"administrator"}
#: Who may call each route. A route without an entry fails the test below.
MATRIX: dict[tuple[str, str], set[str]] = {
    ("GET", "/openapi.json"): READ,
    ("GET", "/version"): READ,
    ("GET", "/policy"): READ,
    ("GET", "/policy/revisions"): READ,
    ("GET", "/policy/bundles/{sha256}"): READ,
    ("GET", "/protocols"): READ,
    ("GET", "/destinations"): READ,
    ("GET", "/limits"): READ,
    ("GET", "/limits/{tenant}"): READ,
    ("POST", "/policy/bundles"): CHANGE,
    ("POST", "/policy/bundles/{sha256}/signatures"): {"checker"},
    ("POST", "/policy/activate"): CHANGE,
    ("POST", "/policy/rollback"): CHANGE,
    ("POST", "/policy/shadow"): CHANGE,
    ("DELETE", "/policy/shadow"): CHANGE,
    ("POST", "/policy/reload"): CHANGE,
}
#: What a token of one tenant, not the operators', may call at all.
TENANT_ROUTES = {"/openapi.json", "/version", "/limits", "/limits/{tenant}"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminStack]:
    place = tmp_path_factory.mktemp("admin") / "gw"
    extra = {"admin_extra": "calls_per_minute = 1000000", "policy_extra": "poll_seconds = 3600.0"}
    with running_admin(place, **extra) as found:
        yield found


def ask(stack: AdminStack, route: Route, token: str) -> httpx.Response:
    """A well-formed call of a route that changes nothing: its body fits nothing that is stored."""
    path = route.path.replace("{sha256}", "0" * 64).replace("{tenant}", "demo")
    headers = {"authorization": f"Bearer {token}", "if-match": f'"{"0" * 64}"', "idempotency-key": "k" * 20}
    body: object = None if route.body is None else {}
    return httpx.request(route.method, stack.url + path, json=body, headers=headers, trust_env=False)


def test_every_route_has_its_row_in_the_matrix() -> None:
    assert {(route.method, route.path) for route in ALL} == set(MATRIX)
    assert {route.path for route in ALL if route.scope == "tenant"} == TENANT_ROUTES


@pytest.mark.parametrize("role", ["auditor", "administrator", "checker", "user", "admin", ""])
@pytest.mark.parametrize("route", ALL, ids=lambda route: route.action)
def test_a_route_is_open_to_its_roles_only(stack: AdminStack, route: Route, role: str) -> None:
    reply = ask(stack, route, stack.token(*([role] if role else [])))
    if role in MATRIX[route.method, route.path]:
        assert reply.status_code not in {401, 403}, reply.text
    else:
        assert (reply.status_code, reply.json()["code"]) == (403, "admin-role-missing")


@pytest.mark.parametrize("route", ALL, ids=lambda route: route.action)
def test_a_tenants_own_token_gets_no_further_than_its_tenant(stack: AdminStack, route: Route) -> None:
    token = stack.token("auditor", "administrator", "checker", tenant="demo")
    reply = ask(stack, route, token)
    if route.path in TENANT_ROUTES:
        assert reply.status_code == 200, reply.text
    else:
        assert (reply.status_code, reply.json()["code"]) == (403, "admin-tenant-scope")


def test_tells_what_decides(stack: AdminStack) -> None:
    reply = stack.client("auditor").get("/policy")
    assert reply.status_code == 200, reply.text
    assert reply.headers["etag"] == f'"{reply.json()["active"]["sha256"]}"'
    assert reply.headers["cache-control"] == "no-store"
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_every_call_is_recorded_before_it_is_answered(stack: AdminStack) -> None:
    reply = stack.client("auditor").get("/destinations")
    refused = ask(stack, ROUTES[-1], stack.token("auditor"))
    calls = {record["event"]["admin_request_id"]: record for record in admin_records(stack)}
    seen = calls[reply.headers["x-request-id"]]
    assert (seen["event"]["action"], seen["event"]["outcome"]) == ("destinations.read", "permitted")
    assert len(seen["event"]["actor"]) == 64
    seen = calls[refused.headers["x-request-id"]]
    assert (seen["event"]["outcome"], seen["reason_code"]) == ("refused", "admin-role-missing")


def admin_records(stack: AdminStack) -> list[dict[str, Any]]:
    log = StoredLog(OsFiles(stack.gateway.state.audit, ()))
    records = [msgspec.json.decode(raw) for raw in stored_records(log)]
    return [record for record in records if record["event_type"] == "admin-call"]


# -- changes -----------------------------------------------------------------------------------------


def test_a_bundle_is_uploaded_activated_and_rolled_back(stack: AdminStack, tmp_path: Path) -> None:
    olga = stack.client("administrator")
    before = olga.active()
    first = olga.change("/policy/bundles", upload_of(revised(stack.folder, tmp_path / "a", 11)), match="")
    assert first.status_code == 201, first.text
    assert olga.active() == before
    sha256 = first.json()["name"]["sha256"]
    acted = olga.change("/policy/activate", {"sha256": sha256})
    assert (acted.status_code, acted.json()["active"]["revision"]) == (200, 11), acted.text
    second = olga.change("/policy/bundles", upload_of(revised(stack.folder, tmp_path / "b", 12)), match="")
    newer = second.json()["name"]["sha256"]
    assert olga.change("/policy/activate", {"sha256": newer}).status_code == 200
    older = olga.change("/policy/activate", {"sha256": sha256})
    assert (older.status_code, older.json()["code"]) == (409, "older-revision")
    back = olga.change("/policy/rollback", {"to_revision": 11, "reason": "the new rules were wrong"})
    assert (back.status_code, back.json()["active"]["sha256"]) == (200, sha256), back.text


def test_of_two_administrators_at_once_the_second_hears_that_the_state_changed(
    stack: AdminStack, tmp_path: Path
) -> None:
    olga, omar = stack.client("administrator"), stack.client("administrator", subject="omar")
    seen = olga.active()
    revision = olga.get("/policy").json()["active"]["revision"]
    bundles = [
        olga.change(
            "/policy/bundles",
            upload_of(revised(stack.folder, tmp_path / str(each), revision + each)),
            match="",
        ).json()["name"]["sha256"]
        for each in (1, 2)
    ]
    with ThreadPoolExecutor(2) as pool:
        replies = list(
            pool.map(
                lambda who, sha256: who.change("/policy/activate", {"sha256": sha256}, match=seen),
                (olga, omar),
                bundles,
            )
        )
    assert sorted(reply.status_code for reply in replies) == [200, 412]
    stale = next(reply for reply in replies if reply.status_code == 412)
    assert stale.json()["code"] == "stale-digest"
    won = next(reply for reply in replies if reply.status_code == 200)
    assert olga.active() == won.json()["active"]["sha256"]


def test_the_same_key_does_the_same_change_once(stack: AdminStack, tmp_path: Path) -> None:
    olga = stack.client("administrator")
    body = {"sha256": "0" * 64}
    first = olga.change("/policy/activate", body, key="the-same-key", match="0" * 64)
    again = olga.change("/policy/activate", body, key="the-same-key", match="0" * 64)
    assert (first.status_code, again.status_code) == (404, 404)
    assert first.content == again.content
    assert again.headers["idempotent-replayed"] == "true"
    other = olga.change("/policy/activate", {"sha256": "1" * 64}, key="the-same-key", match="0" * 64)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency-key-reused")
    # Another person's key of the same letters is another key.
    omar = stack.client("administrator", subject="omar")
    assert omar.change("/policy/activate", body, key="the-same-key", match="0" * 64).status_code == 404


@pytest.mark.parametrize(
    ("missing", "code"), [("if-match", "if-match-required"), ("idempotency-key", "idempotency-key-required")]
)
def test_a_change_says_what_it_starts_from_and_which_one_it_is(
    stack: AdminStack, missing: str, code: str
) -> None:
    headers = {"authorization": f"Bearer {stack.token('administrator')}", "idempotency-key": "k" * 20}
    headers |= {"if-match": f'"{"0" * 64}"'}
    del headers[missing]
    reply = httpx.post(stack.url + "/policy/reload", headers=headers, trust_env=False)
    assert (reply.status_code, reply.json()["code"]) == (428, code)


def test_a_candidate_with_a_fault_is_refused_with_its_place_and_the_active_one_stays(
    stack: AdminStack, tmp_path: Path
) -> None:
    olga = stack.client("administrator")
    before = olga.active()
    body = upload_of(revised(stack.folder, tmp_path / "broken", 999))
    body["files"]["routing.yaml"] = body["files"]["routing.yaml"].replace(
        "clearance: internal", "clearance: internul"
    )
    reply = olga.change("/policy/bundles", body, match="")
    assert (reply.status_code, reply.json()["code"]) == (422, "candidate-rejected")
    assert reply.headers["content-type"] == "application/problem+json"
    [finding] = reply.json()["findings"]
    line = next(
        n for n, text in enumerate(body["files"]["routing.yaml"].splitlines(), 1) if "internul" in text
    )
    assert (finding["file"], finding["line"]) == ("routing.yaml", line)
    assert finding["column"] > 1
    assert finding["expected"].startswith("one of public, internal")
    assert finding["found"] == '"internul"'
    assert olga.active() == before
    told = olga.get("/policy").json()["last_rejection"]
    assert (told["code"], told["findings"]) == ("invalid", [finding])
    assert httpx.get(stack.gateway.base_url + "/ready", trust_env=False).status_code == 200


@pytest.mark.parametrize(
    "name", ["../routing.yaml", "/etc/passwd", "a//b.yaml", ".hidden.yaml", "bundle.sig", "notes.txt"]
)
def test_a_file_that_no_policy_folder_has_refuses_the_upload(stack: AdminStack, name: str) -> None:
    body = upload_of(stack.folder)
    body["files"][name] = "x: 1\n"
    reply = stack.client("administrator").change("/policy/bundles", body, match="")
    assert (reply.status_code, reply.json()["code"]) == (422, "candidate-rejected")


def test_half_an_upload_never_acts(stack: AdminStack) -> None:
    olga = stack.client("administrator")
    before, stored = olga.active(), len(olga.get("/policy/revisions").json()["bundles"])
    host, port = stack.url.removeprefix("http://").removesuffix("/admin/v1").split(":")
    head = (
        f"POST /admin/v1/policy/bundles HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {olga.token}\r\n"
        "content-type: application/json\r\nidempotency-key: half-of-one-upload\r\n"
        "content-length: 1000\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=30) as half:
        half.sendall(head.encode() + b'{"files":{"routing.yaml":"')
        half.shutdown(socket.SHUT_WR)
        while half.recv(4096):
            pass
    assert olga.active() == before
    assert len(olga.get("/policy/revisions").json()["bundles"]) == stored
    # The key was not used up: the call never started.
    reply = olga.change("/policy/bundles", upload_of(stack.folder), key="half-of-one-upload", match="")
    assert reply.status_code == 201, reply.text


def test_a_shadow_is_set_and_ended(stack: AdminStack) -> None:
    olga = stack.client("administrator")
    sha256 = olga.active()
    set_ = olga.change("/policy/shadow", {"sha256": sha256})
    assert (set_.status_code, set_.json()["outcome"]) == (200, "shadowed"), set_.text
    assert olga.get("/policy").json()["shadow"]["policy_sha256"]
    ended = olga.change("/policy/shadow", method="DELETE")
    assert (ended.status_code, ended.json()["outcome"]) == (200, "shadow-ended")
    assert olga.get("/policy").json()["shadow"] is None


def test_reload_takes_what_the_folder_holds_or_says_what_is_wrong_with_it(stack: AdminStack) -> None:
    olga = stack.client("administrator")
    routing = stack.folder / "routing.yaml"
    text = routing.read_text("utf-8")
    try:
        routing.write_text(text + "colour: blue\n", "utf-8")
        reply = olga.change("/policy/reload")
        assert reply.status_code == 422, reply.text
        assert reply.json()["findings"][0]["file"] == "routing.yaml"
    finally:
        routing.write_text(text, "utf-8")


def test_no_answer_holds_a_secret_or_an_address(stack: AdminStack) -> None:
    client = stack.client("auditor")
    state = stack.gateway.state
    hidden = [
        state.pepper.read_text().strip(),
        state.node_key.read_text().strip(),
        "hosted-key-of-the-tests",
        client.token,
        "127.0.0.1:9/v1",
        str(state.directory),
        "olga",
    ]
    for route in ALL:
        if route.method == "GET":
            path = route.path.replace("{sha256}", client.active()).replace("{tenant}", "demo")
            reply = client.get(path)
            assert reply.status_code == 200, reply.text
            assert [word for word in hidden if word in reply.text] == []
    assert [word for word in hidden if word in stack.gateway.log_text()] == []


def test_other_origins_are_told_nothing(stack: AdminStack) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    reply = httpx.options(stack.url + "/policy/reload", headers=headers, trust_env=False)
    assert not [name for name in reply.headers if name.startswith("access-control")]
    reply = stack.client("auditor").get("/policy", headers=headers)
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_the_models_port_knows_no_admin_route(stack: AdminStack) -> None:
    headers = {"authorization": f"Bearer {stack.token('administrator')}"}
    reply = httpx.get(stack.gateway.base_url + "/admin/v1/policy", headers=headers, trust_env=False)
    assert reply.status_code == 404


def test_the_document_describes_every_route(stack: AdminStack) -> None:
    document = stack.client("auditor").get("/openapi.json").json()
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert told == {(route.method, route.full_path) for route in ALL}
    for method, path in told:
        operation = document["paths"][path][method.lower()]
        assert set(operation["x-tidegate-roles"]) == MATRIX[method, path.removeprefix("/admin/v1")]
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references == set(document["components"]["schemas"])


def test_the_command_line_asks_and_changes(stack: AdminStack, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(stack.token("administrator"), "utf-8")
    base = ["admin", "--url", stack.url.removesuffix("/admin/v1"), "--token", f"file:{token}"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return tidegate(*base, *arguments)

    told = run("status", "--json")
    assert told.returncode == 0, told.stderr
    revision = json.loads(told.stdout)["active"]["revision"]
    folder = revised(stack.folder, tmp_path / "next", revision + 1)
    stored = run("upload", str(folder), "--json")
    assert stored.returncode == 0, stored.stderr
    sha256 = json.loads(stored.stdout)["name"]["sha256"]
    acted = run("activate", sha256)
    assert (acted.returncode, acted.stdout.partition(":")[0]) == (0, "activated"), acted.stderr
    assert f"* default 1.0.0 revision {revision + 1}" in run("revisions").stdout
    # The folder holds an older revision, which comes back only as a rollback.
    assert run("reload").returncode == 1
    assert run("shadow", sha256).returncode == 0
    assert run("shadow", "--end").returncode == 0
    back = run("rollback", str(revision), "--reason", "a try")
    assert (back.returncode, back.stdout.partition(":")[0]) == (0, "rolled-back"), back.stderr
    refused = run("activate", "0" * 64)
    assert (refused.returncode, "unknown-bundle" in refused.stderr) == (1, True)
    away = tidegate("admin", "--url", f"http://127.0.0.1:{free_port()}", "--token", f"file:{token}", "status")
    assert away.returncode == 2
    clear = tidegate("admin", "--url", "http://bank.example", "--token", f"file:{token}", "status")
    assert (clear.returncode, "expected https" in clear.stderr) == (2, True)
