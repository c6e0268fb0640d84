"""Writes the generated parts of the documentation from the code that they describe.

    python docs/generate.py            write the parts
    python docs/generate.py --check    exit status 1 when a committed page differs

A page holds a part between `<!-- generated: NAME -->` and `<!-- end: NAME -->`; the rest is written by
people. Sources: `gateway/settings.py` (names, types, defaults), `policies/schema/*.json`, the declared CEL
variables, levels and tags. The meaning of a setting and of a variable stands here, because the code has
no place for it; a missing or superfluous one is an error.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from gateway import settings
from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level, Tag
from gateway.output.rules import DEFAULT_PROFILE
from gateway.policy.expression import MAX_CHARACTERS, VARIABLES
from gateway.rollout.answer_coverage import answer_matrix
from gateway.rollout.coverage import CANARY, matrix

ROOT = Path(__file__).resolve().parents[1]

#: Meaning of each setting, by its path in the file.
SETTINGS: dict[str, str] = {
    "pepper": "Secret reference. Keys the digests of subjects, tokens and texts in the records.",
    "server.host": "Address to listen on.",
    "server.port": "Port to listen on. TLS is not ended here: put a proxy in front.",
    "server.max_body_bytes": "Larger request bodies get 413.",
    "server.max_header_bytes": "Larger header blocks get 431.",
    "server.header_timeout_seconds": "Time for the header block; then the connection is closed.",
    "server.body_timeout_seconds": "Time for the body.",
    "server.write_timeout_seconds": "A client that takes no data for so long is given up.",
    "server.max_in_flight": "Answers in progress at a time; one more gets 503.",
    "server.leave_seconds": "Time after SIGTERM in which requests are still taken while `/ready` says 503, "
    "so that the load balancer can look. 0: something before the process does it.",
    "server.drain_seconds": "Time that running answers get after that.",
    "identity.leeway_seconds": "Clock difference that is tolerated for `exp`, `nbf` and `iat`.",
    "identity.refresh_seconds": "Age at which a key set from a URL is due. A fetch starts at 80 % of it.",
    "identity.cooldown_seconds": "Least time between the starts of two fetches of one key set.",
    "identity.stale_grace_seconds": "How long a known key set is still used while it cannot be read again.",
    "identity.fetch_timeout_seconds": "Time for one fetch.",
    "identity.issuers[].issuer": "The `iss` claim, exactly.",
    "identity.issuers[].audience": "Must be one of the token's `aud`.",
    "identity.issuers[].keys": "`file:PATH` of a JWK set, or its https URL (http only on loopback).",
    "identity.issuers[].tenants": "Tenants that this issuer may speak for.",
    "identity.issuers[].algorithms": "Signature algorithms that are accepted.",
    "identity.issuers[].client_ids": "Accepted applications (`azp` or `client_id`); empty: any.",
    "identity.issuers[].tenant_claim": "Name of the claim with the tenant.",
    "identity.issuers[].roles_claim": "Name of the claim with the roles.",
    "policy.directory": "Folder of the policy files.",
    "policy.poll_seconds": "How often the folder is looked at.",
    "policy.region": "Region of this deployment; conditions read it as `region`.",
    "policy.required_signers": "Different signers that a policy needs before it acts. Maker and checker: 2.",
    "policy.signers[].name": "Name of a person whose signature counts.",
    "policy.signers[].public_key": "The person's Ed25519 public key, 32 bytes in base64.",
    "policy.state_file": "Keeps the revision that acted last. Empty: in `audit.directory`.",
    "policy.shadow_directory": "Folder of a candidate that decides beside the active policy. Empty: none.",
    "sensitivity.contextual_model": "Must be written. `builtin` misses about four in ten such texts, see "
    "ADR 0008.",
    "sensitivity.budget_ms": "CPU time for classifying one request; what is not read by then is restricted.",
    "sensitivity.engine": "Pattern engine. Both find the same.",
    "limits.redis_url": "`redis://`, `rediss://` or `unix://` URL. Empty: an embedded Valkey.",
    "limits.timeout_ms": "Time for one call; then the local cap is used.",
    "limits.lease_seconds": "After this time a slot of a crashed gateway is free again.",
    "lineage.lifetime_seconds": "How long an answer above `internal` is known again when it comes back in a "
    "request. Its label is then the least that the request gets.",
    "approvals.wait_seconds": "How long a request waits for a person's decision.",
    "approvals.use_seconds": "How long an approval is good for once it is given.",
    "audit.directory": "Folder of this process's own log. Never shared by two processes.",
    "audit.signing_key": "Secret reference to an Ed25519 key in PKCS#8 PEM.",
    "audit.origin": "Name of the log: deployment/replica/slot. Different for each process.",
    "audit.deadline_ms": "Time for a durable record; then 503, and nothing leaves.",
    "audit.segment_bytes": "Size of one log file. At least 262144.",
    "output.budget_ms": "CPU time of the output filter for one event; when it is spent, the answer ends.",
    "admin.listen": "`HOST:PORT` or `unix:/PATH` of the admin API. Empty: there is none.",
    "admin.operator_tenants": "Tenants whose tokens act for the whole deployment; others see only their own.",
    "admin.behind_tls_proxy": "Must be said in words to listen on another address than loopback.",
    "admin.one_time_tokens": "Each change spends its token, which needs an id (`jti`).",
    "admin.directory": "Keeps uploaded bundles and calls. Empty: `policy-bundles` in `audit.directory`.",
    "admin.max_body_bytes": "Larger uploads get 413.",
    "admin.calls_per_minute": "Calls of one person; above it 429.",
    "admin.issuers[].issuer": "The `iss` claim of operators' tokens, exactly.",
    "admin.issuers[].audience": "Must be in the token's `aud`. Another than any of `identity.issuers`.",
    "admin.issuers[].keys": "As in `identity.issuers`.",
    "admin.issuers[].tenants": "Tenants that this issuer may speak for.",
    "admin.issuers[].algorithms": "Signature algorithms that are accepted.",
    "admin.issuers[].client_ids": "Accepted applications (`azp` or `client_id`); empty: any.",
    "admin.issuers[].tenant_claim": "Name of the claim with the tenant.",
    "admin.issuers[].roles_claim": "Name of the claim with the roles.",
    "destinations.NAME.url": "Base URL. Its host must be one that the policy names for NAME.",
    "destinations.NAME.replicas[].url": "Base URL of one of several servers, instead of `url`.",
    "destinations.NAME.replicas[].weight": "Its share of the work beside the others.",
    "destinations.NAME.credential": "Secret reference; sent as the kind asks for it. Empty: none. A file "
    "that changes is taken within a second.",
    "destinations.NAME.connect_seconds": "Time to connect.",
    "destinations.NAME.first_byte_seconds": "Time to the response header.",
    "destinations.NAME.idle_seconds": "Time without a token of the answer.",
    "destinations.NAME.total_seconds": "Time for the whole answer, all attempts included.",
    "destinations.NAME.max_connections": "Connections to one replica, and answers of one model there, at "
    "a time.",
    "destinations.NAME.prefix_affinity": "Conversations return to the replica that holds their cache; else "
    "the one with the least outstanding tokens is asked.",
    "destinations.NAME.hedge_after_seconds": "A replica that has sent nothing of its answer by then is raced "
    "by another one. Only for a destination that is not hosted. 0: never.",
    "destinations.NAME.context_tokens": "Context of the smallest model there. What surely does not fit gets "
    "400 instead of being sent. 0: not known, so the destination refuses it.",
    "destinations.NAME.networks": "Address ranges (CIDR) that connections may go to. Empty: the address in "
    "the URL; for a name, public addresses when hosted, private ones otherwise.",
    "destinations.NAME.ca_file": "PEM file of the only authorities that are trusted. Empty: the system's.",
    "destinations.NAME.client_cert_file": "PEM file of the client certificate. Taken anew when it changes.",
    "destinations.NAME.client_key_file": "PEM file of its key; empty: in `client_cert_file`. Not encrypted.",
    "destinations.NAME.proxy": "URL of an egress proxy. `networks` are then those of the proxy.",
    "destinations.NAME.proxy_credential": "Secret reference to `user:password` for the proxy.",
    "destinations.NAME.priority": "Tell vLLM each request's priority by its workload class. The engine must "
    "run with `--scheduling-policy priority`, as the private node does.",
    "destinations.NAME.queue.running": "Requests that this process sends there at a time. Without the "
    "section: any number. See [who goes first](#who-goes-first).",
    "destinations.NAME.queue.wait_seconds": "Longest wait for a place.",
    "destinations.NAME.queue.classes.NAME.weight": "Turns of this class against the others.",
    "destinations.NAME.queue.classes.NAME.share_percent": "Most places that the class fills.",
    "destinations.NAME.queue.classes.NAME.waiting": "Most requests of the class that wait.",
}

_WORDS = {"string": "text", "array": "list", "object": "mapping", "boolean": "true or false"}

#: Meaning of each variable of a condition.
CONDITION: dict[str, str] = {
    "label": "Level of the request as a word.",
    "level": "The same as a number, 0 (public) to 3 (restricted).",
    "tags": "Tags of the label, sorted.",
    "tenant": "Tenant of the caller.",
    "roles": "Roles of the caller, sorted.",
    "scopes": "Scopes of the token, sorted.",
    "model": "Logical model that was asked for.",
    "endpoint": "What the client speaks: `chat.completions`, `responses`, `messages`, "
    "`embeddings` or `completions`.",
    "stream": "Whether a streamed answer was asked for.",
    "tools": "Names of the tools that are offered, sorted.",
    "prompt": "The pinned prompt, as name@version; empty when there is none.",
    "prompt_tokens": "Estimated tokens of the prompt.",
    "output_tokens": "Tokens of the answer that are allowed, over all choices.",
    "extensions": "Request fields beyond the common ones, sorted.",
    "workload": "What the header `x-tidegate-workload` says: `interactive` (without one), `batch`, "
    "`evaluation` or `training-data`.",
    "client": "Application of the token (`azp` or `client_id`).",
    "protocols": "Every pinned document, prompt and tool set, as name@version, sorted.",
    "region": "`region` of this deployment's settings.",
    "hour": "Hour of the request, 0 to 23, UTC.",
    "minute": "Minute of the hour, UTC.",
    "weekday": "Day of the request, 1 (Monday) to 7, UTC.",
}


class Drift(Exception):
    """A meaning is missing, or one is left for something that is gone."""


def settings_tables() -> str:
    """One table for each section of tidegate.toml."""
    rows = dict(_settings_rows(settings.Settings, ""))
    same("SETTINGS", SETTINGS, rows)
    sections: dict[str, list[str]] = {}
    for path, cells in rows.items():
        section, _, key = path.rpartition(".")
        sections.setdefault(section, []).append(f"| `{key}` | {cells[0]} | {cells[1]} | {SETTINGS[path]} |")
    title = "| key | type | default | meaning |\n|---|---|---|---|\n"
    return "\n\n".join(
        f"### {_heading(section)}\n\n{title}" + "\n".join(lines) for section, lines in sections.items()
    )


def _heading(section: str) -> str:
    if not section:
        return "Top of the file"
    return f"`[[{section[:-2]}]]`" if section.endswith("[]") else f"`[{section}]`"


def _settings_rows(struct: type, prefix: str) -> Iterator[tuple[str, tuple[str, str]]]:
    fields = msgspec.structs.fields(struct)
    # Plain keys of a section come before its subsections, as TOML wants it.
    for field in sorted(fields, key=lambda each: _section(each.type) is not None):
        section = _section(field.type)
        if section is not None:
            yield from _settings_rows(section[0], f"{prefix}{field.name}{section[1]}.")
        else:
            default = "**required**" if field.required else _value(field.default)
            yield f"{prefix}{field.name}", (_type(field.type), default)


def _section(kind: Any) -> tuple[type, str] | None:
    """Struct type of a subsection and what stands behind its name, or None for a plain value."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind, ""
    for inner in typing.get_args(kind):
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            marks = {tuple: "[]", types.UnionType: ""}
            return inner, marks.get(typing.get_origin(kind), ".NAME")
    return None


