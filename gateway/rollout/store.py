"""Bundles that came in over the admin API, or acted once: kept on disk, so that one can be reviewed,
activated, and gone back to.

A folder `bundles/<sha256>/` for each, laid out like a policy folder, and `index.json` beside it.

Invariants
1. A bundle's folder appears whole or not at all, and is read back only when its digest is its name.
2. The index is replaced, never edited. What is on disk and not in the index does not exist.
3. At most `MAX_BUNDLES` are kept; the oldest that neither acts nor is held goes first.

Not safe for two processes, nor for two threads at a time: its owner takes turns.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from gateway.errors import ConfigurationError
from gateway.policy.signing import SIGNATURE_FILE
from gateway.rollout.content import PROTOCOLS, Content, read_content

STORE_NAME = "policy-bundles"
MAX_BUNDLES = 64
MAX_FILES = 4096
#: A name of a bundle's file: no part begins with a dot, so none leads out of the folder.
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_NAME = re.compile(rf"{_PART}(?:/{_PART}){{0,4}}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_INCOMING = ".incoming-"


class StoredBundle(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the index says of a bundle. Times are Unix microseconds, 0 for never; `maker` and
    `activated_by` are keyed digests of people, or `folder`."""

    sha256: str
    revision: int
    policy_id: str
    policy_version: str
    policy_sha256: str
    signers: tuple[str, ...]
    maker: str
    stored_at_us: int
    activated_at_us: int = 0
    activated_by: str = ""


class _Index(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`overridden` is the fingerprint of the policy folder that an activation over the API replaced."""

    format: int = 1
    overridden: str = ""
    bundles: tuple[StoredBundle, ...] = ()


class BundleStore:
    """The bundles below one folder. Raises `ConfigurationError` when the folder cannot be used."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._bundles = directory / "bundles"
        self._place = directory / "index.json"
        try:
            self._bundles.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in self._bundles.glob(f"{_INCOMING}*"):
                shutil.rmtree(left)
            self._index = msgspec.json.decode(self._place.read_bytes(), type=_Index)
        except FileNotFoundError:
            self._index = _Index()
        except OSError as error:
            raise ConfigurationError(f"{directory}: cannot be used: {error.strerror}") from None
        except msgspec.DecodeError:
            # fail-closed: without the index nobody knows which bundle acted, and who made it.
            raise ConfigurationError(f"{self._place}: expected the index of the stored bundles") from None

    @property
    def rows(self) -> tuple[StoredBundle, ...]:
        """All bundles, oldest first."""
        return self._index.bundles

    @property
    def overridden(self) -> str:
        """Fingerprint of the policy folder that the API's last activation put aside; empty: none."""
        return self._index.overridden

    def row(self, sha256: str) -> StoredBundle | None:
        """The row of a bundle, None when there is none."""
        return next((row for row in self.rows if row.sha256 == sha256), None)

    def acted(self, revision: int) -> StoredBundle | None:
        """The bundle that acted last under this revision."""
        found = [row for row in self.rows if row.revision == revision and row.activated_at_us]
        return max(found, key=lambda row: row.activated_at_us, default=None)

    def read_upload(self, files: Mapping[str, str], signature: bytes | None) -> Content:
        """The content that these files (name → text) make, checked as a policy folder's is.

        Raises `ConfigurationError` for a name that is none, and for a file that a policy folder has not.
        """
        if not 0 < len(files) <= MAX_FILES:
            raise ConfigurationError(f"files: expected 1 to {MAX_FILES}, found {len(files)}")
        for name in files:
            if not _NAME.fullmatch(name) or name == SIGNATURE_FILE:
                raise ConfigurationError(
                    "files: expected plain relative names such as routing.yaml or cases/a.yaml"
                )
        draft = self._bundles / f"{_INCOMING}{secrets.token_hex(8)}"
        try:
            _write(draft, {name: text.encode() for name, text in files.items()}, signature)
            content = read_content(draft)
        except OSError as error:
            raise ConfigurationError(f"bundle: cannot be stored: {error.strerror}") from None
        except UnicodeEncodeError:
            raise ConfigurationError("files: expected text without lone surrogates") from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        unread = sorted(files.keys() - _files(content).keys())
        if unread:
            # fail-closed: a file that no digest covers was not what anybody signed.
            raise ConfigurationError(f"{unread[0]}: expected only files of a policy folder")
        return content

    def keep(self, content: Content, row: StoredBundle, held: Collection[str]) -> None:
        """Keep a bundle with its row; `held` are digests that must not go. Raises `ConfigurationError`."""
        place = self._bundles / content.sha256
        try:
            if not place.exists():
                draft = self._bundles / f"{_INCOMING}{secrets.token_hex(8)}"
                _write(draft, _files(content), content.signature)
                draft.replace(place)
            elif content.signature is not None:
                _replace(place / SIGNATURE_FILE, content.signature)
            rows = [each for each in self.rows if each.sha256 != row.sha256] + [row]
            self._put(msgspec.structs.replace(self._index, bundles=self._within_bounds(rows, held)))
        except OSError as error:
            raise ConfigurationError(f"{self._directory}: cannot be written: {error.strerror}") from None

    def override(self, fingerprint: str) -> None:
        """Remember which folder the API put aside. Raises `ConfigurationError`."""
        if fingerprint == self.overridden:
            return
        try:
            self._put(msgspec.structs.replace(self._index, overridden=fingerprint))
        except OSError as error:
            raise ConfigurationError(f"{self._directory}: cannot be written: {error.strerror}") from None

    def content(self, sha256: str) -> Content:
        """A bundle's content. Raises `ConfigurationError` when it is not there or not what it was."""
        if not _SHA256.fullmatch(sha256) or self.row(sha256) is None:
            raise ConfigurationError("bundle: no bundle with this digest is stored")
        content = read_content(self._bundles / sha256)
        if content.sha256 != sha256:
            # fail-closed: files that changed since are not the ones that were checked.
            raise ConfigurationError("bundle: the stored files are not what their digest says; upload again")
        return content

    def _within_bounds(self, rows: list[StoredBundle], held: Collection[str]) -> tuple[StoredBundle, ...]:
        newest = rows[-1].sha256
        while len(rows) > MAX_BUNDLES:
            leaving = next(row for row in rows if row.sha256 not in held and row.sha256 != newest)
            rows.remove(leaving)
            shutil.rmtree(self._bundles / leaving.sha256, ignore_errors=True)
        return tuple(rows)

    def _put(self, index: _Index) -> None:
        _replace(self._place, msgspec.json.encode(index))
        self._index = index


def files_of(content: Content) -> dict[str, str]:
    """Name → text of a bundle's files, as an upload names them."""
    return {name: raw.decode("utf-8", "replace") for name, raw in _files(content).items()}


def _files(content: Content) -> dict[str, bytes]:
    named = {f"{PROTOCOLS}/{name}": raw for name, raw in content.protocols.items()}
    lock = {f"{PROTOCOLS}.lock": content.lock} if content.lock else {}
    return {**content.policies, **named, **lock}


def _write(place: Path, files: Mapping[str, bytes], signature: bytes | None) -> None:
    """Write a bundle's folder; who calls gives it its final name afterwards."""
    place.mkdir(mode=0o700)
    more = {} if signature is None else {SIGNATURE_FILE: signature}
    for name, raw in {**files, **more}.items():
        path = place / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())


def _replace(path: Path, raw: bytes) -> None:
    draft = path.with_name(f".{path.name}.tmp")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
