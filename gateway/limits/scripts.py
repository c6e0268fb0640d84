"""The two scripts: how they are called, which keys they get, how their answers are read."""

from __future__ import annotations

import hashlib
from importlib import resources

import hiredis

from gateway.domain.ids import tenant_tag
from gateway.limits.bucket import Outcome, Reply
from gateway.limits.link import Answer, Cause, Link, LinkDown, pack_command

RESERVE_SCRIPT = (resources.files("gateway.limits") / "reserve.lua").read_bytes()
SETTLE_SCRIPT = (resources.files("gateway.limits") / "settle.lua").read_bytes()

#: Errors that are about the server, not about one tenant's keys: the link ends.
_SERVER_ERRORS: dict[str, Cause] = {
    "READONLY": "readonly",
    "MASTERDOWN": "readonly",
    "NOAUTH": "auth",
    "NOPERM": "auth",
    "OOM": "error",
    "MISCONF": "error",
    "LOADING": "error",
    "NOREPLICAS": "error",
    "CLUSTERDOWN": "error",
    "MOVED": "error",
    "BUSY": "error",
}

_OUTCOMES = frozenset(int(outcome) for outcome in Outcome)


def tenant_keys(tenant: str) -> tuple[bytes, bytes, bytes]:
    """Key of the buckets, key of the leases, prefix of a record; one hash tag for all three."""
    tag = tenant_tag(tenant)
    return f"tg:{{{tag}}}:b".encode(), f"tg:{{{tag}}}:c".encode(), f"tg:{{{tag}}}:r:".encode()


class Script:
    """Packs the calls of one script."""

    __slots__ = ("_by_sha", "_by_text")

    def __init__(self, text: bytes) -> None:
        sha = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        self._by_sha = ("EVALSHA", sha, 3)
        self._by_text = ("EVAL", text, 3)

    def pack(self, arguments: tuple[bytes | str | int, ...]) -> bytes:
        """The call by digest."""
        return pack_command((*self._by_sha, *arguments))

    def pack_with_text(self, arguments: tuple[bytes | str | int, ...]) -> bytes:
        """The call with the script itself, for a server that has forgotten it."""
        return pack_command((*self._by_text, *arguments))


def read_reply(link: Link, answer: Answer) -> Reply:
    """The answer of reserve.lua. Raises `LinkDown` when it is not one (see `bad_answer`)."""
    if (
        type(answer) is list
        and len(answer) == len(Reply._fields)
        and all(type(field) is int for field in answer)
        and answer[0] in _OUTCOMES
    ):
        return Reply._make(answer)
    raise bad_answer(link, answer)


def bad_answer(link: Link, answer: Answer) -> LinkDown:
    """The refusal of an answer; ends the link unless the fault lies in one tenant's keys."""
    if not isinstance(answer, hiredis.ReplyError):
        link.end("shape")
        return LinkDown("shape")
    cause = _SERVER_ERRORS.get(str(answer).split(" ", 1)[0])
    if cause is not None:
        link.end(cause)
    return LinkDown(cause or "error")