def _type(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _type(inner[0])
    if origin is typing.Literal:
        return " or ".join(f"`{each}`" for each in inner)
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(each) for each in inner)
    return {str: "text", int: "integer", float: "number", bool: "true or false"}[kind]


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"`{json.dumps(list(value))}`"
    return f"`{json.dumps(value)}`"


def condition_table() -> str:
    """The variables of a condition."""
    same("CONDITION", CONDITION, VARIABLES)
    lines = [f"| `{name}` | {_cel(kind.name())} | {CONDITION[name]} |" for name, kind in VARIABLES.items()]
    bound = (
        "Each attribute that `routing.yaml` declares is one more variable, `attributes.NAME`, of type "
        "string; it is empty when the caller does not send it.\n\n"
        f"A condition has at most {MAX_CHARACTERS:,} characters."
    )
    return "| variable | type | meaning |\n|---|---|---|\n" + "\n".join(lines) + f"\n\n{bound}"


def _cel(name: str) -> str:
    return {"STRING": "string", "INT": "int", "BOOL": "bool", "LIST<STRING>": "list(string)"}[name]


def label_lists() -> str:
    """Levels in order, and tags."""
    levels = " < ".join(f"`{level.word}`" for level in Level)
    return f"Levels: {levels}.\n\nTags: {' '.join(f'`{tag.value}`' for tag in Tag)}."


