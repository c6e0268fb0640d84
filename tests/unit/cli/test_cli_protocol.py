"""`tidegate protocol`: lint, lock and render on real folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.protocol import protocol
from tests.fakes.protocol_files import good_files, lock_of


def run(*arguments: object) -> Result:
    return CliRunner().invoke(protocol, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good registry that is not locked yet."""
    for path, content in good_files().items():
        target = tmp_path / "protocols" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return tmp_path / "protocols"


def test_locks_a_new_folder_and_then_finds_it_sound(folder: Path) -> None:
    assert run("lint", folder).exit_code == 2
    locked = run("lock", folder)
    assert locked.exit_code == 0, locked.stderr
    assert "search@1.0.0: added" in locked.stdout
    assert (folder.parent / "protocols.lock").read_bytes() == lock_of(good_files())
    linted = run("lint", folder)
    assert linted.exit_code == 0
    assert "greeting@1.10.0: ok" in linted.stdout
    assert "registry sha256:" in linted.stdout


def test_does_not_lock_a_changed_or_missing_version_again_unless_told_to(folder: Path) -> None:
    run("lock", folder)
    before = (folder.parent / "protocols.lock").read_bytes()
    (folder / "greeting/1.0.0/prompt.md").write_bytes(b"Hi {{who}}")
    result = run("lock", folder)
    assert result.exit_code == 2
    assert "greeting@1.0.0: changed since it was locked" in result.stderr
    assert (folder.parent / "protocols.lock").read_bytes() == before
    assert run("lock", "--replace", folder).exit_code == 0
    assert run("lint", folder).exit_code == 0
    for path in ("manifest.yaml", "prompt.md"):
        (folder / "greeting/1.10.0" / path).unlink()
    assert "greeting@1.10.0: is gone" in run("lock", folder).stderr


def test_does_not_lock_a_broken_folder(folder: Path) -> None:
    (folder / "greeting/1.0.0/prompt.md").write_bytes(b"Hi {{nobody}}")
    result = run("lock", folder)
    assert result.exit_code == 2
    assert "greeting/1.0.0/manifest.yaml: variables.nobody" in result.stderr
    assert not (folder.parent / "protocols.lock").exists()


def test_refuses_a_manifest_with_an_alias_or_a_key_twice(folder: Path) -> None:
    path = folder / "greeting/1.0.0/manifest.yaml"
    for damage in (b"name: again\n", b"x: &a 1\ny: *a\n"):
        path.write_bytes(good_files()["greeting/1.0.0/manifest.yaml"] + damage)
        result = run("lock", folder)
        assert result.exit_code == 2
        assert result.stderr.startswith("tidegate: greeting/1.0.0/manifest.yaml:")


def test_prints_a_prompt_as_a_model_would_get_it(folder: Path) -> None:
    run("lock", folder)
    result = run("render", "greeting@1.10.0", "--var", "who=Ada", "--directory", folder)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "Hello Ada\n"
    assert "tool look_up" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["greeting@9.0.0", "--var", "who=Ada"], "no such prompt"),
        (["greeting"], "expected name@major.minor.patch"),
        (["greeting@1.0.0"], "`who` is required"),
    ],
)
def test_says_why_a_prompt_cannot_be_rendered(folder: Path, arguments: list[str], words: str) -> None:
    run("lock", folder)
    result = run("render", *arguments, "--directory", folder)
    assert result.exit_code == 2
    assert words in result.stderr
