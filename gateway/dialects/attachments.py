"""Content that travels inline as base64: which types are taken, and how large. Pure.

Invariant: content that lives elsewhere is refused; nothing is resolved or fetched to look at it.
"""

from __future__ import annotations

import binascii

from gateway.dialects.strict_json import refuse_value
from gateway.errors import RequestRefused

#: Media types of `data:` URLs that are taken, by part.
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
FILE_TYPES = frozenset({"application/pdf"})
#: Decoded size of one attachment.
MAX_ATTACHMENT_BYTES = 3 * 1024 * 1024


def refuse_remote(path: str) -> RequestRefused:
    """Refusal of content that is named by an address or a provider's id."""
    return RequestRefused(
        f"`{path}` is not a `data:` URL; the gateway fetches nothing, send the content inline.",
        code="remote-url-refused",
        param=path,
    )


def check_data_url(url: str, types: frozenset[str], path: str) -> None:
    """Return for a base64 `data:` URL of one of these types. Refuses with `RequestRefused`."""
    if not url.startswith("data:"):
        # fail-closed: nothing is resolved or fetched to find out whether the address is harmless.
        raise refuse_remote(path)
    head, comma, payload = url[5:].partition(",")
    media_type, semicolon, encoding = head.partition(";")
    if not comma or not semicolon or encoding != "base64" or media_type not in types:
        raise refuse_value(path, f"a base64 data URL of one of {', '.join(sorted(types))} is expected")
    check_base64(payload, path)


def check_base64(text: str, path: str) -> None:
    """Return for strict base64 of a content that is neither empty nor too large."""
    if len(text) > -(-MAX_ATTACHMENT_BYTES // 3) * 4:
        raise refuse_value(path, f"an attachment holds at most {MAX_ATTACHMENT_BYTES} bytes")
    try:
        content = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise refuse_value(path, "standard base64 without line breaks is expected") from None
    if not content:
        raise refuse_value(path, "the attachment is empty")


def split_data_url(url: str) -> tuple[str, str]:
    """Media type and base64 text of a `data:` URL that `check_data_url` has passed."""
    head, _, payload = url[5:].partition(",")
    return head.partition(";")[0], payload
