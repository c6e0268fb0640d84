"""Stage 0: from an ASGI scope to a `RawRequest`.

Invariants
1. Headers are read by an allow-list; every other header of the client is dropped here.
2. The request id is made here; the client's own is kept apart as untrusted.
3. Nothing that a proxy might say (`x-forwarded-*`) is believed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable

from gateway.domain.ids import uuid7_hex
from gateway.domain.request import RawRequest
from gateway.domain.secret import Secret
from gateway.errors import RequestRefused, UnsupportedMedia
from gateway.identity.tokens import refusal

_MAX_ID_CHARS = 128
_ONCE = frozenset(
    {
        b"authorization",
        b"x-api-key",
        b"content-type",
        b"content-encoding",
        b"x-request-id",
        b"x-tidegate-approval",
        b"x-tidegate-label",
        b"x-tidegate-protocol",
        b"x-tidegate-workload",
        b"x-tidegate-max-wait",
    }
)
_ATTRIBUTE = b"x-tidegate-attribute-"
_MAX_ATTRIBUTES = 16


def new_request_id() -> str:
    """A server-made id: `req_` and a UUIDv7 in hex."""
    return "req_" + uuid7_hex(time.time_ns() // 1_000_000, secrets.randbits(74))


def read_headers(
    headers: Iterable[tuple[bytes, bytes]], also: frozenset[bytes] = frozenset()
) -> dict[bytes, bytes]:
    """The allow-listed headers and those of `also`, each at most once.

    Raises `RequestRefused`, `NotAuthenticated`.
    """
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name not in _ONCE and name not in also and not name.startswith(_ATTRIBUTE):
            continue
        if name in found:
            if name in {b"authorization", b"x-api-key"}:
                raise refusal("duplicate-authorization")
            raise RequestRefused(
                f"The header {name.decode()} is present more than once. Send it once.",
                code="duplicate-header",
                param=name.decode(),
            )
        found[name] = value
    return found


def check_query(query: bytes) -> None:
    """No route of this gateway takes a query; a token in one must not be read, nor logged."""
    if query:
        raise RequestRefused(
            "This route takes no query parameters. Send the token in the Authorization header.",
            code="unexpected-query",
        )


def check_media(found: dict[bytes, bytes]) -> None:
    """Only uncompressed `application/json` (UTF-8) is read."""
    media, _, parameters = found.get(b"content-type", b"").partition(b";")
    charset = parameters.strip().lower().replace(b'"', b"")
    if media.strip().lower() != b"application/json" or charset not in {b"", b"charset=utf-8"}:
        raise UnsupportedMedia("The body must be application/json in UTF-8. Set the content-type header.")
    if found.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise UnsupportedMedia(
            "A compressed body is not read. Send it without content-encoding.",
            code="unsupported-content-encoding",
        )


def plain_value(found: dict[bytes, bytes], name: bytes) -> str | None:
    """A header as text of printable ASCII, at most 128 characters. Raises `RequestRefused`."""
    value = found.get(name)
    if value is None:
        return None
    text = value.decode("latin-1")
    if not text.isascii() or not text.isprintable() or len(text) > _MAX_ID_CHARS:
        raise RequestRefused(
            f"The header {name.decode()} must be printable ASCII of at most {_MAX_ID_CHARS} characters.",
            code="invalid-header",
            param=name.decode(),
        )
    return text


def raw_request(
    request_id: str, endpoint: str, found: dict[bytes, bytes], body: bytes, peer: str, started_ns: int
) -> RawRequest:
    """The value that walks."""
    token = _authorization(found)
    return RawRequest(
        request_id=request_id,
        endpoint=endpoint,
        authorization=Secret(token.decode("latin-1")) if token is not None else None,
        declared_label=plain_value(found, b"x-tidegate-label"),
        client_request_id=plain_value(found, b"x-request-id"),
        body=body,
        peer=peer,
        received_at_us=time.time_ns() // 1000,
        received_mono_ns=started_ns,
        protocol=plain_value(found, b"x-tidegate-protocol"),
        workload=plain_value(found, b"x-tidegate-workload"),
        max_wait=plain_value(found, b"x-tidegate-max-wait"),
        attributes=_attributes(found),
        approval=plain_value(found, b"x-tidegate-approval"),
    )


def _authorization(found: dict[bytes, bytes]) -> bytes | None:
    """The caller's token as an Authorization value; Anthropic's clients send it as `x-api-key`."""
    token, key = found.get(b"authorization"), found.get(b"x-api-key")
    if key is None:
        return token
    bearer = b"Bearer " + key
    if token is not None and token != bearer:
        # fail-closed: two tokens could be of two callers.
        raise refusal("duplicate-authorization")
    return bearer


def _attributes(found: dict[bytes, bytes]) -> tuple[tuple[str, str], ...]:
    """(name, value) of the attribute headers, sorted; `-` in a header's name is `_` in the attribute's."""
    names = [name for name in found if name.startswith(_ATTRIBUTE)]
    if len(names) > _MAX_ATTRIBUTES or any(b"_" in name for name in names):
        # fail-closed: two spellings of one attribute could say two things.
        raise RequestRefused(
            f"A request has at most {_MAX_ATTRIBUTES} attribute headers, with `-` and without `_`.",
            code="invalid-attribute",
        )
    return tuple(
        sorted(
            (name[len(_ATTRIBUTE) :].decode("latin-1").replace("-", "_"), plain_value(found, name) or "")
            for name in names
        )
    )
