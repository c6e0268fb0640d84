"""`tidegate protocol`: check, lock, compare, test and try the prompts and tool sets of a folder."""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from gateway.cli import protocol_edit
from gateway.cli.protocol_folder import directory_option, parse_yaml, replace_file
from gateway.errors import ConfigurationError, Refusal
from gateway.protocols.cases import Result, run_cases
from gateway.protocols.compare import compare
from gateway.protocols.document import Key, Prompt, ToolSet, document_sha256, parse_document, parse_key
from gateway.protocols.registry import Registry, build_registry, format_lock, parse_lock, split_documents
from gateway.protocols.registry_files import load_registry, lock_path, read_files, read_lock
from gateway.protocols.resolve import render as render_prompt

_argument = click.argument(
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=protocol_edit.DEFAULT_DIRECTORY,
)


@click.group()
def protocol() -> None:
    """Prompts and tool sets: new, lint, lock, diff, test, render, promote, import-mcp, schemas.

    Exit status: 0 all is well, 1 a test failed or two versions differ, 2 refused.
    """


protocol.add_command(protocol_edit.new)
protocol.add_command(protocol_edit.promote)
protocol.add_command(protocol_edit.import_mcp)
protocol.add_command(protocol_edit.schemas)


@protocol.command()
@_argument
@click.option(
    "--released",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A lock of what was released, such as the main branch's: its entries must be here, unchanged.",
)
def lint(directory: Path, released: Path | None) -> None:
    """Check every document and the lock of DIRECTORY."""
    with _errors():
        registry = load_registry(directory, parse_yaml)
        if released is not None:
            _refuse_changes(parse_lock(released.read_bytes()), parse_lock(read_lock(directory)), "released")
        for key in sorted(registry.prompts.keys() | registry.tool_sets.keys()):
            click.echo(f"{'@'.join(key)}: ok")
        for warning in _warnings(registry, read_files(directory), int(time.time())):
            click.echo(f"warning: {warning}", err=True)
        click.echo(f"registry sha256:{registry.sha256}")


@protocol.command()
@_argument
@click.option("--replace", is_flag=True, help="Also change or drop entries (unreleased ones).")
def lock(directory: Path, replace: bool) -> None:
    """Write the digests of DIRECTORY into protocols.lock beside it.

    New documents are added. A document whose entry exists and differs is an error without --replace: a
    released version does not change, a new one is made.
    """
    with _errors():
        files = read_files(directory)
        digests = {key: document_sha256(content) for key, content in split_documents(files).items()}
        locked = parse_lock(read_lock(directory))
        if not replace:
            _refuse_changes(locked, digests, "locked")
        content = format_lock(digests)
        build_registry(files, content, parse_yaml)
        replace_file(lock_path(directory), content)
        for key in sorted(digests.keys() - locked.keys()):
            click.echo(f"{'@'.join(key)}: added")


@protocol.command()
@click.argument("old", metavar="NAME@OLD")
@click.argument("new", metavar="NAME@NEW")
@directory_option
@click.option("--text", is_flag=True, help="Also show the lines that differ.")
def diff(old: str, new: str, directory: Path, text: bool) -> None:
    """Say what changes from one version to another. Exit status 1 when something does."""
    with _errors():
        documents = split_documents(read_files(directory))
        keys = parse_key(old, "NAME@OLD"), parse_key(new, "NAME@NEW")
        before, after = (_document(key, documents) for key in keys)
        changes = compare(before, after)
        for change in changes:
            click.echo(f"{change.kind}: {change.text}")
        if text:
            for name in sorted(documents[keys[0]].keys() | documents[keys[1]].keys()):
                _show_lines(name, documents[keys[0]], documents[keys[1]])
        if any(change.kind == "breaking" for change in changes) and not _is_major(*keys):
            click.echo("warning: a breaking change asks for a new major version", err=True)
        if not changes:
            click.echo("no difference for callers")
    sys.exit(1 if changes else 0)


