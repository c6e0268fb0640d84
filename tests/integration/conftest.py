"""Servers that integration tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.valkey_server import ValkeyServer


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    """One Valkey for all tests of this worker. Use own tenants, and do not hurt it."""
    server = ValkeyServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    """A Valkey of this test alone, which may be killed, stopped and reconfigured."""
    server = ValkeyServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()
