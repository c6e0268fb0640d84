"""The commands of `tidegate protocol` that write: new, promote, import-mcp, schemas."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gateway.cli.protocol_folder import DEFAULT_DIRECTORY, directory_option, parse_yaml, replace_file
from gateway.errors import ConfigurationError, Refusal
from gateway.protocols.cases import run_cases
from gateway.protocols.channels import CHANNELS_FILE, Channel
from gateway.protocols.document import Key, parse_document, parse_key
from gateway.protocols.file_schemas import file_schemas
from gateway.protocols.mcp import SPECS, Grant, Spec, import_tools
from gateway.protocols.registry import build_registry, split_documents
from gateway.protocols.registry_files import load_registry, read_files, read_lock
from gateway.protocols.tools import parse_tools, strict_json
from gateway.protocols.version import parse_version

__all__ = ["DEFAULT_DIRECTORY", "errors", "import_mcp", "new", "promote", "schemas"]

_PROMPT = {
    "manifest.yaml": """# yaml-language-server: $schema=../../../schema/protocol-manifest.schema.json
kind: prompt
name: {name}
version: {version}
description: Say in one sentence what the prompt is for.
label_floor: internal
variables:
  subject:
    type: string
    description: Say what it stands for.
    max_characters: 200
""",
    "prompt.md": "Write about {{subject}}.\n",
    "tests/cases.yaml": """\
# yaml-language-server: $schema=../../../../schema/protocol-prompt-cases.schema.json
cases:
  - name: the subject stands in the text
    variables: {subject: tide tables}
    text: Write about tide tables.
  - name: a control token is refused
    variables: {subject: "<|im_end|>"}
    refused: prompt-variable-invalid
""",
}
_TOOLS = {
    "manifest.yaml": """# yaml-language-server: $schema=../../../schema/protocol-manifest.schema.json
kind: tools
name: {name}
version: {version}
description: Say in one sentence what the tools are for.
label_floor: internal
""",
    "tools.json": """[
  {
    "name": "look_up",
    "description": "Say what it does, for a model.",
    "parameters": {
      "type": "object",
      "properties": {"reference": {"type": "string", "pattern": "^[A-Z]-[0-9]{1,8}$"}},
      "required": ["reference"],
      "additionalProperties": false
    },
    "roles": [],
    "side_effects": "read",
    "idempotent": true,
    "timeout_seconds": 10,
    "errors": {"not-found": {"retryable": false}, "unavailable": {"retryable": true}},
    "result_label": "restricted",
    "result": {"type": "object"}
  }
]
""",
    "tests/cases.yaml": """# yaml-language-server: $schema=../../../../schema/protocol-tool-cases.schema.json
cases:
  - name: a reference is enough
    tool: look_up
    arguments: '{"reference":"A-1"}'
    expect: valid
  - name: an invented field is refused
    tool: look_up
    arguments: '{"reference":"A-1","all":true}'
    expect: arguments-off-schema
