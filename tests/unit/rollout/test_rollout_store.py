from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.rollout.content import Content
from gateway.rollout.store import MAX_BUNDLES, BundleStore, StoredBundle, files_of

FILES = {"routing.yaml": "id: a\n", "cases/a.yaml": "cases: []\n", "protocols.lock": "x\n"}


def row(content: Content, revision: int = 1, at: int = 0) -> StoredBundle:
    return StoredBundle(content.sha256, revision, "a", "1", "p", (), "maker", 1, at)


def stored(store: BundleStore, text: str = "", revision: int = 1, at: int = 0) -> Content:
    content = store.read_upload({**FILES, "limits.yaml": text}, b"{}")
    store.keep(content, row(content, revision, at), ())
    return content


def test_gives_back_what_it_was_given_also_after_a_restart(tmp_path: Path) -> None:
    content = stored(BundleStore(tmp_path))
    again = BundleStore(tmp_path)
    assert again.content(content.sha256) == content
    assert files_of(content) == {**FILES, "limits.yaml": ""}
    assert again.rows == (row(content),)
    assert {path.name for path in tmp_path.iterdir()} == {"bundles", "index.json"}
    assert [path.name for path in (tmp_path / "bundles").iterdir()] == [content.sha256]


def test_a_bundle_that_was_changed_on_disk_is_not_given(tmp_path: Path) -> None:
    store = BundleStore(tmp_path)
    content = stored(store)
    (tmp_path / "bundles" / content.sha256 / "routing.yaml").write_text("id: b\n")
    with pytest.raises(ConfigurationError, match="not what their digest says"):
        store.content(content.sha256)


@pytest.mark.parametrize("sha256", ["0" * 64, "../x", ""])
def test_what_is_not_in_the_index_does_not_exist(tmp_path: Path, sha256: str) -> None:
    with pytest.raises(ConfigurationError, match="no bundle"):
        BundleStore(tmp_path).content(sha256)


@pytest.mark.parametrize(
    "name", ["../a.yaml", "/a.yaml", "a/../b.yaml", ".a.yaml", "bundle.sig", "a.txt", ""]
)
def test_a_name_that_no_policy_folder_has_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    store = BundleStore(tmp_path / "store")
    with pytest.raises(ConfigurationError):
        store.read_upload({**FILES, name: "x"}, None)
    assert list((tmp_path / "store" / "bundles").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_half_of_a_bundle_is_gone_at_the_next_start(tmp_path: Path) -> None:
    BundleStore(tmp_path)
    (tmp_path / "bundles" / ".incoming-1").mkdir()
    BundleStore(tmp_path)
    assert list((tmp_path / "bundles").iterdir()) == []


def test_the_last_one_that_acted_under_a_revision_is_found(tmp_path: Path) -> None:
    store = BundleStore(tmp_path)
    stored(store, "# one", 1, at=5)
    second = stored(store, "# two", 1, at=9)
    stored(store, "# three", 1)
    found = store.acted(1)
    assert found is not None
    assert found.sha256 == second.sha256
    assert store.acted(2) is None


def test_only_so_many_are_kept_and_a_held_one_stays(tmp_path: Path) -> None:
    store = BundleStore(tmp_path)
    first = stored(store, "# 0")
    for number in range(1, MAX_BUNDLES + 3):
        content = store.read_upload({**FILES, "limits.yaml": f"# {number}"}, None)
        store.keep(content, row(content), {first.sha256})
    assert len(store.rows) == MAX_BUNDLES == len(list((tmp_path / "bundles").iterdir()))
    assert store.row(first.sha256) is not None


def test_a_damaged_index_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "bundles").mkdir()
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(ConfigurationError, match="expected the index"):
        BundleStore(tmp_path)
