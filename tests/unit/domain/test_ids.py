from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.ids import uuid7_hex


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**74 - 1))
def test_is_a_version_7_uuid_that_keeps_its_time(unix_ms: int, random_bits: int) -> None:
    value = uuid.UUID(uuid7_hex(unix_ms, random_bits))
    assert value.variant == uuid.RFC_4122
    assert value.version == 7
    assert value.int >> 80 == unix_ms


@given(st.integers(0, 2**48 - 2), st.integers(0, 2**74 - 1), st.integers(0, 2**74 - 1))
def test_sorts_by_time(unix_ms: int, early_bits: int, late_bits: int) -> None:
    assert uuid7_hex(unix_ms, early_bits) < uuid7_hex(unix_ms + 1, late_bits)
