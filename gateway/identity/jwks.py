"""Key sets from a file or a URL, kept fresh.

How a set from a URL ages, counted from its last good fetch:

    0 ─────── fresh ─────── refresh_seconds ─────── outage only ─────── + stale_grace_seconds
              ▲ at 80 % a fetch starts in the background

Invariants
1. One fetch at a time, and at most one start of a fetch per `cooldown_seconds` once a set is there,
   whatever tokens ask for. The cooldown is also the memory of unknown ids: what the last answer did
   not hold stays unknown until it ends, for any number of ids in no memory at all.
2. A set older than `refresh_seconds` is used only after a fetch was tried and failed, and never after
   the grace. Then nothing is verified (503).
3. Only the configured address is asked. Redirects are not followed; what a token says is never used.
4. An answer that is not a good key set changes nothing: the last good one stays and ages.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from gateway.errors import ConfigurationError, KeySetUnavailable
from gateway.identity.keys import (
    MAX_KEY_SET_BYTES,
    InvalidKeySet,
    KeySet,
    KeySource,
    VerificationKey,
    parse_key_set,
)
from gateway.settings import IdentitySettings, IssuerSettings

#: Share of `refresh_seconds` after which a fetch starts ahead of need.
REFRESH_AHEAD = 0.8
#: How often the file's state is looked at, in seconds.
FILE_CHECK_SECONDS = 1.0


class FileKeySource:
    """Keys from a JWK set file, read again when its inode, size or time of change differ.

    A file that is gone or broken counts as an outage: the last good set stays for
    `stale_grace_seconds`. `now` gives seconds of a clock that does not jump. The file is small (256
    KiB at most) and local, so it is read in place; a look costs about 2 µs once a second.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], float],
        stale_grace_seconds: float = 3600,
        check_seconds: float = FILE_CHECK_SECONDS,
    ) -> None:
        self._path = path
        self._now = now
        self._stale_grace_seconds = stale_grace_seconds
        self._check_seconds = check_seconds
        self._keys: KeySet | None = None
        self._state: tuple[int, int, int] | None = None
        self._generation = 0
        self._checked_at = float("-inf")
        self._good_at = float("-inf")

    def generation(self) -> int | None:
        """Number of the set in force; None when there is none or its grace is over."""
        now = self._now()
        if now - self._checked_at >= self._check_seconds:
            self._look(now)
        if self._keys is None or now - self._good_at > self._stale_grace_seconds:
            return None
        return self._generation

    async def find(self, key_id: str) -> VerificationKey | None:
        """The key with this id, or None. Raises `KeySetUnavailable` without a usable set."""
        if self.generation() is None or self._keys is None:
            raise _unavailable(self._check_seconds)
        return self._keys.keys.get(key_id)

    async def start(self) -> None:
        """Read the file. Raises `ConfigurationError` that names it when that fails."""
        try:
            state, keys = _read_key_file(self._path)
        except OSError as error:
            raise ConfigurationError(f"key set {self._path}: cannot be read: {error.strerror}") from None
        except InvalidKeySet as error:
            raise ConfigurationError(f"key set {self._path}: {error}") from None
        self._take(state, keys, self._now())

    async def aclose(self) -> None:
        """Nothing runs."""

    def _look(self, now: float) -> None:
        self._checked_at = now
        try:
            if _file_state(os.stat(self._path)) == self._state and self._keys is not None:
                self._good_at = now
                return
            state, keys = _read_key_file(self._path)
        except (OSError, InvalidKeySet):
            return
        self._take(state, keys, now)

    def _take(self, state: tuple[int, int, int], keys: KeySet, now: float) -> None:
        if self._keys is None or keys.sha256 != self._keys.sha256:
            self._generation += 1
        self._keys, self._state = keys, state
        self._checked_at = self._good_at = now


