"""`tidegate protocol`: check, lock and try the prompts and tool sets of a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gateway.domain.chat import ChatRequest, PromptReference, TextPart
from gateway.errors import ConfigurationError, Refusal
from gateway.policy.document import parse, plain
from gateway.protocols.document import Key, document_sha256, parse_key
from gateway.protocols.registry import build_registry, format_lock, parse_lock, split_documents
from gateway.protocols.registry_files import load_registry, lock_path, read_files, read_lock
from gateway.protocols.resolve import resolve

DEFAULT_DIRECTORY = "policies/protocols"

_directory = click.argument(
    "directory", type=click.Path(exists=True, file_okay=False, path_type=Path), default=DEFAULT_DIRECTORY
)


@click.group()
def protocol() -> None:
    """Prompts and tool sets: lint, lock, render."""


@protocol.command()
@_directory
def lint(directory: Path) -> None:
    """Check every document and the lock of DIRECTORY."""
    with _errors():
        registry = load_registry(directory, parse_yaml)
        for key in sorted(registry.prompts.keys() | registry.tool_sets.keys()):
            click.echo(f"{'@'.join(key)}: ok")
        click.echo(f"registry sha256:{registry.sha256}")


@protocol.command()
@_directory
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
            _refuse_changes(locked, digests)
        content = format_lock(digests)
        build_registry(files, content, parse_yaml)
        _replace_file(lock_path(directory), content)
        for key in sorted(digests.keys() - locked.keys()):
            click.echo(f"{'@'.join(key)}: added")


@protocol.command()
@click.argument("reference", metavar="NAME@VERSION")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="A variable; may be repeated.")
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
)
def render(reference: str, variables: tuple[str, ...], directory: Path) -> None:
    """Print a prompt as a model would get it."""
    with _errors():
        name, version = parse_key(reference, "NAME@VERSION")
        pairs = tuple((key, value) for key, _, value in (item.partition("=") for item in variables))
        request = ChatRequest("none", (), prompt=PromptReference(name, version, pairs))
        resolved = resolve(request, load_registry(directory, parse_yaml))
        for part in resolved.chat.messages[0].parts:
            if isinstance(part, TextPart):
                click.echo(part.text)
        for tool in resolved.chat.tools:
            click.echo(f"tool {tool.name} {tool.parameters}", err=True)


def parse_yaml(text: str, file: str) -> object:
    """YAML 1.2 core as the policy files use it. Raises `ConfigurationError`."""
    return plain(parse(text, file))


@contextmanager
def _errors() -> Iterator[None]:
    """Turns refusals into one line and exit status 2."""
    try:
        yield
    except (ConfigurationError, Refusal) as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(2)


def _refuse_changes(locked: dict[Key, str], found: dict[Key, str]) -> None:
    for key, digest in locked.items():
        if found.get(key) != digest:
            state = "changed" if key in found else "is gone"
            raise ConfigurationError(
                f"{'@'.join(key)}: {state} since it was locked; make a new version, or use --replace"
                " when it was never released"
            )


def _replace_file(path: Path, content: bytes) -> None:
    """Write beside and rename, so that no reader sees half a lock."""
    draft = path.with_name(path.name + ".new")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None
