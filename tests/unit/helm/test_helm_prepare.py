"""The init container's program, on volumes as the kubelet makes them."""

from __future__ import annotations

import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PREPARE = Path(__file__).parents[3] / "helm" / "tidegate" / "files" / "prepare.py"


def mounted(folder: Path, content: dict[str, str]) -> Path:
    """A volume as the kubelet makes it: names that are links into a dated folder."""
    dated = folder / "..2026"
    dated.mkdir(parents=True)
    (folder / "..data").symlink_to("..2026")
    for name, text in content.items():
        (dated / name).write_text(text, encoding="utf-8")
        (folder / name).symlink_to(f"..data/{name}")
    return folder


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(PREPARE), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_unpacks_links_into_plain_private_files_in_folders(tmp_path: Path) -> None:
    source = mounted(tmp_path / "in", {"limits.yaml": "a", "protocols__x__1.0.0__prompt.md": "b\n"})
    target = tmp_path / "out"
    assert run(f"--tree={source}:{target}").returncode == 0
    files = {str(path.relative_to(target)): path for path in target.rglob("*") if not path.is_dir()}
    assert {name: path.read_text() for name, path in files.items()} == {
        "limits.yaml": "a",
        "protocols/x/1.0.0/prompt.md": "b\n",
    }
    assert not any(path.is_symlink() for path in target.rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in target.rglob("*") if path.is_dir()} == {0o700}


def test_a_second_run_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert run(f"--tree={mounted(tmp_path / 'one', {'old.yaml': 'a'})}:{target}").returncode == 0
    assert run(f"--tree={mounted(tmp_path / 'two', {'new.yaml': 'b'})}:{target}").returncode == 0
    assert [path.name for path in target.iterdir()] == ["new.yaml"]


@pytest.mark.parametrize("name", ["__etc", "a____b", "a__.__b", "a__..__b", "a__"])
def test_refuses_a_key_that_is_no_path_below_the_target(tmp_path: Path, name: str) -> None:
    done = run(f"--tree={mounted(tmp_path / 'in', {name: 'text'})}:{tmp_path / 'out'}")
    assert done.returncode == 2
    assert name in done.stderr


def test_refuses_an_empty_policy_folder(tmp_path: Path) -> None:
    done = run(f"--tree={mounted(tmp_path / 'in', {})}:{tmp_path / 'out'}")
    assert done.returncode == 2
    assert "found none" in done.stderr


def test_fills_the_settings_so_that_toml_reads_the_same_word(tmp_path: Path) -> None:
    url = 'rediss://u:p"q\\w@ORIGIN@h:1/0'
    source = mounted(tmp_path / "in", {"s.toml": 'url = "@URL@"\norigin = "a/@POD@/0"\n'}) / "s.toml"
    (tmp_path / "url").write_text(url + "\n")
    words = (f"--word=URL=file:{tmp_path / 'url'}", "--word=POD=env:POD")
    done = run(f"--fill={source}:{tmp_path / 'out.toml'}", *words, POD="tg-0")
    assert done.returncode == 0, done.stderr
    assert tomllib.loads((tmp_path / "out.toml").read_text()) == {"url": url, "origin": "a/tg-0/0"}
    assert stat.S_IMODE((tmp_path / "out.toml").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a = "@POD@"\nb = "@OTHER@"\n', ("--word=POD=env:POD",)),
        ('a = "fixed"\n', ("--word=POD=env:POD",)),
        ('a = "@POD@"\n', ()),
        ('a = "@POD@"\n', ("--word=POD=env:EMPTY",)),
        ('a = "@POD@"\n', ("--word=POD=env:SPACED",)),
        ('a = "@POD@"\n', ("--word=POD=literal",)),
    ],
)
def test_refuses_a_place_without_a_word_and_a_word_without_a_place(
    tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    source = tmp_path / "in.toml"
    source.write_text(text)
    done = run(f"--fill={source}:{tmp_path / 'out'}", *words, POD="tg-0", EMPTY="", SPACED="a b-hidden")
    assert done.returncode == 2
    assert not (tmp_path / "out").exists()
    assert "hidden" not in done.stderr


def test_copies_a_key_into_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    source = mounted(tmp_path / "in", {"node.key": "a-key-of-the-node\n"}) / "node.key"
    (tmp_path / "in/..2026/node.key").chmod(0o440)
    assert run(f"--private={source}:{tmp_path / 'node.key'}").returncode == 0
    assert (tmp_path / "node.key").read_text() == "a-key-of-the-node\n"
    assert stat.S_IMODE((tmp_path / "node.key").stat().st_mode) == 0o600


def test_names_the_file_that_is_missing(tmp_path: Path) -> None:
    done = run(f"--private={tmp_path / 'absent'}:{tmp_path / 'out'}")
    assert done.returncode == 2
    assert "absent" in done.stderr