class UrlKeySource:
    """Keys from a URL that serves a JWK set (`jwks_uri` of an issuer).

    `now` gives seconds of a clock that does not jump. `client` is closed here only when it was made
    here. Raises `ConfigurationError` for an address that is not https (plain http: loopback only).
    """

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], float],
        refresh_seconds: float = 300,
        cooldown_seconds: float = 4,
        stale_grace_seconds: float = 3600,
        fetch_timeout_seconds: float = 3,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        self._url = _checked_url(url)
        self._now = now
        self._refresh_seconds = refresh_seconds
        self._cooldown_seconds = cooldown_seconds
        self._stale_grace_seconds = stale_grace_seconds
        self._fetch_timeout_seconds = fetch_timeout_seconds
        self._owns_client = client is None
        self._client = client or httpx.AsyncClient(
            follow_redirects=False, trust_env=False, limits=httpx.Limits(max_connections=1)
        )
        self._keys: KeySet | None = None
        self._generation = 0
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._last_try_failed = False
        self._fetch: asyncio.Task[None] | None = None
        self._is_closed = False

    def generation(self) -> int | None:
        """Number of the set in force; None when `find` has to ask first.

        Starts the fetch ahead of need, so it must run inside an event loop.
        """
        age = self._now() - self._fetched_at
        if age > self._refresh_seconds * REFRESH_AHEAD and self._may_fetch():
            self._start_fetch()
        if self._keys is None:
            return None
        if age <= self._refresh_seconds:
            return self._generation
        if self._last_try_failed and age <= self._refresh_seconds + self._stale_grace_seconds:
            return self._generation
        return None

    async def find(self, key_id: str) -> VerificationKey | None:
        """The key with this id, or None when the issuer's answer does not hold it.

        Waits for at most one fetch (`fetch_timeout_seconds`).
        Raises `KeySetUnavailable`: no usable set, or an unknown id while the issuer cannot be asked.
        """
        if self.generation() is None:
            await self._wait_for_fetch()
            if self.generation() is None:
                raise _unavailable(self._cooldown_seconds)
        key = self._known(key_id)
        if key is not None:
            return key
        await self._wait_for_fetch()
        key = self._known(key_id)
        if key is None and self._last_try_failed:
            # fail-closed: the issuer may have this key by now and cannot be asked; not verified.
            raise _unavailable(self._cooldown_seconds)
        return key

    async def start(self) -> None:
        """Try one fetch. When it fails, `generation()` stays None and requests get 503 until one works."""
        await self._wait_for_fetch()

    async def aclose(self) -> None:
        """Cancel a running fetch and close the client that was made here."""
        self._is_closed = True
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            fetch.cancel()
            await asyncio.wait((fetch,))
        if self._owns_client:
            await self._client.aclose()

    def _known(self, key_id: str) -> VerificationKey | None:
        return None if self._keys is None else self._keys.keys.get(key_id)

    def _may_fetch(self) -> bool:
        return not self._is_closed and (
            self._fetch is None and self._now() - self._tried_at >= self._cooldown_seconds
        )

    def _start_fetch(self) -> None:
        self._tried_at = self._now()
        self._fetch = asyncio.create_task(self._run_fetch(), name="key-set-fetch")

    async def _wait_for_fetch(self) -> None:
        """Join the running fetch, or start one when the cooldown allows; else return at once."""
        if self._may_fetch():
            self._start_fetch()
        if self._fetch is not None:
            # `wait` leaves the task alone: a client that goes must not cancel what others wait for.
            await asyncio.wait((self._fetch,))

    async def _run_fetch(self) -> None:
        """One fetch from start to end. Never raises; a failure is remembered and changes nothing."""
        started_at = self._now()
        try:
            async with asyncio.timeout(self._fetch_timeout_seconds):
                keys = parse_key_set(await self._download())
        except Exception:  # noqa: BLE001
            # fail-closed: whatever went wrong, it is an outage; the last good set ages towards its end.
            self._last_try_failed = True
        else:
            if self._keys is None or keys.sha256 != self._keys.sha256:
                self._generation += 1
            self._keys, self._fetched_at, self._last_try_failed = keys, started_at, False
        finally:
            self._fetch = None

    async def _download(self) -> bytes:
        """Body of a 200 answer, at most `MAX_KEY_SET_BYTES`, not compressed."""
        headers = {"accept": "application/jwk-set+json, application/json", "accept-encoding": "identity"}
        async with self._client.stream(
            "GET", self._url, headers=headers, timeout=self._fetch_timeout_seconds, follow_redirects=False
        ) as answer:
            if answer.status_code != 200 or "content-encoding" in answer.headers:
                raise InvalidKeySet("expected status 200 and a plain body")
            body = bytearray()
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > MAX_KEY_SET_BYTES:
                    raise InvalidKeySet(f"larger than {MAX_KEY_SET_BYTES} bytes")
            return bytes(body)


def key_source(issuer: IssuerSettings, identity: IdentitySettings, now: Callable[[], float]) -> KeySource:
    """The source that `issuer.keys` names: `file:PATH`, or an https URL. `now`: monotonic seconds.

    Raises `ConfigurationError` for anything else.
    """
    scheme, _, place = issuer.keys.partition(":")
    if scheme == "file" and place:
        return FileKeySource(Path(place), now=now, stale_grace_seconds=identity.stale_grace_seconds)
    return UrlKeySource(
        issuer.keys,
        now=now,
        refresh_seconds=identity.refresh_seconds,
        cooldown_seconds=identity.cooldown_seconds,
        stale_grace_seconds=identity.stale_grace_seconds,
        fetch_timeout_seconds=identity.fetch_timeout_seconds,
    )


def _unavailable(retry_after_seconds: float) -> KeySetUnavailable:
    return KeySetUnavailable(
        "Tokens cannot be verified just now. Try again later.",
        retry_after_seconds=max(1, round(retry_after_seconds)),
    )


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    is_private = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))
    if parts.hostname and is_private and parts.username is None and not parts.fragment:
        return url
    # fail-closed: over plain http anyone on the way can hand us keys of his own.
    raise ConfigurationError(
        "identity.issuers.keys: expected file:PATH, an https URL, or an http URL of a loopback address,"
        " without user or fragment"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _file_state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read_key_file(path: Path) -> tuple[tuple[int, int, int], KeySet]:
    """State and keys of the file; the state is that of what was read, not of a later file."""
    with path.open("rb") as file:
        state = _file_state(os.fstat(file.fileno()))
        document = file.read(MAX_KEY_SET_BYTES + 1)
    return state, parse_key_set(document)