@protocol.command()
@click.argument("reference", metavar="[NAME@VERSION]", required=False)
@directory_option
def test(reference: str | None, directory: Path) -> None:
    """Run the cases of one document, or of all. Exit status 1 when one does not hold."""
    with _errors():
        documents = split_documents(read_files(directory))
        keys = sorted(documents) if reference is None else [parse_key(reference, "NAME@VERSION")]
        results: list[Result] = []
        for key in keys:
            found = run_cases(_document(key, documents), documents[key], parse_yaml)
            results += found
            failed = [result for result in found if result.difference is not None]
            click.echo(f"{'@'.join(key)}: {len(found) - len(failed)} of {len(found)} cases hold")
            for result in failed:
                click.echo(f"  {result.file}: {result.name}: {result.difference}")
    sys.exit(1 if any(result.difference is not None for result in results) else 0)


@protocol.command()
@click.argument("reference", metavar="NAME@VERSION")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="A variable; may be repeated.")
@directory_option
def render(reference: str, variables: tuple[str, ...], directory: Path) -> None:
    """Print a prompt as a model would get it."""
    with _errors():
        key = parse_key(reference, "NAME@VERSION")
        registry = load_registry(directory, parse_yaml)
        prompt = registry.prompts.get(key)
        if prompt is None:
            raise ConfigurationError(f"{reference}: there is no such prompt in {directory}")
        pairs = tuple((name, value) for name, _, value in (item.partition("=") for item in variables))
        click.echo(render_prompt(prompt, pairs))
        for tool in () if prompt.tool_set is None else registry.tool_sets[prompt.tool_set].tools:
            roles = ", ".join(tool.contract.roles) if tool.contract else ""
            click.echo(f"tool {tool.name} ({roles or 'nobody'}) {tool.definition.parameters}", err=True)


@contextmanager
def _errors() -> Iterator[None]:
    """Turns refusals into one line and exit status 2."""
    with protocol_edit.errors(ConfigurationError, Refusal, OSError):
        yield


def _document(key: Key, documents: Mapping[Key, Mapping[str, bytes]]) -> Prompt | ToolSet:
    if key not in documents:
        raise ConfigurationError(f"{'@'.join(key)}: there is no such document")
    return parse_document(key, documents[key], parse_yaml)


def _refuse_changes(locked: Mapping[Key, str], found: Mapping[Key, str], state: str) -> None:
    for key, digest in locked.items():
        if found.get(key) != digest:
            change = "changed" if key in found else "is gone"
            raise ConfigurationError(
                f"{'@'.join(key)}: {change} since it was {state}; make a new version"
                + (", or use --replace when it was never released" if state == "locked" else "")
            )


def _is_major(old: Key, new: Key) -> bool:
    return int(new[1].partition(".")[0]) > int(old[1].partition(".")[0])


def _show_lines(name: str, old: Mapping[str, bytes], new: Mapping[str, bytes]) -> None:
    before, after = (each.get(name, b"").decode("utf-8", "replace").splitlines() for each in (old, new))
    for line in difflib.unified_diff(before, after, f"old/{name}", f"new/{name}", lineterm="", n=2):
        click.echo(line)


def _warnings(registry: Registry, files: Mapping[str, bytes], now_seconds: int) -> Iterator[str]:
    """What is allowed and should be looked at."""
    for key, tool_set in sorted(registry.tool_sets.items()):
        for tool in tool_set.tools:
            if tool.contract is None or not tool.contract.roles:
                yield f"{'@'.join(key)}: tool {tool.name}: no role may use it"
    for key, lifetime in sorted(registry.lifetimes.items()):
        if lifetime.removed_at is not None and lifetime.removed_at <= now_seconds:
            yield f"{'@'.join(key)}: its removal date is past; requests for it get 410"
    for key, documents in sorted(split_documents(files).items()):
        if not any(name.startswith("tests/") for name in documents):
            yield f"{'@'.join(key)}: has no test cases"
