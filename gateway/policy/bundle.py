"""The policy folder: read whole, compiled, tested against its own cases, and only then taken.

Invariants
1. A policy whose cases do not all hold is not loaded.
2. A folder that changes while it is read is not loaded; the next look finds it whole.
3. A rejected candidate changes nothing: the previous policy stays.
4. Nothing outside the folder is read: its top is resolved once, and no link below leaves it.

This is the room's only module that touches files. It reads `*.yaml` in the folder and in
`cases/`, and `dictionaries/*.txt`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import ConfigurationError
from gateway.policy.cases import Case
from gateway.policy.compile import CASES_PREFIX, compile_bundle
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.document import MAX_BYTES
from gateway.policy.evaluate import evaluate, warm
from gateway.policy.own_detectors import DICTIONARIES_PREFIX

MAX_FILES = 256
MAX_DICTIONARY_BYTES = 32 * 1024 * 1024
_SUFFIXES = (".yaml", ".yml")
#: Kubernetes swaps this link to change all files of a ConfigMap or Secret at once.
_VOLUME_LINK = "..data"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case went; `difference` is None when the decision was the expected one."""

    case: Case
    difference: str | None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A new good policy, and the fingerprint of the files that it came from."""

    policy: CompiledPolicy
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A candidate that was not taken: why, and what stays active (None before the first good one)."""

    reason: str
    kept: CompiledPolicy | None
    fingerprint: str


def top_of(directory: Path) -> Path:
    """The folder that holds the files: `directory` itself with its links resolved, or, in a Kubernetes
    volume, the revision that `..data` leads to. Raises `ConfigurationError`.

    A caller reads everything below this one path, so that a swap of `..data` cannot mix two revisions.
    """
    try:
        base = directory.resolve(strict=True)
        data = base / _VOLUME_LINK
        return _revision(directory, base, data) if data.is_symlink() else base
    except OSError as error:
        raise ConfigurationError(f"{directory}: the policy folder cannot be read: {error.strerror}") from None


def _revision(directory: Path, base: Path, data: Path) -> Path:
    top = data.resolve(strict=True)
    if top.parent != base or not top.name.startswith("..") or not top.is_dir():
        # fail-closed: kubelet makes this link itself, and only to a folder beside it.
        raise ConfigurationError(f"{directory}/{_VOLUME_LINK}: expected a link to a folder beside it")
    held = {path.name for path in top.iterdir()}
    loose = sorted(path.name for path in base.iterdir() if path.name[:2] != ".." and path.name not in held)
    if loose:
        raise ConfigurationError(
            f"{directory}: expected only files of the volume, found {loose[0]} beside them"
        )
    return top


def read_files(directory: Path) -> dict[str, str]:
    """Name → text of every policy file. Raises `ConfigurationError` for what cannot be read as text.

    Bounds: `MAX_FILES` files of `MAX_BYTES` each (`MAX_DICTIONARY_BYTES` for dictionaries). Hidden files
    are left out (editors' swap files, the `..data` links of Kubernetes); any other `.yaml` or `.yml` is
    read, so that none is ignored.
    """
    return as_text(read_raw(top_of(directory)))


def as_text(raw_files: Mapping[str, bytes]) -> dict[str, str]:
    """The files as text. Raises `ConfigurationError` for what is not UTF-8."""
    files = {}
    for name, raw in raw_files.items():
        try:
            files[name] = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigurationError(
                f"{name}: expected UTF-8, found another byte at offset {error.start}"
            ) from None
    return files


def fingerprint(directory: Path) -> str:
    """Digest (hex) over names and bytes of the policy files: changes when and only when they do.

    Never raises: a folder that cannot be read has a fingerprint of its own. Cost: about 0.3 ms.
    """
    try:
        return _fingerprint(read_raw(top_of(directory)))
    except ConfigurationError as error:
        return "unreadable-" + hashlib.sha256(str(error).encode("utf-8")).hexdigest()


