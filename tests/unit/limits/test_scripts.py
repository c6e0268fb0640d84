from __future__ import annotations

import asyncio

import hiredis
import pytest

from gateway.domain.ids import tenant_tag
from gateway.domain.limits import Budget, Quota, ScopeLimits
from gateway.limits.bucket import Reply
from gateway.limits.link import Link, LinkDown
from gateway.limits.scripts import (
    EXTEND_SCRIPT,
    RESERVE_SCRIPT,
    SETTLE_SCRIPT,
    Script,
    account_tag,
    limit_words,
    quota_keys,
    read_reply,
    record_prefix,
)

GOOD = [1, 1_000, 5, 0, 0, 6, 7, 8, 9, 10, 11, -1, -1]
USER = Quota("user", "u", ScopeLimits(1, 2, 3, Budget(None, 4)))


def test_keys_of_one_tenant_share_one_hash_tag() -> None:
    assert record_prefix("acme") == b"tg:{acme}:r:"
    assert quota_keys("acme", USER) == (b"tg:{acme}:user:u:w", b"tg:{acme}:user:u:c", b"tg:{acme}:user:u:m")
    assert quota_keys("acme", Quota("tenant", "", ScopeLimits()))[0] == b"tg:{acme}:tenant::w"


@pytest.mark.parametrize("name", ["a}:r:x", "a{b", "", "é", "a b", "@a", "a" * 65, "a\r\nFLUSHALL", "\ud800"])
def test_name_with_other_characters_goes_in_as_its_digest(name: str) -> None:
    tag = tenant_tag(name)
    assert tag.startswith("=")
    assert len(tag) == 65
    assert account_tag(name) == "@" + tag
    if name:
        assert quota_keys("t", Quota("key", name, ScopeLimits()))[0] == f"tg:{{t}}:key:{tag}:w".encode()


def test_five_numbers_are_sent_for_each_quota() -> None:
    assert limit_words((USER, USER)) == (1, 2, 3, -1, 4) * 2


def test_packs_by_digest_and_with_the_text() -> None:
    script = Script(b"return 1")
    assert script.pack((1, b"k", "a", -1)) == (
        b"*6\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n"
        b"$1\r\n1\r\n$1\r\nk\r\n$1\r\na\r\n$2\r\n-1\r\n"
    )
    assert script.pack_with_text((1, b"k")).startswith(b"*4\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n")


def test_scripts_are_ascii_and_loaded_from_the_package() -> None:
    for script in (RESERVE_SCRIPT, SETTLE_SCRIPT, EXTEND_SCRIPT):
        assert script.isascii()
        assert script.startswith(b"#!lua")
        assert b"local function look" in script


async def test_reads_a_good_answer() -> None:
    assert read_reply(Link(1), GOOD, 1) == Reply._make((*GOOD[:5], tuple(GOOD[5:])))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"OK",
        1,
        [],
        GOOD[:-1],
        [*GOOD, 1],
        [0, *GOOD[1:]],
        [3, *GOOD[1:]],
        [b"1", *GOOD[1:]],
        [*GOOD[:-1], None],
        [True, *GOOD[1:]],
        [*GOOD[:4], 1, *GOOD[5:]],
        [*GOOD, *GOOD[5:]],
    ],
)
async def test_answer_of_another_shape_ends_the_link(answer: object) -> None:
    link = Link(1)
    with pytest.raises(LinkDown, match="shape"):
        read_reply(link, answer, 1)
    assert link.ended.result() == "shape"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("READONLY You can't write", "readonly"),
        ("NOAUTH Authentication required.", "auth"),
        ("OOM command not allowed", "error"),
        ("LOADING", "error"),
        ("MOVED 1 host:1", "error"),
    ],
)
async def test_error_of_the_server_ends_the_link(error: str, cause: str) -> None:
    link = Link(1)
    with pytest.raises(LinkDown, match=cause):
        read_reply(link, hiredis.ReplyError(error), 1)
    assert link.ended.result() == cause


async def test_error_of_one_tenants_keys_does_not_end_the_link() -> None:
    link = Link(1)
    with pytest.raises(LinkDown, match="error"):
        read_reply(link, hiredis.ReplyError("WRONGTYPE Operation against a key"), 1)
    assert not link.ended.done()
    assert isinstance(link.ended, asyncio.Future)
