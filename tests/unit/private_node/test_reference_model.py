"""The reference model's cache: what it refuses. The build itself runs end to end, where torch is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from private_node.reference_model import (
    MANIFEST_NAME,
    SOURCE_FILE,
    SOURCE_PACKAGE,
    ReferenceModelError,
    check_manifest,
    ensure_reference_model,
    recipe_digest,
)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    files = {"model.safetensors": hashlib.sha256(b"weights").hexdigest()}
    (tmp_path / MANIFEST_NAME).write_text(json.dumps({"files": files}))
    return tmp_path


def test_takes_a_folder_that_matches_its_manifest(finished: Path) -> None:
    check_manifest(finished)


def test_refuses_a_folder_that_changed_after_the_build(finished: Path) -> None:
    (finished / "model.safetensors").write_bytes(b"Weights")
    with pytest.raises(ReferenceModelError, match=r"model\.safetensors"):
        check_manifest(finished)


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff"])
def test_refuses_a_folder_without_a_readable_manifest(finished: Path, content: bytes | None) -> None:
    manifest = finished / MANIFEST_NAME
    manifest.unlink()
    if content is not None:
        manifest.write_bytes(content)
    with pytest.raises(ReferenceModelError, match="delete the folder"):
        check_manifest(finished)


def test_refuses_a_missing_file_of_the_manifest(finished: Path) -> None:
    (finished / "model.safetensors").unlink()
    with pytest.raises(ReferenceModelError):
        check_manifest(finished)


def test_says_how_to_install_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(ReferenceModelError, match="make install-node"):
        ensure_reference_model(tmp_path, lambda line: None)


def test_refuses_another_source_than_the_pinned_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / SOURCE_PACKAGE
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('the package must not be imported')")
    (package / SOURCE_FILE).write_bytes(b"another model")
    monkeypatch.syspath_prepend(str(package.parent))
    with pytest.raises(ReferenceModelError, match=hashlib.sha256(b"another model").hexdigest()):
        ensure_reference_model(tmp_path / "cache", lambda line: None)
    assert not (tmp_path / "cache").exists()


def test_names_a_cache_folder_by_source_and_recipe() -> None:
    one, other = recipe_digest("aa"), recipe_digest("bb")
    assert one != other
    assert len(one) == len(other) == 16
