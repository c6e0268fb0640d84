from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.upstream.credentials import LOOK_SECONDS, RotatingSecret


def test_a_file_that_changes_is_taken_within_a_second(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first\n")
    faults: list[ConfigurationError] = []
    secret = RotatingSecret(f"file:{path}", faults.append)
    assert secret.current(0.0).reveal() == "first"
    path.write_text("second-one\n")
    assert secret.current(LOOK_SECONDS / 2).reveal() == "first", "a file is looked at once a second"
    assert secret.current(LOOK_SECONDS).reveal() == "second-one"
    assert secret.current(LOOK_SECONDS) is secret.current(LOOK_SECONDS + 0.1)
    assert not faults


def test_a_mounted_link_that_is_swapped_is_taken(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"key-{name}")
        os.utime(tmp_path / name, (1, 1))
    link = tmp_path / "current"
    link.symlink_to("one")
    secret = RotatingSecret(f"file:{link}", lambda error: None)
    assert secret.current(0.0).reveal() == "key-one"
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(link)
    assert secret.current(1.0).reveal() == "key-two"


def test_the_last_good_one_stays_while_the_file_is_gone_or_empty(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("sound-value")
    faults: list[ConfigurationError] = []
    secret = RotatingSecret(f"file:{path}", faults.append)
    path.unlink()
    assert secret.current(1.0).reveal() == "sound-value"
    assert secret.current(2.0).reveal() == "sound-value"
    assert len(faults) == 1, "one fault is told once"
    path.write_text("")
    assert secret.current(3.0).reveal() == "sound-value"
    path.write_text("better")
    assert secret.current(4.0).reveal() == "better"
    assert "sound-value" not in "".join(map(str, faults))


def test_a_missing_file_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        RotatingSecret(f"file:{tmp_path / 'none'}", lambda error: None)


def test_a_variable_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_TEST_KEY", "word")
    secret = RotatingSecret("env:TIDEGATE_TEST_KEY", lambda error: None)
    monkeypatch.setenv("TIDEGATE_TEST_KEY", "other")
    assert secret.current(9.0).reveal() == "word"
