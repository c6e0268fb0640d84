"""The settings of a destination against the policy: which URLs, proxies and races are taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.errors import ConfigurationError
from gateway.policy.compiled import CompiledPolicy
from gateway.rollout.candidate import build_candidate
from gateway.rollout.content import read_content
from gateway.sensitivity.classify import FindingsCache
from gateway.sensitivity.detectors import DetectorSet
from gateway.settings import Settings
from tests.fakes.stack import copy_policies


class Taken(Exception):
    """The settings were taken; what comes next is not asked here."""


def _stop(policy: CompiledPolicy) -> DetectorSet:
    raise Taken


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_policies(tmp_path_factory.mktemp("pack") / "policies")


def check(policies: Path, name: str, **endpoint: Any) -> None:
    settings = msgspec.convert(
        {
            "pepper": "env:X",
            "identity": {"issuers": []},
            "sensitivity": {"contextual_model": "none"},
            "audit": {"directory": "x", "signing_key": "env:X"},
            "destinations": {name: endpoint},
        },
        Settings,
    )
    build_candidate(read_content(policies), settings, _stop, FindingsCache(b"k" * 32))


GOOD = "http://127.0.0.1:8001/v1"
REPLICAS = [{"url": GOOD}, {"url": "http://127.0.0.1:8002/v1", "weight": 3}]


@pytest.mark.parametrize(
    "endpoint",
    [
        {"url": GOOD},
        {"replicas": REPLICAS},
        {"replicas": REPLICAS, "hedge_after_seconds": 0.5},
        {"url": GOOD, "proxy": "http://proxy.internal:3128"},
    ],
)
def test_is_taken(policies: Path, endpoint: dict[str, Any]) -> None:
    with pytest.raises(Taken):
        check(policies, "private-moe", **endpoint)


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ({}, "either url or replicas"),
        ({"url": GOOD, "replicas": REPLICAS}, "either url or replicas"),
        ({"replicas": [*REPLICAS, {"url": "http://elsewhere.example/v1"}]}, "not one of the policy's hosts"),
        ({"replicas": [{"url": "ftp://127.0.0.1/v1"}]}, "http or https"),
        ({"url": GOOD, "proxy": "http://user:word@proxy.internal:3128"}, "no credentials"),
        ({"url": GOOD, "proxy": "socks5://proxy.internal"}, "http or https"),
    ],
)
def test_is_not_taken(policies: Path, endpoint: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        check(policies, "private-moe", **endpoint)
    assert "word@" not in str(caught.value)


def test_a_hosted_destination_is_never_raced(policies: Path) -> None:
    with pytest.raises(Taken):
        check(policies, "hosted-openai", url=GOOD)
    with pytest.raises(ConfigurationError, match="hedge_after_seconds: expected 0 for a hosted destination"):
        check(policies, "hosted-openai", replicas=REPLICAS, hedge_after_seconds=1)