""",
}


@contextmanager
def errors(*kinds: type[Exception]) -> Iterator[None]:
    """Turns refusals into lines on standard error and exit status 2."""
    try:
        yield
    except kinds as error:
        for line in str(error).split("\n"):
            click.echo(f"tidegate: {line}", err=True)
        sys.exit(2)


@click.command()
@click.argument("reference", metavar="NAME@VERSION")
@click.option("--kind", type=click.Choice(["prompt", "tools"]), default="prompt", show_default=True)
@click.option("--from", "source", metavar="VERSION", help="Begin with a copy of this version.")
@directory_option
def new(reference: str, kind: str, source: str | None, directory: Path) -> None:
    """Make the folder of a new document, or of a new version of one. Nothing is locked yet."""
    with errors(ConfigurationError, OSError):
        key = parse_key(reference, "NAME@VERSION")
        if source is None:
            template = _PROMPT if kind == "prompt" else _TOOLS
            files = {
                file: text.replace("{name}", key[0]).replace("{version}", key[1]).encode()
                for file, text in template.items()
            }
        else:
            files = _copied(key, source, directory)
        parse_document(key, files, parse_yaml)
        _write_document(directory, key, files)


def _copied(key: Key, source: str, directory: Path) -> dict[str, bytes]:
    found = split_documents(read_files(directory)).get((key[0], source))
    if found is None:
        raise ConfigurationError(f"{key[0]}@{source}: there is no such document")
    files = dict(found)
    manifest, count = re.subn(
        rb"(?m)^version:.*$", b"version: " + key[1].encode(), files["manifest.yaml"], count=1
    )
    if count != 1:
        raise ConfigurationError(
            f"{key[0]}/{source}/manifest.yaml: expected a line that begins with version:"
        )
    files["manifest.yaml"] = manifest
    return files


def _write_document(directory: Path, key: Key, files: dict[str, bytes]) -> None:
    folder = directory / key[0] / key[1]
    if folder.exists():
        raise ConfigurationError(f"{folder}: is there already; a version is made once")
    for name, content in sorted(files.items()):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        click.echo(f"wrote {target}")
    click.echo(f"next: edit, `tidegate protocol test {'@'.join(key)}`, `tidegate protocol lock`")


@click.command()
@click.argument("reference", metavar="NAME@VERSION")
@click.option(
    "--canary", "percent", type=click.FloatRange(0, 100), metavar="PERCENT", help="As a canary only."
)
@directory_option
def promote(reference: str, percent: float | None, directory: Path) -> None:
    """Make a version what a name means: `stable`, or a canary for some conversations.

    The document must be locked and its cases must hold. The stable version so far becomes `previous`.
    """
    with errors(ConfigurationError, Refusal, OSError):
        key = parse_key(reference, "NAME@VERSION")
        registry = load_registry(directory, parse_yaml)
        if key not in registry.prompts:
            raise ConfigurationError(f"{reference}: there is no such prompt in {directory}")
        files = read_files(directory)
        _run_cases(key, files)
        before = registry.channels.get(key[0])
        after = _promoted(key, before, percent)
        text = files.get(CHANNELS_FILE, b"").decode("utf-8")
        content = _with_channel(text, key[0], after).encode()
        build_registry({**files, CHANNELS_FILE: content}, read_lock(directory), parse_yaml)
        replace_file(directory / CHANNELS_FILE, content)
        word = "canary" if percent is not None else "stable"
        was = before.stable if before is not None and word == "stable" else None
        click.echo(f"{key[0]}: {word} is {key[1]}" + (f" (was {was})" if was else ""))
        if was is not None:
            click.echo(f"back: tidegate protocol promote {key[0]}@{was}")


def _run_cases(key: Key, files: dict[str, bytes]) -> None:
    own = split_documents(files)[key]
    results = run_cases(parse_document(key, own, parse_yaml), own, parse_yaml)
    failed = [result for result in results if result.difference is not None]
    if failed:
        lines = [f"{result.file}: {result.name}: {result.difference}" for result in failed]
        raise ConfigurationError("\n".join(["not promoted, because cases do not hold:", *lines]))
    if not results:
        click.echo(f"warning: {'@'.join(key)} has no test cases", err=True)


def _promoted(key: Key, before: Channel | None, percent: float | None) -> Channel:
    version = parse_version(key[1])
    if percent is not None:
        if before is None or before.stable is None:
            raise ConfigurationError(f"{key[0]}: expected a stable version before there is a canary")
        return Channel(before.stable, version, round(percent * 100), before.previous)
    if before is None:
        return Channel(version, None, 0, None)
    is_canary_kept = before.canary is not None and before.canary != version
    previous = before.stable if before.stable != version else before.previous
    return Channel(
        version,
        before.canary if is_canary_kept else None,
        before.canary_share if is_canary_kept else 0,
        previous,
    )


def _with_channel(text: str, name: str, channel: Channel) -> str:
    """`text` of channels.yaml with the channels of one name replaced; its dates and all else stay."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if re.match(rf"{re.escape(name)}\s*:", line)), None)
    block = [f"{name}:", f"  stable: {channel.stable}"]
    if channel.previous is not None:
        block.append(f"  previous: {channel.previous}")
    if channel.canary is not None:
        block.append(f"  canary: {{version: {channel.canary}, percent: {channel.canary_share / 100:g}}}")
    if start is None:
        return "\n".join([*lines, *block]) + "\n"
    if not lines[start].partition("#")[0].rstrip().endswith(":"):
        raise ConfigurationError(f"{CHANNELS_FILE}: {name}: expected its channels on lines of their own")
    end = start + 1
    kept: list[str] = []
    is_kept = False
    while end < len(lines) and (lines[end].startswith(" ") or not lines[end].strip()):
        entry = re.match(r"  ([a-z]+)\s*:", lines[end])
        if entry is not None:
            is_kept = entry[1] == "retire"
        if is_kept or lines[end].lstrip().startswith("#") or not lines[end].strip():
            kept.append(lines[end])
        end += 1
    return "\n".join([*lines[:start], *block, *kept, *lines[end:]]) + "\n"


@click.command("import-mcp")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--to", "reference", required=True, metavar="NAME@VERSION", help="The tool set to make.")
@click.option("--spec", type=click.Choice(list(SPECS)), default=SPECS[0], show_default=True)
@click.option("--role", "roles", multiple=True, help="A role that may use the tools; may be repeated.")
@click.option(
    "--result-label",
    type=click.Choice(["public", "internal", "confidential", "restricted"]),
    default="restricted",
    show_default=True,
    help="Label of what the tools give back.",
)
@click.option("--timeout-seconds", type=click.IntRange(1, 3600), default=30, show_default=True)
@directory_option
def import_mcp(
    file: Path,
    reference: str,
    spec: Spec,
    roles: tuple[str, ...],
    result_label: str,
    timeout_seconds: int,
    directory: Path,
) -> None:
    """Make a tool set from a saved `tools/list` result of an MCP server. Review it, then lock it."""
    with errors(ConfigurationError, OSError):
        key = parse_key(reference, "--to")
        value = strict_json(file.read_bytes(), file.name)
        imported = import_tools(value, spec, Grant(roles, result_label, timeout_seconds), file.name)
        document = json.dumps(list(imported.entries), ensure_ascii=False, indent=2).encode() + b"\n"
        parse_tools(document, f"{'/'.join(key)}/tools.json")
        manifest = (
            f"kind: tools\nname: {key[0]}\nversion: {key[1]}\n"
            f"description: Imported from a tools/list result of an MCP server ({spec}).\n"
        )
        files = {"manifest.yaml": manifest.encode(), "tools.json": document}
        parse_document(key, files, parse_yaml)
        for left_out in imported.left_out:
            click.echo(f"left out, only for display: {left_out}")
        for entry in imported.entries:
            used_by = ", ".join(entry["roles"]) or "nobody"
            click.echo(
                f"tool {entry['name']}: side effects {entry['side_effects']},"
                f" results {entry['result_label']}, for {used_by}"
            )
        _write_document(directory, key, files)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def schemas(folder: Path) -> None:
    """Write the JSON Schemas of manifests, tools, cases, channels and floors into FOLDER, for editors."""
    with errors(ConfigurationError):
        for name, content in file_schemas().items():
            replace_file(folder / name, content)
            click.echo(f"wrote {folder / name}")
