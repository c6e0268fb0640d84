"""The admin API of a real gateway process: who may call what, and what a change does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
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
from tests.fakes.admin import AdminStack, running_admin, upload_of

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
    with running_admin(place, admin_extra="calls_per_minute = 1000000") as found:
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


def changed(stack: AdminStack, place: Path, revision: int) -> Path:
    """A copy of the folder with another revision."""
    shutil.copytree(stack.folder, place)
    routing = place / "routing.yaml"
    lines = [line for line in routing.read_text("utf-8").splitlines() if not line.startswith("revision:")]
    routing.write_text(f"revision: {revision}\n" + "\n".join(lines) + "\n", "utf-8")
    return place


def test_a_bundle_is_uploaded_activated_and_rolled_back(stack: AdminStack, tmp_path: Path) -> None:
    olga = stack.client("administrator")
    before = olga.active()
    first = olga.change("/policy/bundles", upload_of(changed(stack, tmp_path / "a", 11)), match="")
    assert first.status_code == 201, first.text
    assert olga.active() == before
    sha256 = first.json()["name"]["sha256"]
    acted = olga.change("/policy/activate", {"sha256": sha256})
    assert (acted.status_code, acted.json()["active"]["revision"]) == (200, 11), acted.text
    second = olga.change("/policy/bundles", upload_of(changed(stack, tmp_path / "b", 12)), match="")
    newer = second.json()["name"]["sha256"]
    assert olga.change("/policy/activate", {"sha256": newer}).status_code == 200
    older = olga.change("/policy/activate", {"sha256": sha256})
    assert (older.status_code, older.json()["code"]) == (409, "older-revision")
    back = olga.change("/policy/rollback", {"to_revision": 11, "reason": "the new rules were wrong"})
    assert (back.status_code, back.json()["active"]["sha256"]) == (200, sha256), back.text
