"""Launch profiles: unknown keys and impossible values are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from private_node.profile import Profile, ProfileRefusal, parse_profile, with_overrides

FOLDER = Path(__file__).parents[3] / "private_node/profiles"
SMALL = """
name = "x"
device = "cpu"
model = "reference"
served_name = "m"
[memory]
kv_cache_bytes = 1
max_model_tokens = 1
"""


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.name)
def test_loads_every_built_in_profile_under_its_own_name(path: Path) -> None:
    profile = parse_profile(path.read_text(), path.name)
    assert isinstance(profile, Profile), profile
    assert profile.name == path.stem


def test_asks_for_two_tensor_ranks_with_experts_spread_on_cpu() -> None:
    profile = parse_profile((FOLDER / "cpu.toml").read_text(), "cpu.toml")
    assert isinstance(profile, Profile)
    assert (profile.parallel.tensor, profile.parallel.experts, profile.device) == (2, True, "cpu")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nname = 1 2", "line 2"),
        (SMALL + "kv_bytes = 1", "kv_bytes"),
        (SMALL.replace('"cpu"', '"tpu"'), "device"),
        (SMALL.replace("kv_cache_bytes = 1", "kv_cache_bytes = 0"), "kv_cache_bytes"),
        (SMALL.replace('served_name = "m"', 'served_name = "a b"'), "served_name"),
        ("", "name"),
    ],
)
def test_refuses_a_faulty_profile_and_names_file_and_place(text: str, said: str) -> None:
    refusal = parse_profile(text, "x.toml")
    assert isinstance(refusal, ProfileRefusal)
    assert str(refusal).startswith("x.toml: ")
    assert said in str(refusal)


def test_replaces_single_choices_and_checks_them() -> None:
    profile = parse_profile(SMALL, "x.toml")
    assert isinstance(profile, Profile)
    assert with_overrides(profile) == profile
    changed = with_overrides(profile, dtype="float32", tensor=2, experts=True)
    assert isinstance(changed, Profile)
    assert (changed.dtype, changed.parallel.tensor, changed.parallel.experts) == ("float32", 2, True)
    assert isinstance(with_overrides(profile, dtype="int3"), ProfileRefusal)
    assert isinstance(with_overrides(profile, tensor=0), ProfileRefusal)
