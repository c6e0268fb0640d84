"""Changes that were asked for over the admin API: each acts once, also when it is sent again.

Enters: a call's key (of one actor) and what it asks for. Leaves: start it, or the answer that it got.

Invariants
1. A key or a one-time token is on disk before its change acts, so that a restart does not forget it.
2. The same key with another request is refused. A call whose end is unknown is refused, never repeated.
3. Keys are kept for `KEEP_SECONDS`, tokens until they expire. When the file is full, nothing new starts.

Not safe for two processes, nor for two calls at a time: its owner takes turns.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from gateway.errors import ConfigurationError, Conflict, NotReady

LEDGER_NAME = "calls.json"
KEEP_SECONDS = 24 * 3600
MAX_CALLS = 2048
MAX_TOKENS = 4096
#: Answers above this are not kept: a repeated call then hears that it was done, and no more.
MAX_ANSWER_BYTES = 4096


class Done(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A call by its actor and key. `request` is a digest of what was asked; status 0: the end is unknown."""

    actor: str
    key: str
    request: str
    at_seconds: int
    status: int = 0
    body: str = ""


class _Book(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    calls: tuple[Done, ...] = ()
    tokens: dict[str, int] = {}


class Ledger:
    """The calls below one folder. Raises `ConfigurationError` when they cannot be read."""

    def __init__(self, directory: Path, *, max_calls: int = MAX_CALLS) -> None:
        self._max_calls = max_calls
        self._place = directory / LEDGER_NAME
        try:
            book = msgspec.json.decode(self._place.read_bytes(), type=_Book)
        except FileNotFoundError:
            book = _Book()
        except OSError as error:
            raise ConfigurationError(f"{self._place}: cannot be read: {error.strerror}") from None
        except msgspec.DecodeError:
            # fail-closed: without it a spent token could act again.
            raise ConfigurationError(f"{self._place}: expected the calls of the admin API") from None
        self._calls = {(call.actor, call.key): call for call in book.calls}
        self._tokens = dict(book.tokens)

    def begin(self, call: Done, token: str, expires_at_seconds: int) -> Done | None:
        """Write down that a call starts; None: it may act. Else what the same call got before.

        `token` names a one-time token; empty: it is none. Raises `Conflict` (token-spent,
        idempotency-key-reused, outcome-unknown), `NotReady` when there is no room or no disk.
        """
        self._forget(call.at_seconds)
        if token and token in self._tokens:
            # fail-closed: whoever sends it again, it has done its one change.
            raise Conflict("This token has made its change already. Ask for a new one.", code="token-spent")
        known = self._calls.get((call.actor, call.key))
        if known is not None:
            return _same(known, call)
        if len(self._calls) >= self._max_calls or (token and len(self._tokens) >= MAX_TOKENS):
            raise NotReady("Too many changes in a day. Try again later.", code="admin-ledger-full")
        self._calls[call.actor, call.key] = call
        if token:
            self._tokens[token] = expires_at_seconds
        self._write()
        return None

    def end(self, call: Done, token: str, status: int, body: str) -> None:
        """Write down how a call ended; one that could not start (503) may come again. Raises `NotReady`."""
        kept = body if len(body) <= MAX_ANSWER_BYTES else ""
        self._calls[call.actor, call.key] = msgspec.structs.replace(call, status=status, body=kept)
        if status == NotReady.status:
            del self._calls[call.actor, call.key]
            self._tokens.pop(token, None)
        self._write()

    def _forget(self, now_seconds: int) -> None:
        for key, call in list(self._calls.items()):
            if now_seconds - call.at_seconds > KEEP_SECONDS:
                del self._calls[key]
        for token, expires in list(self._tokens.items()):
            if expires < now_seconds - KEEP_SECONDS:
                del self._tokens[token]

    def _write(self) -> None:
        draft = self._place.with_name(f".{LEDGER_NAME}.tmp")
        book = _Book(tuple(self._calls.values()), self._tokens)
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(book))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._place)
        except OSError:
            # fail-closed: what cannot be written down could be done twice.
            raise NotReady(
                "The change cannot be written down, so it does not act. Look at the disk of the gateway.",
                code="admin-ledger-unwritable",
            ) from None


def _same(known: Done, call: Done) -> Done:
    if known.request != call.request:
        raise Conflict(
            "This Idempotency-Key was used for another request. Use a new key.", code="idempotency-key-reused"
        )
    if not known.status:
        # fail-closed: it may have acted; doing it again is not what its sender asked for.
        raise Conflict(
            "The end of this call is not known. Look at GET /admin/v1/policy, then use a new key.",
            code="outcome-unknown",
        )
    return known
