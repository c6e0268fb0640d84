"""Reading the folder: what is opened, and what stops everything."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.protocols.registry_files import load_registry, lock_path, read_files, read_lock
from tests.fakes.protocol_files import good_files, lock_of, parse_yaml


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good registry in `protocols/`, with its lock beside it."""
    directory = tmp_path / "protocols"
    for path, content in good_files().items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    lock_path(directory).write_bytes(lock_of(good_files()))
    return directory


def test_reads_what_the_folder_holds(folder: Path) -> None:
    assert read_files(folder) == good_files()
    assert lock_path(folder) == folder.parent / "protocols.lock"
    assert set(load_registry(folder, parse_yaml).prompts) == {("greeting", "1.0.0"), ("greeting", "1.10.0")}


def test_is_empty_without_folder_and_lock_and_refused_with_a_lock_alone(tmp_path: Path) -> None:
    directory = tmp_path / "protocols"
    assert not load_registry(directory, parse_yaml).prompts
    lock_path(directory).write_bytes(lock_of(good_files()))
    with pytest.raises(ConfigurationError, match="expected the folder"):
        load_registry(directory, parse_yaml)


def test_refuses_a_folder_without_its_lock(folder: Path) -> None:
    lock_path(folder).unlink()
    with pytest.raises(ConfigurationError, match=r"found none \(its digest is"):
        load_registry(folder, parse_yaml)


def link_file(folder: Path) -> None:
    target = folder / "greeting/1.0.0/prompt.md"
    outside = folder.parent / "outside.md"
    outside.write_bytes(target.read_bytes())
    target.unlink()
    target.symlink_to(outside)


def link_folder(folder: Path) -> None:
    (folder / "other").symlink_to(folder / "greeting")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "greeting/1.0.0/notes")


def deep(folder: Path) -> None:
    (folder / "greeting/1.0.0/a/b").mkdir(parents=True)


def large(folder: Path) -> None:
    (folder / "greeting/1.0.0/prompt.md").write_bytes(b"x" * (256 * 1024 + 1))


def stray(folder: Path) -> None:
    (folder / "README").write_bytes(b"x")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (link_file, "expected no symbolic link"),
        (link_folder, "expected no symbolic link"),
        (pipe, "expected a regular file"),
        (deep, "expected name/version/tests/file"),
        (large, "expected at most 262144 bytes"),
        (stray, "README: expected"),
    ],
)
def test_refuses_links_pipes_and_what_does_not_belong(
    folder: Path, damage: Callable[[Path], None], words: str
) -> None:
    damage(folder)
    with pytest.raises(ConfigurationError, match=words):
        load_registry(folder, parse_yaml)


def test_refuses_a_lock_that_is_a_link(folder: Path) -> None:
    lock = lock_path(folder)
    lock.rename(folder.parent / "elsewhere")
    lock.symlink_to(folder.parent / "elsewhere")
    with pytest.raises(ConfigurationError, match=r"protocols\.lock: cannot be read"):
        read_lock(folder)


def test_refuses_a_folder_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "protocols"
    path.write_bytes(b"")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_files(path)


def test_keeps_the_samples_of_this_project_locked_and_loadable() -> None:
    directory = Path(__file__).parents[3] / "policies" / "protocols"
    registry = load_registry(directory, parse_yaml)
    assert ("support-summary", str(registry.channels["support-summary"].stable)) in registry.prompts
    assert ("accounts-read", "1.0.0") in registry.tool_sets
