"""What an address in an answer would do when a client's page or a reader follows it. Pure.

An address is read in every way that a browser or a Markdown reader might read it: entities resolved, white
space and hidden characters dropped, backslashes as slashes and as Markdown's escapes. When one of the
readings leads elsewhere, it leads elsewhere.
Sources: RFC 3986; the URL standard of WHATWG (4.4, which strips white space and takes a backslash for a
slash); CommonMark 0.31 (6.3 links, 6.5 autolinks).
"""

from __future__ import annotations

import html
import re
from enum import Enum
from urllib.parse import unquote

from gateway.output.shapes import fold

_SPACE = re.compile(r"[\x00-\x20\x7f\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_MARKDOWN_ESCAPE = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.DOTALL)
_WEB = frozenset({"http", "https", "ws", "wss", "ftp"})
#: No page, but a program, a text of its own, or what the reader's own machine holds.
_RUN = frozenset(
    {"javascript", "data", "vbscript", "file", "blob", "filesystem", "view-source", "jar", "about"}
)
#: Opened by a program of the reader's own; without a query they carry one name or number.
_PERSONAL = frozenset({"mailto", "tel"})
_AUTHORITY = re.compile(r"[/\\]*([^/\\?#]*)(.*)", re.DOTALL)
#: An address inside another, as a redirect or a proxy takes it.
_NESTED = re.compile(r"(?:https?|ftp|wss?|javascript|data):|[/=]/[/\\]*[a-z0-9]|\\\\", re.IGNORECASE)
#: Longest path, and longest host, that is believed to be a name and not data.
LONG_PATH, LONG_HOST = 64, 64
#: Most rounds of percent-encoding that are looked through.
_ROUNDS = 3


class Leads(Enum):
    """Where an address leads."""

    NOWHERE = "nowhere"  # relative: to the page that shows the answer
    LISTED = "listed"  # to a host of the allow-list
    AWAY = "away"  # to another host, or by a listed one to somewhere else
    RUNS = "runs"  # no page of the web: javascript, data and the like


_ORDER = (Leads.NOWHERE, Leads.LISTED, Leads.AWAY, Leads.RUNS)


def is_listed(host: str, allowed: tuple[str, ...]) -> bool:
    """Whether `host` is one of `allowed`: a name exactly, or `*.name` for every name below it."""
    return any(host == each or (each.startswith("*.") and host.endswith(each[1:])) for each in allowed)


def leads(address: str, allowed: tuple[str, ...]) -> Leads:
    """Where this address leads in the worst of its readings."""
    plain = _SPACE.sub("", fold(html.unescape(address))).casefold()
    readings = {plain, plain.replace("\\", "/"), _MARKDOWN_ESCAPE.sub("", plain)}
    return max((_leads(each, allowed) for each in readings), key=_ORDER.index)


def _leads(address: str, allowed: tuple[str, ...]) -> Leads:
    match = _SCHEME.fullmatch(address)
    if match is not None:
        scheme, rest = match.groups()
        if not rest:
            return Leads.NOWHERE  # a word with a colon
        if scheme in _RUN:
            return Leads.RUNS
        if scheme in _PERSONAL:
            return Leads.AWAY if "?" in rest else Leads.LISTED
        if scheme not in _WEB:
            return Leads.AWAY
    elif address.startswith(("//", "\\\\", "/\\", "\\/")):
        rest = address
    else:
        return Leads.AWAY if _is_nested(address) else Leads.NOWHERE
    authority, path = _split(rest)
    host = authority.rpartition(":")[0] if re.search(r":\d*\Z", authority) else authority
    if not is_listed(host.rstrip("."), allowed) or _is_nested(path):
        return Leads.AWAY
    return Leads.LISTED


def _split(rest: str) -> tuple[str, str]:
    """Authority and what follows it. A user name stays part of the authority, so it is on no list."""
    match = _AUTHORITY.fullmatch(rest)
    return (match[1], match[2]) if match is not None else (rest, "")


def _is_nested(path: str) -> bool:
    """Whether an address stands inside a path or a query, percent-encoded or not."""
    for _ in range(_ROUNDS):
        if _NESTED.search(path) is not None:
            return True
        path, before = unquote(path), path
        if path == before:
            return False
    return True  # fail-closed: nobody encodes so often who has nothing to hide.


def has_data(address: str) -> bool:
    """Whether an address to the web has room for data: a query, a fragment, a user, a long path or host."""
    match = _SCHEME.fullmatch(address.casefold())
    authority, path = _split(match[2] if match is not None else address)
    return (
        "@" in authority
        or "?" in path
        or "#" in path
        or len(path) > LONG_PATH
        or len(authority) > LONG_HOST
        or _is_nested(path)
    )
