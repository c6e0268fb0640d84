"""Documented values are public exactly, and nothing near them is."""

from __future__ import annotations

import pytest

from gateway.sensitivity.detectors import build_detectors
from gateway.sensitivity.examples import fingerprint, is_documented

DETECTORS = build_detectors()


@pytest.mark.parametrize(
    "text",
    [
        "Use 4000 0000 0000 0002 to simulate a decline.",
        "4242-4242-4242-4242",
        "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "the wallet card said 078-05-1120",
    ],
)
def test_documented_values_are_no_findings(text: str) -> None:
    assert DETECTORS.find(text) == ()


@pytest.mark.parametrize(
    "text", ["AKIAIOSFODNN7EXAMPLF", "wallet 078-05-1121", "4242 4242 4242 4259", "card 4000000000000010"]
)
def test_neighbours_of_documented_values_are_findings(text: str) -> None:
    assert len(DETECTORS.find(text)) == 1


def test_values_count_for_their_own_kind_only() -> None:
    assert is_documented("us-ssn", "078051120")
    assert not is_documented("payment-card", "078051120")
    assert not is_documented("no-such-kind", "078051120")


def test_fingerprint_is_ordered_and_complete() -> None:
    assert list(fingerprint()) == sorted(fingerprint())
    assert "us-ssn=078051120" in fingerprint()
