"""Headers that say something about a request: workload class and attributes."""

from __future__ import annotations

import pytest

from gateway.domain.request import RawRequest
from gateway.errors import RequestRefused
from gateway.web.receive import raw_request, read_headers


def received(*headers: tuple[bytes, bytes]) -> RawRequest:
    return raw_request("req_1", "chat.completions", read_headers(headers), b"{}", "peer", 0)


def test_attributes_come_sorted_with_the_names_that_conditions_use() -> None:
    raw = received(
        (b"x-tidegate-attribute-purpose", b"audit"),
        (b"x-tidegate-attribute-cost-centre", b"a1"),
        (b"x-other", b"ignored"),
    )
    assert raw.attributes == (("cost_centre", "a1"), ("purpose", "audit"))


def test_a_request_says_nothing_of_itself_by_default() -> None:
    raw = received((b"user-agent", b"x"))
    assert (raw.attributes, raw.workload) == ((), None)


def test_the_workload_class_is_handed_on_as_it_came() -> None:
    assert received((b"x-tidegate-workload", b"Batch")).workload == "Batch"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([(b"x-tidegate-attribute-a", b"1"), (b"x-tidegate-attribute-a", b"2")], "duplicate-header"),
        ([(b"x-tidegate-workload", b"batch"), (b"x-tidegate-workload", b"batch")], "duplicate-header"),
        # Two spellings of one attribute could say two things.
        ([(b"x-tidegate-attribute-a_b", b"1")], "invalid-attribute"),
        ([(b"x-tidegate-attribute-%d" % at, b"1") for at in range(17)], "invalid-attribute"),
        ([(b"x-tidegate-attribute-a", b"\x1b[31m")], "invalid-header"),
        ([(b"x-tidegate-attribute-a", b"x" * 129)], "invalid-header"),
        ([(b"x-tidegate-attribute-a", "é".encode())], "invalid-header"),
    ],
)
def test_refuses_headers_that_could_be_read_in_two_ways(
    headers: list[tuple[bytes, bytes]], code: str
) -> None:
    with pytest.raises(RequestRefused) as caught:
        received(*headers)
    assert caught.value.code == code
