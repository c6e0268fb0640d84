"""From the settings of a destination to how it is reached. Reads its secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.errors import ConfigurationError
from gateway.settings import EndpointSettings, read_secret
from gateway.upstream.connector import Transport
from gateway.upstream.credentials import RotatingSecret
from gateway.upstream.deadlines import Deadlines
from gateway.upstream.server import Endpoint


def contexts_of(destinations: Mapping[str, EndpointSettings]) -> dict[str, int]:
    """Context of the smallest model of each destination where it is known, tokens."""
    return {name: each.context_tokens for name, each in destinations.items() if each.context_tokens}


def endpoint_of(settings: EndpointSettings, on_fault: Callable[[ConfigurationError], None]) -> Endpoint:
    """The endpoint of one destination. Raises `ConfigurationError`.

    `on_fault(error)` hears of a credential or certificate that was replaced by one that cannot be used.
    """
    reference = settings.credential
    return Endpoint(
        urls=tuple((each.url, each.weight) for each in settings.servers),
        credential=RotatingSecret(reference, on_fault).current if reference else None,
        deadlines=Deadlines(
            settings.connect_seconds,
            settings.first_byte_seconds,
            settings.idle_seconds,
            settings.total_seconds,
        ),
        way=Transport(
            ca_file=settings.ca_file,
            client_cert_file=settings.client_cert_file,
            client_key_file=settings.client_key_file,
            proxy=settings.proxy,
            proxy_credential=read_secret(settings.proxy_credential) if settings.proxy_credential else None,
            networks=settings.networks,
            max_connections=settings.max_connections,
        ),
        has_affinity=settings.prefix_affinity,
        hedge_after_seconds=settings.hedge_after_seconds,
        on_fault=on_fault,
    )
