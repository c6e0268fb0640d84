"""Profiles become exact command lines, or refusals that show their arithmetic."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from private_node.arguments import (
    CPU_PLUGIN,
    LaunchPlan,
    LayoutRefusal,
    Surroundings,
    compose,
    layout_refusal,
)
from private_node.geometry import ModelGeometry
from private_node.profile import Memory, Parallel, Profile, parse_profile

ROOT = Path(__file__).parents[3]
REFERENCE = ModelGeometry(
    architecture="MixtralForCausalLM",
    layer_count=30,
    head_count=12,
    kv_head_count=4,
    head_width=64,
    value_head_width=64,
    hidden_width=576,
    intermediate_width=1536,
    position_count=8192,
    dtype="bfloat16",
    expert_count=4,
    experts_per_token=2,
)
DENSE = replace(REFERENCE, architecture="LlamaForCausalLM", expert_count=0, experts_per_token=0)
SECRET = "sk-not-for-the-child"


def cpu_profile() -> Profile:
    profile = parse_profile((ROOT / "private_node/profiles/cpu.toml").read_text(), "cpu.toml")
    assert isinstance(profile, Profile)
    return profile


def surroundings(cores: tuple[int, ...] = (0, 1)) -> Surroundings:
    return Surroundings(
        interpreter="/env/bin/python",
        model_folder="/models/reference",
        cache_folder="/cache",
        key_file="/keys/node",
        run_folder="/run/x",
        host="127.0.0.1",
        port=8100,
        cores=cores,
        plugins={CPU_PLUGIN},
        inherited={"PATH": "/bin", "HOME": "/home/x", "OPENAI_API_KEY": SECRET, "VLLM_API_KEY": SECRET},
    )


def layout(profile: Profile, **parallel: object) -> Profile:
    return Profile(
        name=profile.name,
        device=profile.device,
        model=profile.model,
        served_name=profile.served_name,
        memory=profile.memory,
        parallel=Parallel(**parallel),  # type: ignore[arg-type]
        answers=profile.answers,
        eager=profile.eager,
    )


def plan_of(
    profile: Profile, geometry: ModelGeometry = REFERENCE, cores: tuple[int, ...] = (0, 1)
) -> LaunchPlan:
    plan = compose(profile, geometry, surroundings(cores))
    assert isinstance(plan, LaunchPlan), plan
    return plan


def option(plan: LaunchPlan, name: str) -> str:
    return plan.argv[plan.argv.index(name) + 1]


def test_gives_the_exact_command_line_of_the_cpu_profile() -> None:
    assert list(plan_of(cpu_profile()).argv) == [
        *("/env/bin/python", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", "/models/reference"),
        *("--served-model-name", "reference-moe"),
        *("--host", "127.0.0.1"),
        *("--port", "8100"),
        *("--middleware", "private_node.path_guard.PathGuard"),
        *("--dtype", "float32"),
        *("--tensor-parallel-size", "2"),
        *("--kv-cache-memory-bytes", "536870912"),
        *("--max-model-len", "8192"),
        *("--max-num-seqs", "64"),
        *("--max-num-batched-tokens", "8192"),
        *("--max-logprobs", "20"),
        *("--generation-config", "vllm"),
        *("--scheduling-policy", "priority"),
        *("--structured-outputs-config", '{"backend":"xgrammar","disable_any_whitespace":true}'),
        *("--shutdown-timeout", "30"),
        "--enable-prompt-tokens-details",
        "--no-enable-log-requests",
        "--no-enable-log-outputs",
        "--disable-uvicorn-access-log",
        "--disable-fastapi-docs",
        "--enable-expert-parallel",
        "--enforce-eager",
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    ]


def test_keeps_the_child_offline_and_binds_one_core_to_each_rank() -> None:
    environment = plan_of(cpu_profile()).environment
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"):
        assert environment[name] == "1"
    assert environment["VLLM_CPU_OMP_THREADS_BIND"] == "0|1"
    assert environment["VLLM_PLUGINS"] == CPU_PLUGIN
    assert (environment["VLLM_HOST_IP"], environment["GLOO_SOCKET_IFNAME"]) == ("127.0.0.1", "lo")


def test_keeps_sockets_and_the_drain_file_in_the_folder_of_the_run() -> None:
    environment = plan_of(cpu_profile()).environment
    assert environment["TMPDIR"] == environment["VLLM_RPC_BASE_PATH"] == "/run/x"
    assert environment["TIDEGATE_NODE_DRAIN_FILE"] == "/run/x/drain"


def test_shares_the_cores_that_the_process_may_use() -> None:
    environment = plan_of(cpu_profile(), cores=(2, 3, 6, 7, 9)).environment
    assert environment["VLLM_CPU_OMP_THREADS_BIND"] == "2,3|6,7"


def test_passes_no_secret_and_no_foreign_variable_to_the_child() -> None:
    plan = plan_of(cpu_profile())
    assert SECRET not in " ".join(plan.argv) + json.dumps(dict(plan.environment))
    assert "VLLM_API_KEY" not in plan.environment
    assert plan.environment["TIDEGATE_NODE_KEY_FILE"] == "/keys/node"
    assert "--api-key" not in plan.argv


def test_gives_a_gpu_profile_neither_the_plugin_nor_core_binding() -> None:
    plain = cpu_profile()
    profile = Profile(
        name="gpu",
        device="gpu",
        model="/m",
        served_name="m",
        memory=plain.memory,
        parallel=Parallel(tensor=2, data=2, experts=True),
    )
    plan = plan_of(profile, cores=())
    assert plan.environment["VLLM_PLUGINS"] == ""
    assert "VLLM_CPU_OMP_THREADS_BIND" not in plan.environment
    assert option(plan, "--data-parallel-size") == "2"
    assert "--enforce-eager" not in plan.argv
    assert "--tool-call-parser" not in plan.argv


def test_leaves_expert_parallelism_out_on_one_rank() -> None:
    plan = plan_of(layout(cpu_profile(), tensor=1))
    assert "--enable-expert-parallel" not in plan.argv
    assert "--data-parallel-size" not in plan.argv


def test_says_layout_and_capacity_in_words() -> None:
    assert plan_of(cpu_profile()).lines == (
        "layout: tensor 2 x data 1, 4 experts over 2 ranks, float32",
        "cache: 30720 bytes per token and rank, 17472 tokens, 2 requests of 8192 tokens at once",
    )


@pytest.mark.parametrize(
    ("parallel", "geometry", "cores", "arithmetic"),
    [
        ({"tensor": 5}, REFERENCE, 8, "12 query heads / 5 tensor ranks leaves 2"),
        ({"tensor": 3}, replace(REFERENCE, kv_head_count=4), 8, "4 key-value heads and 3 tensor ranks"),
        ({"tensor": 2, "experts": True}, DENSE, 8, "LlamaForCausalLM has no experts"),
        ({"tensor": 1, "experts": True}, REFERENCE, 8, "1 tensor x 1 data = 1 rank spreads nothing"),
        (
            {"tensor": 2, "data": 3, "experts": True},
            REFERENCE,
            8,
            "4 experts over 2 tensor x 3 data = 6 ranks",
        ),
        ({"tensor": 2}, replace(REFERENCE, intermediate_width=1535), 8, "1535 / 2 tensor ranks leaves 1"),
        ({"tensor": 2, "data": 2, "experts": True}, REFERENCE, 3, "4 CPU ranks need a core each"),
        ({"tensor": 2}, replace(REFERENCE, position_count=4096), 8, "8192 exceeds the 4096 positions"),
    ],
)
def test_refuses_impossible_layouts_with_the_arithmetic(
    parallel: dict[str, object], geometry: ModelGeometry, cores: int, arithmetic: str
) -> None:
    reason = layout_refusal(layout(cpu_profile(), **parallel), geometry, cores)
    assert reason is not None
    assert arithmetic in reason


def test_refuses_a_cache_that_holds_no_full_request() -> None:
    plain = cpu_profile()
    small = Profile(
        name="cpu",
        device="cpu",
        model="reference",
        served_name="m",
        memory=Memory(kv_cache_bytes=15_360 * 8192 - 1, max_model_tokens=8192),
        parallel=plain.parallel,
    )
    refusal = compose(small, REFERENCE, surroundings())
    assert isinstance(refusal, LayoutRefusal)
    assert str(refusal) == (
        "profile cpu: one request of 8192 tokens x 15360 bytes per token and rank = 125829120 bytes, "
        "but kv_cache_bytes is 125829119"
    )
    assert layout_refusal(replace_cache(small, 15_360 * 8192), REFERENCE, 2) is None


def replace_cache(profile: Profile, kv_cache_bytes: int) -> Profile:
    return Profile(
        name=profile.name,
        device=profile.device,
        model=profile.model,
        served_name=profile.served_name,
        memory=Memory(kv_cache_bytes=kv_cache_bytes, max_model_tokens=profile.memory.max_model_tokens),
        parallel=profile.parallel,
    )


def test_refuses_spread_experts_on_cpu_without_the_plugin() -> None:
    bare = replace(surroundings(), plugins=())
    refusal = compose(cpu_profile(), REFERENCE, bare)
    assert isinstance(refusal, LayoutRefusal)
    assert "make install-node" in str(refusal)
    assert isinstance(compose(layout(cpu_profile(), tensor=2), REFERENCE, bare), LaunchPlan)


def test_copies_kv_heads_when_ranks_outnumber_them() -> None:
    wide = replace(REFERENCE, head_count=16, kv_head_count=4)
    assert layout_refusal(layout(cpu_profile(), tensor=8), wide, 8) is None


def test_splits_latent_attention_whatever_its_kv_head_count() -> None:
    latent = replace(REFERENCE, head_count=12, kv_head_count=5, latent_width=576)
    assert layout_refusal(layout(cpu_profile(), tensor=2), latent, 2) is None
