"""Where the admin API may listen, and what its settings must say."""

from __future__ import annotations

import msgspec
import pytest

from gateway.administration import Place, place_of
from gateway.errors import ConfigurationError
from gateway.settings import AdminSettings, AuditSettings, IdentitySettings, SensitivitySettings, Settings
from tests.fakes.tokens import issuer_settings

OPERATORS = issuer_settings(audience="tidegate-admin", tenants=("operations", "acme"))
GOOD = AdminSettings(listen="127.0.0.1:8081", issuers=(OPERATORS,), operator_tenants=("operations",))


def settings(**changes: object) -> Settings:
    return Settings(
        identity=IdentitySettings((issuer_settings(),)),
        sensitivity=SensitivitySettings(contextual_model="none"),
        audit=AuditSettings(directory="audit", signing_key="env:X"),
        pepper="env:X",
        admin=msgspec.structs.replace(GOOD, **changes),
    )


def test_there_is_no_admin_api_unless_settings_say_so() -> None:
    assert place_of(settings(listen="")) is None
    assert AdminSettings().listen == ""


@pytest.mark.parametrize(
    ("listen", "place"),
    [
        ("127.0.0.1:8081", Place("", "127.0.0.1", 8081)),
        ("localhost:0", Place("", "localhost", 0)),
        ("[::1]:8081", Place("", "::1", 8081)),
        ("unix:/run/tidegate/admin.sock", Place("/run/tidegate/admin.sock", "", 0)),
    ],
)
def test_a_place_is_a_loopback_port_or_a_socket(listen: str, place: Place) -> None:
    assert place_of(settings(listen=listen)) == place


@pytest.mark.parametrize(
    "listen", ["8081", ":8081", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "unix:admin"]
)
def test_what_is_no_place_is_refused(listen: str) -> None:
    with pytest.raises(ConfigurationError, match=r"admin\.listen"):
        place_of(settings(listen=listen))


def test_another_address_than_loopback_needs_words() -> None:
    with pytest.raises(ConfigurationError, match="behind_tls_proxy"):
        place_of(settings(listen="0.0.0.0:8081"))
    assert place_of(settings(listen="0.0.0.0:8081", behind_tls_proxy=True)) == Place("", "0.0.0.0", 8081)


@pytest.mark.parametrize(
    "changes",
    [
        {"issuers": ()},
        {"operator_tenants": ()},
        {"operator_tenants": ("elsewhere",)},
        {"issuers": (issuer_settings(tenants=("operations",)),)},
    ],
)
def test_without_issuers_audience_and_operators_of_its_own_it_does_not_start(
    changes: dict[str, object],
) -> None:
    with pytest.raises(ConfigurationError, match=r"admin\."):
        place_of(settings(**changes))
