"""A small policy pack as text, for tests that change one thing in it."""

from __future__ import annotations

from gateway.domain.decision import Facts
from gateway.domain.label import Label, Level, Tag

MODELS = """\
id: test
version: "1"
models:
  assistant: {description: Chat.}
  fast: {description: Short answers.}
  embedder: {description: Vectors.}
"""

DESTINATIONS = """\
destinations:
  private:
    kind: vllm
    clearance: restricted
    hosted: false
    region: home
    hosts: [127.0.0.1]
    models: {assistant: moe, fast: moe}
    extensions: [top_k, min_p]
  hosted:
    kind: openai
    clearance: internal
    hosted: true
    region: us
    retention: "30 days."
    hosts: [api.example.com]
    models: {assistant: big, fast: small}
"""

RULES = """\
rules:
  - id: sensitive
    labels: confidential..restricted
    destinations: [private]
  - id: ordinary
    labels: public..internal
    destinations: [hosted, private]
"""

LIMITS = """\
version: "1"
tenants:
  demo: {floor: public, requests_per_minute: 10, tokens_per_minute: 1000, concurrency: 2}
  acme: {floor: internal, requests_per_minute: 10, tokens_per_minute: 1000, concurrency: 2}
"""

OUTPUT = """\
version: "1"
profiles:
  default: {}
  strict: {rules: []}
"""

DETECTORS = """\
version: "1"
base_level: internal
patterns: []
"""

ALL = frozenset({"private", "hosted"})


def pack(rules: str = RULES, **files: str) -> dict[str, str]:
    """Files of a sound pack; `rules` replaces the rules, other names (`limits=…`) whole files."""
    texts = {
        "routing": MODELS + DESTINATIONS + rules,
        "limits": LIMITS,
        "output": OUTPUT,
        "detectors": DETECTORS,
    }
    return {f"{name}.yaml": text for name, text in (texts | files).items()}


def facts(
    level: Level = Level.PUBLIC,
    *,
    tenant: str = "demo",
    model: str = "assistant",
    tags: frozenset[Tag] = frozenset(),
    roles: frozenset[str] = frozenset(),
    tools: frozenset[str] = frozenset(),
    extensions: frozenset[str] = frozenset(),
    prompt_tokens: int = 10,
) -> Facts:
    """Facts of a plain chat request."""
    return Facts(
        tenant=tenant,
        roles=roles,
        scopes=frozenset(),
        label=Label(level, tags),
        model=model,
        endpoint="chat.completions",
        stream=False,
        tool_names=tools,
        prompt=None,
        prompt_tokens=prompt_tokens,
        output_tokens=100,
        extensions=extensions,
    )