def schema_tables() -> str:
    """One table for each policy file."""
    names = ("routing", "limits", "prices", "output", "detectors", "cases")
    return "\n\n".join(_schema_table(name) for name in names)


def _schema_table(name: str) -> str:
    schema = json.loads((ROOT / "policies/schema" / f"{name}.schema.json").read_text("utf-8"))
    file = "cases/*.yaml" if name == "cases" else f"{name}.yaml"
    lines = [
        f"### {file}",
        "",
        schema["description"],
        "",
        "| key | type | required | meaning |",
        "|---|---|---|---|",
    ]
    for path, node, is_required in _keys(schema, schema, ""):
        needed = "yes" if is_required else "no"
        lines.append(f"| `{path}` | {_shape(node)} | {needed} | {node.get('description', '')} |")
    return "\n".join(lines)


def _keys(
    schema: Mapping[str, Any], node: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Every key below `node`: path, its schema, whether it must be there."""
    for name, raw in node.get("properties", {}).items():
        child = _resolved(schema, raw)
        yield prefix + name, child, name in node.get("required", ())
        inner, mark = child, ""
        if child.get("type") == "array":
            inner, mark = _resolved(schema, child.get("items", {})), "[]"
        more = inner.get("additionalProperties")
        if isinstance(more, dict):
            inner, mark = _resolved(schema, more), f"{mark}.NAME"
        yield from _keys(schema, inner, f"{prefix}{name}{mark}.")


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    """The node with its `$ref` followed; what stands beside the reference wins."""
    reference = node.get("$ref")
    if reference is None:
        return dict(node)
    target: Any = schema
    for step in str(reference).removeprefix("#/").split("/"):
        target = target[step]
    return {**_resolved(schema, target), **{key: value for key, value in node.items() if key != "$ref"}}


def _shape(node: Mapping[str, Any]) -> str:
    """Type and bounds in a few words."""
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    kind = str(node.get("type", "any"))
    if kind == "array" and node.get("maxItems") == 0:
        return "empty list"
    if kind == "object" and isinstance(node.get("additionalProperties"), dict):
        return "mapping by name"
    if kind == "integer":
        low, high = node.get("minimum"), node.get("maximum")
        return f"integer, {low} to {high}" if high is not None else f"integer, at least {low}"
    return _WORDS.get(kind, kind)


def same(where: str, meanings: Mapping[str, str], found: Mapping[str, object]) -> None:
    """Return when exactly what was found has a meaning. Raises `Drift`."""
    odd = sorted(meanings.keys() ^ found.keys())
    if odd:
        raise Drift(f"docs/generate.py: {where}: add or remove {', '.join(odd)}")


def coverage_table() -> str:
    """Which guard reads which field."""
    lines = [f"| {cell.endpoint} | `{cell.field}` | {cell.guard} |" for cell in matrix()]
    return "| endpoint | field | guard, or why none is needed |\n|---|---|---|\n" + "\n".join(lines)


def _finds_probe(text: str) -> tuple[Finding, ...]:
    """The identifier of the probes, and nothing else: what the table says does not depend on detectors."""
    found = [(text.find(each), len(each)) for each in (CANARY, CANARY.replace(" ", ""))]
    label = Label(Level.RESTRICTED)
    return tuple(Finding("iban", "probe@1", label, at, at + size) for at, size in found if at >= 0)


def answer_coverage_table() -> str:
    """Which text of an answer the output filter reads, and what becomes of a finding."""
    lines = []
    for cell in answer_matrix(DEFAULT_PROFILE, _finds_probe):
        said = cell.coverage.value + (f": {cell.note}" if cell.note else "")
        lines.append(f"| `{cell.field}` | {said} | {cell.plain} | {cell.streamed} | {cell.unscannable} |")
    head = "| text of an event | coverage | found, plain | found, streamed | cannot be scanned |"
    return f"{head}\n|---|---|---|---|---|\n" + "\n".join(lines)


#: Generated parts by page.
PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "docs/administrator.md": {"settings": settings_tables},
    "docs/policy-reference.md": {
        "labels": label_lists,
        "files": schema_tables,
        "condition": condition_table,
        "coverage": coverage_table,
        "answer-coverage": answer_coverage_table,
    },
}


def rendered(page: str, text: str) -> str:
    """`text` of `page` with its generated parts as they should be. Raises `Drift`."""
    for name, make in PARTS[page].items():
        start, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise Drift(f"{page}: expected one part {name}, found {text.count(start)}")
        before, behind = text.partition(start)[0], text.partition(end)[2]
        text = f"{before}{start}\n{make()}\n\n{end}{behind}"
    return text


def main(arguments: list[str]) -> int:
    """Write or check all pages; the exit status."""
    status = 0
    for page in PARTS:
        path = ROOT / page
        text = path.read_text("utf-8")
        wanted = rendered(page, text)
        if wanted == text:
            continue
        if "--check" in arguments:
            print(f"{page}: differs from the code; run python docs/generate.py", file=sys.stderr)
            status = 1
        else:
            path.write_text(wanted, "utf-8")
            print(f"{page}: written")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