def run_cases(policy: CompiledPolicy) -> tuple[CaseResult, ...]:
    """Every case of the policy, decided by the policy."""
    everywhere = frozenset(policy.destinations)
    results = []
    for case in policy.cases:
        configured = everywhere if case.configured is None else case.configured
        results.append(CaseResult(case, case.difference(evaluate(policy, case.facts, configured))))
    return tuple(results)


def compile_and_test(files: Mapping[str, str]) -> CompiledPolicy:
    """The policy of these files, compiled and tested, with the scopes that its requests will ask for.

    Raises `ConfigurationError`: the first fault of a file, or every case that does not hold.
    """
    policy = compile_bundle(files)
    failures = [result for result in run_cases(policy) if result.difference is not None]
    if failures:
        lines = [
            f"{result.case.where}: case {result.case.name!r}: {result.difference}" for result in failures
        ]
        raise ConfigurationError("\n".join(lines))
    warm(policy)
    return policy


def load_bundle(directory: Path) -> CompiledPolicy:
    """The policy of a folder, compiled and tested. Raises `ConfigurationError`."""
    before = fingerprint(directory)
    policy = compile_and_test(read_files(directory))
    if fingerprint(directory) != before:
        # fail-closed: half of an old and half of a new policy is neither.
        raise ConfigurationError(
            f"{directory}: expected files that stand still, found a change while reading"
        )
    return policy


def try_load(previous: CompiledPolicy | None, directory: Path) -> Loaded | Rejected:
    """The folder's policy, or why it is not taken and what stays. Never raises."""
    seen = fingerprint(directory)
    try:
        return Loaded(load_bundle(directory), seen)
    except ConfigurationError as error:
        return Rejected(str(error), previous, seen)
    except Exception as error:  # noqa: BLE001
        # fail-closed: a fault of the loader keeps the last good policy instead of ending the watcher.
        return Rejected(f"{directory}: the policy cannot be loaded: {type(error).__name__}", previous, seen)


def read_raw(top: Path) -> dict[str, bytes]:
    """Name → bytes of every policy file below `top`, a folder from `top_of`. Raises `ConfigurationError`."""
    try:
        paths = {path.name: path for path in _files_in(top, top, _SUFFIXES)}
        cases = top / CASES_PREFIX
        if cases.is_dir():
            _inside(cases, top)
            paths |= {CASES_PREFIX + path.name: path for path in _files_in(cases, top, _SUFFIXES)}
        terms = top / DICTIONARIES_PREFIX
        if terms.is_dir():
            _inside(terms, top)
            paths |= {DICTIONARIES_PREFIX + path.name: path for path in _files_in(terms, top, (".txt",))}
        if len(paths) > MAX_FILES:
            raise ConfigurationError(f"{top}: expected at most {MAX_FILES} files, found {len(paths)}")
        return {name: _bounded(name, paths[name]) for name in sorted(paths)}
    except OSError as error:
        raise ConfigurationError(f"{top}: the policy folder cannot be read: {error.strerror}") from None


def _files_in(directory: Path, top: Path, suffixes: tuple[str, ...]) -> list[Path]:
    found = [
        path
        for path in directory.iterdir()
        if path.suffix in suffixes and not path.name.startswith(".") and path.is_file()
    ]
    for path in found:
        _inside(path, top)
    return found


def _inside(path: Path, top: Path) -> None:
    if path.is_symlink() and not path.resolve().is_relative_to(top):
        # fail-closed: what lies elsewhere was not reviewed with this folder, nor is it signed.
        raise ConfigurationError(f"{path.name}: expected no link that leaves the policy folder")


def _bounded(name: str, path: Path) -> bytes:
    most = MAX_DICTIONARY_BYTES if name.startswith(DICTIONARIES_PREFIX) else MAX_BYTES
    with path.open("rb") as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise ConfigurationError(f"{name}: expected at most {most} bytes, found more")
    return raw


def _fingerprint(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{len(name)}:{name}:{len(files[name])}:".encode())
        digest.update(files[name])
    return digest.hexdigest()
