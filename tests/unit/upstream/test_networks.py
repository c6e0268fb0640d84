from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ConfigurationError
from gateway.upstream.networks import address_rule

METADATA = "169.254.169.254"


def test_declared_networks_are_the_only_ones() -> None:
    rule = address_rule("api.example", ["10.1.0.0/16", "2001:db8::/32"])
    for address, allowed in {
        "10.1.2.3": True,
        "10.2.2.3": False,
        "8.8.8.8": False,
        "2001:db8::1": True,
        "::ffff:10.1.2.3": True,
        "::ffff:10.2.2.3": False,
        METADATA: False,
    }.items():
        assert rule.allows(address, hosted=True) is allowed, address
        assert rule.allows(address, hosted=False) is allowed, address


def test_an_address_in_the_url_is_the_only_one() -> None:
    rule = address_rule("127.0.0.1", [])
    assert rule.allows("127.0.0.1", hosted=True)
    assert rule.allows("::ffff:127.0.0.1", hosted=True)
    assert not rule.allows("127.0.0.2", hosted=True)


@pytest.mark.parametrize(
    ("address", "hosted", "private"),
    [
        ("8.8.8.8", True, False),
        ("2606:4700::1111", True, False),
        ("10.0.0.7", False, True),
        ("192.168.1.1", False, True),
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("fd00::7", False, True),
        ("100.64.0.1", False, True),
        (METADATA, False, False),
        (f"::ffff:{METADATA}", False, False),
        ("fe80::1%eth0", False, False),
        ("224.0.0.1", False, False),
        ("::ffff:10.0.0.7", False, True),
        ("no address", False, False),
        ("", False, False),
    ],
)
def test_a_name_goes_where_its_kind_of_destination_lives(address: str, hosted: bool, private: bool) -> None:
    rule = address_rule("some.name", [])
    assert rule.allows(address, hosted=True) is hosted
    assert rule.allows(address, hosted=False) is private


@given(st.ip_addresses())
def test_no_address_is_good_for_both_kinds(address: object) -> None:
    rule = address_rule("some.name", [])
    assert not (rule.allows(str(address), hosted=True) and rule.allows(str(address), hosted=False))


@pytest.mark.parametrize("bad", ["10.0.0.1/8", "everything", "", "10.0.0.0/33"])
def test_a_network_that_is_none_is_named(bad: str) -> None:
    with pytest.raises(ConfigurationError, match="expected an address range"):
        address_rule("some.name", [bad])
