"""The command line: keys, plans and refusals, without starting anything."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from private_node.__main__ import EXIT_REFUSED, main

CONFIG = {
    "architectures": ["MixtralForCausalLM"],
    "num_hidden_layers": 30,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "num_local_experts": 4,
    "torch_dtype": "bfloat16",
}
PROFILE = """
name = "own"
device = "gpu"
model = "{folder}"
served_name = "own-model"
[parallel]
tensor = 2
experts = true
[memory]
kv_cache_bytes = 536_870_912
max_model_tokens = 8192
"""


@pytest.fixture
def own_profile(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    path = tmp_path / "own.toml"
    path.write_text(PROFILE.format(folder=tmp_path))
    return path


def serve(profile: Path | str, folder: Path, *more: str) -> int:
    key = str(folder / "keys/node")
    return main(["serve", "--profile", str(profile), "--key-file", key, "--print-plan", *more])


def test_prints_the_plan_of_an_own_profile(
    own_profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    assert serve(own_profile, tmp_path, "--port", "8123", "--dtype", "float16") == 0
    plan = json.loads(capsys.readouterr().out)
    argv = plan["argv"]
    assert argv[argv.index("--port") + 1] == "8123"
    assert argv[argv.index("--dtype") + 1] == "float16"
    assert plan["environment"]["VLLM_CACHE_ROOT"] == str(tmp_path / "cache/vllm")


def test_creates_a_key_for_its_owner_only_and_keeps_one_that_is_there(
    own_profile: Path, tmp_path: Path
) -> None:
    assert serve(own_profile, tmp_path) == 0
    key = tmp_path / "keys/node"
    first = key.read_text()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(first.strip()) >= 40
    assert serve(own_profile, tmp_path) == 0
    assert key.read_text() == first


def test_never_prints_the_key(own_profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    serve(own_profile, tmp_path)
    printed = capsys.readouterr()
    assert (tmp_path / "keys/node").read_text().strip() not in printed.out + printed.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--tensor-parallel-size", "5"], "12 query heads / 5 tensor ranks"),
        (["--dtype", "int3"], "options: "),
        (["--tensor-parallel-size", "1"], "spreads nothing"),
    ],
)
def test_refuses_with_a_sentence_and_its_own_exit_code(
    own_profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    assert serve(own_profile, tmp_path, *more) == EXIT_REFUSED
    assert said in capsys.readouterr().err


def test_refuses_unknown_profiles_and_open_keys(
    own_profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve("no-such-profile", tmp_path) == EXIT_REFUSED
    (tmp_path / "keys").mkdir()
    key = tmp_path / "keys/node"
    key.write_text("k" * 40)
    key.chmod(0o644)
    assert serve(own_profile, tmp_path) == EXIT_REFUSED
    assert "chmod 600" in capsys.readouterr().err


def test_prints_what_the_cache_costs(own_profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(own_profile.parent / "config.json")
    bounds = ["--cache-bytes", "536870912", "--max-model-len", "8192"]
    assert main(["kv", config, "--tensor-parallel-size", "2", *bounds]) == 0
    assert "34,944" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["{", '{"num_hidden_layers": 0}', "[]"])
def test_refuses_a_config_that_it_cannot_read(tmp_path: Path, content: str) -> None:
    config = tmp_path / "config.json"
    config.write_text(content)
    assert main(["kv", str(config), "--cache-bytes", "1", "--max-model-len", "1"]) == EXIT_REFUSED


def test_reports_a_node_that_is_not_there(own_profile: Path, tmp_path: Path) -> None:
    serve(own_profile, tmp_path)
    key = str(tmp_path / "keys/node")
    assert main(["probe", "--port", "1", "--key-file", key, "--timeout-seconds", "1"]) == 1
