from __future__ import annotations

import asyncio

import hiredis
import pytest

from gateway.limits.bucket import Reply
from gateway.limits.link import Link, LinkDown
from gateway.limits.scripts import RESERVE_SCRIPT, Script, read_reply, tenant_keys

GOOD = [1, 1_000, 5, 6, 7, 8, 9, 10, 11, 0]


def test_keys_of_one_tenant_share_one_hash_tag() -> None:
    assert tenant_keys("acme") == (b"tg:{acme}:b", b"tg:{acme}:c", b"tg:{acme}:r:")


@pytest.mark.parametrize("tenant", ["a}:r:x", "a{b", "", "é", "a b", "a" * 65, "a\r\nFLUSHALL", "\ud800"])
def test_name_with_other_characters_goes_in_as_its_digest(tenant: str) -> None:
    buckets, leases, record = tenant_keys(tenant)
    tag = buckets.decode()[3:-2]
    assert tag.startswith("{=")
    assert len(tag) == 3 + 64
    assert (leases.decode(), record.decode()) == (f"tg:{tag}:c", f"tg:{tag}:r:")


def test_packs_by_digest_and_with_the_text() -> None:
    script = Script(b"return 1")
    assert script.pack((b"k", "a", -1)) == (
        b"*6\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n"
        b"$1\r\n3\r\n$1\r\nk\r\n$1\r\na\r\n$2\r\n-1\r\n"
    )
    assert script.pack_with_text((b"k",)).startswith(b"*4\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n")


def test_scripts_are_ascii_and_loaded_from_the_package() -> None:
    assert RESERVE_SCRIPT.isascii()
    assert b"ZREMRANGEBYSCORE" in RESERVE_SCRIPT


async def test_reads_a_good_answer() -> None:
    assert read_reply(Link(1), GOOD) == Reply(*GOOD)


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
    ],
)
async def test_answer_of_another_shape_ends_the_link(answer: object) -> None:
    link = Link(1)
    with pytest.raises(LinkDown, match="shape"):
        read_reply(link, answer)
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
        read_reply(link, hiredis.ReplyError(error))
    assert link.ended.result() == cause


async def test_error_of_one_tenants_keys_does_not_end_the_link() -> None:
    link = Link(1)
    with pytest.raises(LinkDown, match="error"):
        read_reply(link, hiredis.ReplyError("WRONGTYPE Operation against a key"))
    assert not link.ended.done()
    assert isinstance(link.ended, asyncio.Future)
