from __future__ import annotations

import pickle

import pytest

from gateway.domain.secret import Secret


def test_a_secret_shows_only_a_mask() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret} {secret!r} {secret!s} {secret:>10}"
    assert secret.reveal() == "hunter2"


def test_a_secret_is_not_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Secret("hunter2"))


def test_secrets_compare_by_value() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert not Secret("")
