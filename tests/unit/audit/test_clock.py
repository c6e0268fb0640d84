"""Stamps of the system's clocks."""

from __future__ import annotations

import re
import uuid

from gateway.audit.clock import SystemClock, boot_id


def test_stamps_have_unique_ids_and_never_go_back() -> None:
    clock = SystemClock()
    stamps = [clock.stamp() for _ in range(2000)]
    assert len({stamp.event_id for stamp in stamps}) == 2000
    assert [s.ts_mono_ns for s in stamps] == sorted(s.ts_mono_ns for s in stamps)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", s.ts_utc) for s in stamps)


def test_ids_and_seconds_are_of_their_kind() -> None:
    clock = SystemClock()
    assert uuid.UUID(clock.stamp().event_id).version == 7
    assert clock.seconds() <= clock.seconds()
    assert uuid.UUID(boot_id()).int > 0
