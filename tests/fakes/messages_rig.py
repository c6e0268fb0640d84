"""What the tests of Anthropic's clients run against: a gateway with a destination of each kind.

The logical model `claude` is served by the stand-in of Anthropic's API, `assistant` by that of OpenAI's;
restricted requests for either go to the private one. `vectors` is served as `assistant` is.
`claude-hosted` is served by Anthropic's alone. All
keep every byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import openai

from tests.fakes.hosted_standin import recorded_bytes, recorded_requests
from tests.fakes.stack import GatewayProcess, copy_policies, start_child, start_gateway

KEY = "anthropic-key-of-the-tests"
_DESTINATION = """destinations:
  hosted-anthropic:
    kind: anthropic
    clearance: internal
    hosted: true
    region: us
    retention: "For tests."
    hosts: [127.0.0.1]
    models:
      claude: claude-tide-1
      claude-hosted: claude-tide-1
    extensions: [top_k]

"""
_MODELS = "models:\n" + "".join(
    f"  {name}:\n    description: For tests.\n" for name in ("vectors", "claude", "claude-hosted")
)
_HOSTED = "      assistant: gpt-5.1\n"
_SERVED = "      assistant: reference-moe\n"


@dataclass(frozen=True, slots=True)
class MessagesRig:
    """A running gateway and the records of its three upstreams."""

    gateway: GatewayProcess
    records: dict[str, Path]

    def client(self, **options: Any) -> anthropic.Anthropic:
        """The official client, which sends its key as `x-api-key`; no retries unless `options` say so."""
        wanted = {"api_key": self.gateway.token(), "max_retries": 0, "timeout": 20.0, **options}
        return anthropic.Anthropic(base_url=self.gateway.base_url, **wanted)

    def openai_client(self) -> openai.OpenAI:
        """OpenAI's client of the same gateway."""
        base_url = self.gateway.base_url + "/v1"
        return openai.OpenAI(base_url=base_url, api_key=self.gateway.token(), max_retries=0, timeout=20.0)

    def sent(self, place: str) -> list[dict[str, Any]]:
        """Bodies that reached an upstream, in order."""
        return [json.loads(request["body"]) for request in recorded_requests(self.records[place])]

    def headers(self, place: str) -> dict[str, str]:
        """Headers of the last request that reached an upstream."""
        found: dict[str, str] = recorded_requests(self.records[place])[-1]["headers"]
        return found

    def received(self, place: str) -> bytes:
        """Every byte that reached an upstream."""
        return recorded_bytes(self.records[place])


@contextmanager
def running_messages_rig(directory: Path) -> Iterator[MessagesRig]:
    """Everything started in `directory`, and ended again."""
    policies = copy_policies(
        directory / "policies",
        {
            "models:\n  assistant:\n": _MODELS + "  assistant:\n",
            "destinations:\n  private-moe:": _DESTINATION + "  private-moe:",
            _SERVED: "".join(
                _SERVED.replace("assistant", name) for name in ("assistant", "claude", "vectors")
            ),
            _HOSTED: _HOSTED + "      vectors: text-embedding-3-small\n",
            "kind: vllm\n": "kind: vllm\n    operations: [chat, completions, embeddings]\n",
            "kind: openai\n": "kind: openai\n    operations: [chat, completions, embeddings]\n",
            "[hosted-openai, private-moe]": "[hosted-anthropic, hosted-openai, private-moe]",
        },
    )
    records = {name: directory / name for name in ("hosted-anthropic", "hosted-openai", "private-moe")}
    standins = {
        "hosted-anthropic": ["tests.fakes.messages_standin", "--api-key", KEY],
        "hosted-openai": ["tests.fakes.hosted_standin"],
        "private-moe": ["tests.fakes.hosted_standin", "--kind", "vllm"],
    }
    children = {}
    try:
        for name, command in standins.items():
            children[name] = start_child([*command, "--port", "0", "--record", str(records[name])])
        gateway = start_gateway(
            directory / "gateway",
            hosted=children["hosted-openai"].url,
            private=children["private-moe"].url,
            policies=policies,
            extra=f'\n[destinations.hosted-anthropic]\nurl = "{children["hosted-anthropic"].url}"\n'
            'credential = "env:TIDEGATE_TEST_ANTHROPIC_KEY"\n',
            environ={"TIDEGATE_TEST_ANTHROPIC_KEY": KEY},
        )
        try:
            yield MessagesRig(gateway, records)
        finally:
            gateway.stop()
    finally:
        for child in children.values():
            child.stop()
