"""Which addresses a destination's connections may go to. Pure.

A name is resolved at each connection, and whoever can change the answer (a poisoned resolver, a rebound
name) could send it anywhere. So the address itself is checked, the one that the socket then connects to.

| what is known | addresses that are allowed |
|---|---|
| `networks` are declared | those inside one of them |
| the URL holds an address | exactly that one |
| a name, hosted | public addresses |
| a name, private | private and loopback addresses; never link-local (169.254.169.254), never public |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from gateway.errors import ConfigurationError

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class AddressRule:
    """The addresses for one URL. `literal` is the address in it, if it holds one."""

    networks: tuple[Network, ...] = ()
    literal: Address | None = None

    def allows(self, text: str, *, hosted: bool) -> bool:
        """Whether a connection to this address may be opened."""
        address = _plain(text)
        if address is None:
            return False
        if self.networks:
            return any(address in network for network in self.networks)
        if self.literal is not None:
            return address == self.literal
        if hosted:
            return address.is_global and not address.is_multicast
        return not (address.is_global or address.is_link_local or address.is_multicast)


def address_rule(host: str, networks: Iterable[str]) -> AddressRule:
    """Rule for the host of a URL and the declared networks. Raises `ConfigurationError` for a bad one."""
    found = []
    for text in networks:
        try:
            found.append(ip_network(text))
        except ValueError:
            raise ConfigurationError(
                f"networks: expected an address range such as 10.1.0.0/16, found {text!r}"
            ) from None
    return AddressRule(tuple(found), _plain(host))


def _plain(text: str) -> Address | None:
    """The address in `text`; an IPv4 address in IPv6 clothes is the IPv4 address."""
    try:
        address = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
