"""Values that public documentation prints as examples. Exactly these, and nothing near them, are public.

Each row names where it is printed. IBANs of documentation are not here: they are account numbers of a
valid form, and the registry's own examples are commonly copied into tests as if they were secret.
"""

from __future__ import annotations

_EXAMPLES: dict[str, frozenset[str]] = {
    "payment-card": frozenset(
        {
            # Stripe, "Test card numbers"; PayPal, Adyen and Braintree print many of them too.
            "4242424242424242", "4000056655665556", "5555555555554444", "2223003122003222",
            "5200828282828210", "5105105105105100", "378282246310005", "371449635398431",
            "6011111111111117", "6011000990139424", "3056930009020004", "36227206271667",
            "3566002020360505", "6200000000000005", "4111111111111111", "4012888888881881",
            "4000000000000002", "4000000000009995", "4000002500003155", "4000000000000077",
            "4000000000000341", "4000000000000069", "4000000000000127", "4000000000000119",
            "30569309025904", "38520000023237", "3530111333300000", "4222222222222",
        }
    ),
    # SSA: the number on a wallet's specimen card, and the one of a leaflet of 1940; never to be issued.
    "us-ssn": frozenset({"078051120", "219099999"}),
    "aws-access-key-id": frozenset({"AKIAIOSFODNN7EXAMPLE", "AKIAI44QH8DHBEXAMPLE", "ASIAIOSFODNN7EXAMPLE"}),
    "aws-secret-access-key": frozenset(
        {
            # AWS documentation, "Managing access keys".
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY",
        }
    ),
    "azure-storage-key": frozenset(
        {
            # Microsoft, "Use the Azurite emulator": the well-known account key.
            "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
        }
    ),
    "jwt": frozenset(
        {
            # jwt.io's first page.
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0Ijo"
            "xNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
        }
    ),
    # Stripe's documentation prints this test key on every page.
    "stripe-key": frozenset({"sk_test_4eC39HqLyjWDarjtT1zdp7dc", "sk_test_BQokikJOvBiI2HlWgH4olfQ2"}),
}  # fmt: skip


def is_documented(kind: str, value: str) -> bool:
    """Whether exactly this value of this kind is printed in public documentation."""
    values = _EXAMPLES.get(kind)
    return values is not None and value in values


def fingerprint() -> tuple[str, ...]:
    """Every entry, in a fixed order, for the digest of the detector set."""
    return tuple(f"{kind}={value}" for kind in sorted(_EXAMPLES) for value in sorted(_EXAMPLES[kind]))
