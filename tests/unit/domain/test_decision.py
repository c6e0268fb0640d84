from __future__ import annotations

import pytest

from gateway.domain.decision import Destination, Obligations, Permit
from gateway.domain.label import Label, Level

HOSTED = Destination("hosted", "openai", Level.INTERNAL, True, "eu", "m")


def _permit(level: Level, *places: Destination) -> Permit:
    return Permit(Label(level), places, Obligations(), ("rule",), "p", "1", "0" * 64)


def test_a_permit_above_a_clearance_cannot_exist() -> None:
    with pytest.raises(ValueError, match="clearance"):
        _permit(Level.CONFIDENTIAL, HOSTED)


def test_a_permit_to_nowhere_cannot_exist() -> None:
    with pytest.raises(ValueError, match="at least one"):
        _permit(Level.PUBLIC)


def test_a_permit_at_the_clearance_exists() -> None:
    assert _permit(Level.INTERNAL, HOSTED).destinations == (HOSTED,)
