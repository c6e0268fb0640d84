"""The generated parts of the pages equal what the code says now, and the examples load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.policy.expression import compile_condition
from gateway.settings import load_settings
from private_node.profile import Profile, parse_profile
from tests.unit.docs import source

generate = source.generator()


def example(page: str, language: str, start: str) -> str:
    """The first code block of a language on a page that begins with `start`."""
    text = (generate.ROOT / page).read_text("utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return next(str(block) for block in blocks if block.startswith(start))


@pytest.mark.parametrize("page", sorted(generate.PARTS))
def test_page_equals_what_the_generator_gives(page: str) -> None:
    text = (generate.ROOT / page).read_text("utf-8")
    assert generate.rendered(page, text) == text, "run: python docs/generate.py"


def test_a_changed_page_would_be_noticed() -> None:
    page = "docs/administrator.md"
    text = (generate.ROOT / page).read_text("utf-8")
    assert "`8080`" in text
    assert generate.rendered(page, text.replace("`8080`", "`8081`")) == text


@pytest.mark.parametrize("meanings", [{}, generate.SETTINGS | {"server.colour": "Blue."}])
def test_a_missing_or_left_over_meaning_is_an_error(meanings: Mapping[str, str]) -> None:
    with pytest.raises(generate.Drift, match=r"server\.colour|pepper"):
        generate.same("SETTINGS", meanings, generate.SETTINGS)


def test_a_page_without_its_part_is_an_error() -> None:
    with pytest.raises(generate.Drift, match="expected one part settings, found 0"):
        generate.rendered("docs/administrator.md", "nothing")


def test_the_settings_of_the_page_load(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.toml"
    path.write_text(example("docs/administrator.md", "toml", "pepper"), "utf-8")
    assert load_settings(path).audit.origin == "bank-prod/gateway-1/0"


def test_the_start_is_refused_unless_the_missing_model_is_said_in_words(tmp_path: Path) -> None:
    text = example("docs/administrator.md", "toml", "pepper")
    path = tmp_path / "tidegate.toml"
    for instead in ("", 'contextual_model = ""', 'contextual_model = "some-model"'):
        path.write_text(text.replace('contextual_model = "none"', instead), "utf-8")
        with pytest.raises(ConfigurationError, match="contextual_model"):
            load_settings(path)


def test_the_profile_of_the_page_loads() -> None:
    profile = parse_profile(example("docs/private-node.md", "toml", 'name = "my-gpu"'), "my-gpu.toml")
    assert isinstance(profile, Profile)
    assert profile.device == "gpu"


def test_the_condition_of_the_page_compiles() -> None:
    text = (generate.ROOT / "docs/policy-reference.md").read_text("utf-8")
    [condition] = re.findall(r"`when: '([^']+)'`", text)
    compile_condition(condition)
