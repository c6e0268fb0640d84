"""A released version never changes: held over the history of this project, and by the check for a build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gateway.protocols.registry import parse_lock
from tests.fakes.protocol_files import good_files, lock_of
from tests.fakes.stack import ROOT, tidegate

pytestmark = pytest.mark.integration

LOCK = "policies/protocols.lock"


def git(folder: Path, *arguments: str) -> bytes:
    name = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    return subprocess.run(["git", *name, *arguments], cwd=folder, capture_output=True, check=True).stdout


def every_lock(folder: Path) -> list[bytes]:
    """The lock as each commit of the history has it; none for a copy without history."""
    if not (folder / ".git").exists():
        return []
    commits = git(folder, "log", "--format=%H", "--diff-filter=AM", "--", LOCK).decode().split()
    return [git(folder, "show", f"{commit}:{LOCK}") for commit in commits]


def changed(locks: list[bytes], now: bytes) -> set[str]:
    """Entries that some lock has otherwise than the present one."""
    entries = parse_lock(now)
    return {
        "@".join(key)
        for lock in locks
        for key, digest in parse_lock(lock).items()
        if entries.get(key) != digest
    }


def test_no_version_of_this_project_was_changed_after_it_was_locked() -> None:
    assert changed(every_lock(ROOT), (ROOT / LOCK).read_bytes()) == set()


def test_a_version_that_was_changed_together_with_its_lock_is_found_in_the_history(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    write(folder, good_files())
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "release")
    write(folder, {**good_files(), "greeting/1.0.0/prompt.md": b"Hi {{who}}. {{who}}."})
    git(tmp_path, "commit", "-q", "-a", "-m", "edit a release and its lock")
    assert changed(every_lock(tmp_path), (folder / "protocols.lock").read_bytes()) == {"greeting@1.0.0"}
    released = tmp_path / "released.lock"
    released.write_bytes(git(tmp_path, "show", f"HEAD~1:{LOCK}"))
    protocols = str(folder / "protocols")
    assert tidegate("protocol", "lint", protocols).returncode == 0
    caught = tidegate("protocol", "lint", protocols, "--released", str(released))
    assert (caught.returncode, "greeting@1.0.0: changed since it was released" in caught.stderr) == (2, True)


def write(folder: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        target = folder / "protocols" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    (folder / "protocols.lock").write_bytes(lock_of(files))
