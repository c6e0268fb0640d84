"""Host names and addresses of the company's own network in an answer.

They are findings like a detector's, so they are held, masked and read through JSON escapes as those are. What
stands before the first dot or digit could be prose and is released ("vault" of `vault.internal`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level
from gateway.output.rules import Action

#: Suffixes when a rule lists none: reserved for private use, or never delegated for the clashes it would
#: bring (ICANN SAC113 and its list of high-risk names; RFC 8375).
SUFFIXES = ("internal", "corp", "intranet", "lan", "localdomain", "home.arpa", "cluster.local")
#: RFC 1918, RFC 6598 (shared by carriers), RFC 3927 and RFC 4291 (link-local), RFC 4193. Loopback is left
#: out: it is in every tutorial and tells nothing. So are the networks for documentation.
_NETWORKS: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(each)
    for each in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "fc00::/7",
        "fe80::/10",
    )
)  # fmt: skip
_ADDRESS = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)"
    r"|(?<![\w:])f[cdeCDE][0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])",
    re.ASCII | re.IGNORECASE,
)
_LABEL = Label(Level.INTERNAL)


@dataclass(frozen=True, slots=True)
class HostRule:
    """Acts on names that end in one of `suffixes` (with a label before it) and on private addresses."""

    name: str
    suffixes: tuple[str, ...] = SUFFIXES
    has_addresses: bool = True
    action: Action = Action.REDACT
    text: str = ""
    _names: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        endings = "|".join(re.escape(suffix) for suffix in sorted(self.suffixes, key=len, reverse=True))
        object.__setattr__(
            self,
            "_names",
            re.compile(
                rf"(?<![\w.-])(?:[a-z0-9_][a-z0-9_-]{{0,62}}\.){{1,8}}(?:{endings})(?![\w-]|\.[a-z0-9])",
                re.ASCII | re.IGNORECASE,
            ),
        )

    def find(self, text: str) -> Iterator[Finding]:
        """Findings of this rule."""
        if self.suffixes:
            for match in self._names.finditer(text):
                yield Finding("internal-host", self.name, _LABEL, *match.span())
        if self.has_addresses:
            for match in _ADDRESS.finditer(text):
                if _is_private(match[0]):
                    yield Finding("private-address", self.name, _LABEL, *match.span())

    def judge(self, finding: Finding) -> Action | None:
        """The rule's action for what it found itself."""
        return self.action if finding.detector == self.name else None


def _is_private(written: str) -> bool:
    try:
        address = ip_address(written)
    except ValueError:
        return False
    return any(address in network for network in _NETWORKS)
