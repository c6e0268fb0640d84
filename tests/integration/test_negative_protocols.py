"""Names and versions of prompts on a running gateway: negative tests 22 and 43, dates, canaries, rollback.

Each refusal leaves a record with its code, reaches no upstream, and repeats nothing that the client sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.rig import RawAnswer, Rig, chat, no_trace, open_rig, until
from tests.fakes.stack import tidegate

pytestmark = pytest.mark.integration

FLOOR = "acme:\n  support-summary: {lowest: 1.1.0}\n"
RETIRED = "  retire:\n    1.0.0: {deprecated: 2026-01-15, removed: 2199-12-31}\n"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with open_rig(tmp_path_factory.mktemp("protocols")) as rig:
        change(rig, "floors.yaml", FLOOR)
        change(rig, "channels.yaml", f"support-summary:\n  stable: 1.1.0\n  previous: 1.0.0\n{RETIRED}")
        yield rig


def change(rig: Rig, name: str, text: str) -> None:
    """Put a file beside the prompts at once, and wait until the gateway has taken it."""
    target = rig.gateway.policies / "protocols" / name
    count = rig.gateway.log_text().count("policy activated")
    draft = rig.gateway.policies / (name + ".draft")
    draft.write_text(text, "utf-8")
    os.replace(draft, target)
    until(lambda: rig.gateway.log_text().count("policy activated") > count)


def ask(
    rig: Rig, prompt: Any, *lines: str, tenant: str = "demo", text: str = "The card is lost."
) -> RawAnswer:
    rig.token = rig.gateway.token(tenant)
    return rig.post(chat(text, prompt=prompt), *lines)


def summary(version: str | None = None) -> dict[str, Any]:
    named = {} if version is None else {"version": version}
    return {"id": "support-summary", **named, "variables": {"product": "cards"}}


NAMES = [
    "../support-summary",
    "%2e%2e/support-summary",
    "..%2fsupport-summary",
    "/etc/passwd",
    "support-summary/1.0.0",
    "support-summary\u0000",
    "support-summary ",
    "Support-Summary",
    "SUPPORT-SUMMARY",
    "ｓupport-summary",
    "support\u2010summary",
    "linked",
    "accounts-read",
    "channels.yaml",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_negative_22_a_name_is_looked_up_and_never_becomes_a_path(rig: Rig, name: str) -> None:
    with rig.watch() as seen:
        answer = ask(rig, {"id": name, "version": "1.0.0"})
    assert (answer.status, answer.code) == (404, "prompt-not-found")
    assert seen.reasons == [("denied", "prompt-not-found")]
    assert seen.upstream_bytes == b""
    if name not in {"linked", "accounts-read", "channels.yaml"}:
        no_trace(answer, seen, name)


@pytest.mark.parametrize(
    "version", ["../1.0.0", "1.0.0/../1.1.0", "1.0.0\u0000", "%31.0.0", "1.0.0 ", "*", "latest"]
)
def test_negative_22_a_version_never_becomes_a_path_either(rig: Rig, version: str) -> None:
    with rig.watch() as seen:
        answer = ask(rig, summary(version))
    assert (answer.status, answer.code) == (404, "prompt-not-found")
    assert seen.upstream_bytes == b""


def test_negative_22_a_link_among_the_prompts_keeps_the_last_good_ones(rig: Rig, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = rig.gateway.policies / "protocols" / "linked"
    count = rig.gateway.log_text().count("policy rejected")
    link.symlink_to(outside)
    try:
        until(lambda: rig.gateway.log_text().count("policy rejected") > count)
        assert ask(rig, {"id": "linked", "version": "1.0.0"}).code == "prompt-not-found"
        assert ask(rig, summary()).status == 200
    finally:
        link.unlink()
    until(lambda: rig.metrics()["tidegate_policy_candidate_rejected_state"] == 0)


@pytest.mark.parametrize("version", ["1.0.0", "~1.0", "previous", "0.9.9"])
def test_negative_43_below_the_floor_of_the_tenant_is_426(rig: Rig, version: str) -> None:
    with rig.watch() as seen:
        answer = ask(rig, summary(version), tenant="acme")
    assert (answer.status, answer.code) == (426, "protocol-version-below-floor")
    assert answer.headers["upgrade"] == "support-summary/1.1.0"
    assert seen.reasons == [("denied", "protocol-version-below-floor")]
    assert seen.upstream_bytes == b""


def test_negative_43_without_a_version_where_a_floor_asks_for_one_is_400(rig: Rig) -> None:
    with rig.watch() as seen:
        answer = ask(rig, summary(), tenant="acme")
    assert (answer.status, answer.code) == (400, "protocol-version-required")
    assert seen.upstream_bytes == b""
    assert ask(rig, summary()).status == 200
    assert ask(rig, summary("^1"), tenant="acme").headers["x-tidegate-protocol"] == "support-summary@1.1.0"


@pytest.mark.parametrize(
    "lines",
    [
        ("X-Tidegate-Protocol: support-summary@1.0.0",),
        ("X-Tidegate-Protocol: other@1.1.0",),
        ("X-Tidegate-Protocol: support-summary",),
    ],
)
def test_negative_43_two_versions_in_one_request_are_400(rig: Rig, lines: tuple[str, ...]) -> None:
    with rig.watch() as seen:
        answer = ask(rig, summary("1.1.0"), *lines, tenant="acme")
    assert (answer.status, answer.code) == (400, "protocol-versions-mixed")
    assert seen.reasons == [("denied", "protocol-versions-mixed")]
    assert seen.upstream_bytes == b""


def test_negative_43_the_header_twice_is_400_and_once_is_as_good_as_the_body(rig: Rig) -> None:
    line = "X-Tidegate-Protocol: support-summary@1.1.0"
    assert ask(rig, summary(), line, line, tenant="acme").code == "duplicate-header"
    assert ask(rig, summary(), line, tenant="acme").status == 200
    assert ask(rig, None, line, tenant="acme").code == "protocol-versions-mixed"


def test_the_version_that_was_chosen_is_pinned_in_the_record(rig: Rig) -> None:
    with rig.watch() as seen:
        answer = ask(rig, summary("^1"))
    assert answer.headers["x-tidegate-protocol"] == "support-summary@1.1.0"
    pins = seen.records[0]["decision"]["pins"]
    lock = (rig.gateway.policies / "protocols.lock").read_text("utf-8")
    assert [f"{pin['name']}@{pin['version']}" for pin in pins] == [
        "support-summary@1.1.0",
        "accounts-read@1.1.0",
    ]
    assert all(pin["sha256"] in lock for pin in pins)


def test_a_deprecated_version_is_served_with_a_warning_and_its_dates(rig: Rig) -> None:
    headers = ask(rig, summary("1.0.0")).headers
    assert headers["deprecation"] == "@1768435200"
    assert headers["sunset"] == "Tue, 31 Dec 2199 00:00:00 GMT"
    assert headers["x-tidegate-warning"] == "protocol-deprecated"
    assert "deprecation" not in ask(rig, summary("1.1.0")).headers


def test_a_removed_version_is_410_and_a_rollback_is_one_line(rig: Rig) -> None:
    path = rig.gateway.policies / "protocols" / "channels.yaml"
    good = path.read_text("utf-8")
    try:
        change(rig, "channels.yaml", good.replace("2199-12-31", "2026-02-15"))
        with rig.watch() as seen:
            answer = ask(rig, summary("1.0.0"))
        assert (answer.status, answer.code) == (410, "protocol-removed")
        assert seen.upstream_bytes == b""
        change(rig, "channels.yaml", good.replace("stable: 1.1.0", "stable: 1.0.0"))
        assert ask(rig, summary()).headers["x-tidegate-protocol"] == "support-summary@1.0.0"
    finally:
        change(rig, "channels.yaml", good)
    assert ask(rig, summary()).headers["x-tidegate-protocol"] == "support-summary@1.1.0"


def test_a_canary_that_is_promoted_on_a_running_gateway_keeps_each_conversation(rig: Rig) -> None:
    folder = str(rig.gateway.policies / "protocols")
    path = rig.gateway.policies / "protocols" / "channels.yaml"
    good = path.read_text("utf-8")
    count = rig.gateway.log_text().count("policy activated")
    result = tidegate("protocol", "promote", "support-summary@1.0.0", "--canary", "50", "--directory", folder)
    assert result.returncode == 0, result.stderr
    until(lambda: rig.gateway.log_text().count("policy activated") > count)
    try:
        texts = [f"Message {number} about a card." for number in range(24)]
        first = [ask(rig, summary(), text=text).headers["x-tidegate-protocol"] for text in texts]
        again = [ask(rig, summary(), text=text).headers["x-tidegate-protocol"] for text in texts]
    finally:
        change(rig, "channels.yaml", good)
    assert first == again
    assert set(first) == {"support-summary@1.0.0", "support-summary@1.1.0"}
