"""What the tests of real clients run against: one gateway process, a hosted stand-in, a failing private one.

Ordinary requests go to the hosted stand-in, which answers well and keeps every byte. Requests that are
declared `restricted` go to the private one, whose next fault a test chooses with `ClientRig.fault`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
from openai.types.chat import ChatCompletionChunk

from tests.fakes.fault_standin import read_log
from tests.fakes.hosted_standin import recorded_bytes, recorded_requests
from tests.fakes.stack import GatewayProcess, copy_policies, start_child, start_gateway

#: A header that sends a request to the private destination, and so to the fault that a test has chosen.
PRIVATE = {"x-tidegate-label": "restricted"}
IBAN = "DE89 3704 0044 0532 0130 00"
DENIED_MODEL = "assistant-fast"
DENIED_SENTENCE = "Night work is not done on the fast model."
#: Seconds until a silent upstream is given up; short, so that a 504 is soon there.
FIRST_BYTE_SECONDS = 2.0
_RULES = "rules:\n"
_DENY = f"""rules:
  - id: no-night-work
    description: For tests. A sentence of the policy that clients get to read.
    labels: public..restricted
    models: [{DENIED_MODEL}]
    when: '"night" in roles'
    deny: {DENIED_SENTENCE}

"""


@dataclass(frozen=True, slots=True)
class ClientRig:
    """A running gateway with both of its upstreams."""

    gateway: GatewayProcess
    hosted_record: Path
    private_record: Path
    fault_log: Path
    fault_control: Path

    @property
    def base_url(self) -> str:
        """What a client is given as its base URL."""
        return self.gateway.base_url + "/v1"

    def key(self, tenant: str = "demo", roles: tuple[str, ...] = ("user",)) -> str:
        """What a client is given as its API key: a token."""
        return self.gateway.token(tenant, roles=roles)

    def client(self, **options: Any) -> openai.OpenAI:
        """The official client, with no retries unless `options` say so."""
        return openai.OpenAI(**self._options(options))

    def async_client(self, **options: Any) -> openai.AsyncOpenAI:
        """The official client for asyncio."""
        return openai.AsyncOpenAI(**self._options(options))

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {
            "base_url": self.base_url,
            "api_key": self.key(),
            "max_retries": 0,
            "timeout": 20.0,
            **options,
        }

    @contextmanager
    def fault(self, mode: str, **more: Any) -> Iterator[None]:
        """The private upstream answers with this fault; afterwards well again, and known to be well."""
        self.fault_control.write_text(json.dumps({"mode": mode, **more}), encoding="utf-8")
        try:
            yield
        finally:
            self.fault_control.write_text("{}", encoding="utf-8")
            with self.client(timeout=10.0) as client:
                # One good answer, so that no test inherits failures that open the breaker.
                ask(client, extra_headers=PRIVATE)

    def hosted_bodies(self) -> list[dict[str, Any]]:
        """All bodies that reached the hosted stand-in, in order."""
        return [json.loads(request["body"]) for request in recorded_requests(self.hosted_record)]

    def hosted_bytes(self) -> bytes:
        """Every byte that reached the hosted stand-in."""
        return recorded_bytes(self.hosted_record)

    def private_bodies(self) -> list[dict[str, Any]]:
        """All bodies that reached the private stand-in, in order."""
        return [json.loads(request["body"]) for request in recorded_requests(self.private_record)]

    def events(self, name: str, since: float = 0.0) -> list[dict[str, Any]]:
        """Entries `name` of the private stand-in's log from `since` (`time.monotonic()`) on."""
        return [
            entry
            for entry in read_log(self.fault_log)
            if entry["event"] == name and entry["at_mono"] >= since
        ]

    def seconds_until_upstream_was_left(self, since: float, within: float = 5.0) -> float:
        """Seconds from `since` to the gateway's closing of a busy upstream connection; waits for it."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            left = [entry for entry in self.events("client-closed", since) if entry["is_busy"]]
            if left:
                return float(left[0]["at_mono"]) - since
            time.sleep(0.02)
        raise AssertionError(f"the upstream was not left within {within} s")


def ask(client: openai.OpenAI, text: str = "What is a tide gate?", **more: Any) -> Any:
    """One chat completion with one message of the user."""
    more.setdefault("model", "assistant")
    return client.chat.completions.create(messages=[{"role": "user", "content": text}], **more)


def text_of(chunks: list[ChatCompletionChunk], choice: int = 0) -> str:
    """The text of one choice, put together from its deltas."""
    said = [one.delta.content for chunk in chunks for one in chunk.choices if one.index == choice]
    return "".join(piece for piece in said if piece)


def reasons_of(chunks: list[ChatCompletionChunk], choice: int = 0) -> list[str]:
    """The finish reasons that were told of one choice."""
    told = [one.finish_reason for chunk in chunks for one in chunk.choices if one.index == choice]
    return [reason for reason in told if reason is not None]


@contextmanager
def running_client_rig(directory: Path) -> Iterator[ClientRig]:
    """Everything started in `directory`, and ended again.

    Tenant `acme` has three requests a minute. The fast model is denied to callers with the role `night`.
    """
    policies = copy_policies(directory / "policies", {_RULES: _DENY})
    limits = policies / "limits.yaml"
    text = limits.read_text(encoding="utf-8")
    assert "requests_per_minute: 1200" in text
    limits.write_text(text.replace("requests_per_minute: 1200", "requests_per_minute: 3"), encoding="utf-8")
    hosted_record, private_record = directory / "hosted", directory / "private"
    log, control = directory / "fault.jsonl", directory / "fault.json"
    children = [start_child(["tests.fakes.hosted_standin", "--port", "0", "--record", str(hosted_record)])]
    try:
        arguments = ["--log", str(log), "--control", str(control), "--record", str(private_record)]
        children.append(start_child(["tests.fakes.fault_standin", "--port", "0", *arguments]))
        gateway = start_gateway(
            directory / "gateway",
            hosted=children[0].url,
            private=children[1].url,
            policies=policies,
            endpoint_extra=f"first_byte_seconds = {FIRST_BYTE_SECONDS}\nidle_seconds = 5.0",
        )
        try:
            yield ClientRig(gateway, hosted_record, private_record, log, control)
        finally:
            gateway.stop()
    finally:
        for child in children:
            child.stop()
