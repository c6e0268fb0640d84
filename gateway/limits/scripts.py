"""The scripts: how they are called, which keys they get, how their answers are read."""

from __future__ import annotations

import hashlib
from importlib import resources

import hiredis

from gateway.domain.ids import tenant_tag
from gateway.domain.limits import Quota
from gateway.limits.bucket import STATE_FIELDS, Outcome, Reply
from gateway.limits.link import Answer, Cause, Link, LinkDown, pack_command


def _script(head: bytes, name: str) -> bytes:
    """A script with what all of them share before it; the first line says what the server allows it."""
    room = resources.files("gateway.limits")
    return b"\n".join((head, (room / "window.lua").read_bytes(), (room / name).read_bytes()))


RESERVE_SCRIPT = _script(b"#!lua", "reserve.lua")
SETTLE_SCRIPT = _script(b"#!lua flags=allow-oom", "settle.lua")
EXTEND_SCRIPT = _script(b"#!lua flags=allow-oom", "extend.lua")

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

#: Fields of an answer before the numbers of the quotas.
_HEAD_FIELDS = 5

_OUTCOMES = frozenset(int(outcome) for outcome in Outcome)


def account_tag(account: str) -> str:
    """What stands for a provider account in the names of its keys; no tenant's tag begins with `@`."""
    return "@" + tenant_tag(account)


def record_prefix(tag: str) -> bytes:
    """Before the request id in the key of a record. `tag`: `tenant_tag` or `account_tag`."""
    return f"tg:{{{tag}}}:r:".encode()


def quota_keys(tag: str, quota: Quota) -> tuple[bytes, bytes, bytes]:
    """Keys of a quota's window, leases and money; all keys of one tag are in one slot of a cluster."""
    head = f"tg:{{{tag}}}:{quota.scope}:{tenant_tag(quota.owner) if quota.owner else ''}"
    return f"{head}:w".encode(), f"{head}:c".encode(), f"{head}:m".encode()


def limit_words(quotas: tuple[Quota, ...]) -> tuple[int, ...]:
    """Five limits of each quota, as the scripts want them."""
    words: list[int] = []
    for quota in quotas:
        limits, budget = quota.limits, quota.limits.budget
        words += (limits.requests_per_minute, limits.tokens_per_minute, limits.concurrency)
        words.append(-1 if budget.day_usd_micros is None else budget.day_usd_micros)
        words.append(-1 if budget.month_usd_micros is None else budget.month_usd_micros)
    return tuple(words)


class Script:
    """Packs the calls of one script."""

    __slots__ = ("_by_sha", "_by_text")

    def __init__(self, text: bytes) -> None:
        sha = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        self._by_sha = ("EVALSHA", sha)
        self._by_text = ("EVAL", text)

    def pack(self, arguments: tuple[bytes | str | int, ...]) -> bytes:
        """The call by digest. `arguments` begin with the number of keys."""
        return pack_command((*self._by_sha, *arguments))

    def pack_with_text(self, arguments: tuple[bytes | str | int, ...]) -> bytes:
        """The call with the script itself, for a server that has forgotten it."""
        return pack_command((*self._by_text, *arguments))


def read_reply(link: Link, answer: Answer, quota_count: int) -> Reply:
    """The answer of reserve.lua. Raises `LinkDown` when it is not one (see `bad_answer`)."""
    if (
        type(answer) is list
        and len(answer) == _HEAD_FIELDS + quota_count * STATE_FIELDS
        and all(type(field) is int for field in answer)
        and answer[0] in _OUTCOMES
        and 0 <= answer[4] < quota_count
    ):
        return Reply._make((*answer[:_HEAD_FIELDS], tuple(answer[_HEAD_FIELDS:])))
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
