"""From a profile and a model's geometry to the exact command line and environment of vLLM, or a refusal.

Pure: paths are text, the machine's cores are an argument. The shell in `launch` runs what comes out.

Invariants
1. No secret is on the command line or in the environment: the key travels as the path of its file.
2. The environment is complete: the child inherits only `INHERITED_VARIABLES` beside what is set here.
3. A layout that cannot run is refused here with its arithmetic, not by a crash after a minute of loading.
4. Nothing that a client sends is logged: request logging, output logging and the access log stay off.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from private_node.geometry import ModelGeometry
from private_node.kv_plan import plan_kv
from private_node.path_guard import DRAIN_FILE_VARIABLE, KEY_FILE_VARIABLE
from private_node.profile import Profile

DRAIN_FILE_NAME: Final = "drain"
CPU_PLUGIN: Final = "tidegate_cpu_expert_parallel"
SERVER_MODULE: Final = "vllm.entrypoints.openai.api_server"
"""The `vllm` command of the CPU package does not find its own metadata; the module does the same."""
GUARD: Final = "private_node.path_guard.PathGuard"
INHERITED_VARIABLES: Final = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "LD_PRELOAD",
)  # fmt: skip
GPU_INHERITED_VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What to run: `argv` (first the interpreter) and the whole `environment`. `lines` says it in words."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayoutRefusal:
    """A layout that cannot run. `reason` holds the arithmetic and what to change."""

    profile: str
    reason: str

    def __str__(self) -> str:
        return f"profile {self.profile}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts of the place that a plan needs; all paths are text.

    `run_folder` is short (sockets live in it) and of this run alone; `cores` are the usable CPU numbers;
    `plugins` are the names that the interpreter's environment registers for vLLM.
    """

    interpreter: str
    model_folder: str
    cache_folder: str
    key_file: str
    run_folder: str
    host: str
    port: int
    cores: Sequence[int]
    plugins: Collection[str]
    inherited: Mapping[str, str]


def compose(profile: Profile, geometry: ModelGeometry, place: Surroundings) -> LaunchPlan | LayoutRefusal:
    """The launch plan of `profile` for a model of `geometry` at `place`, or why there is none."""
    reason = layout_refusal(profile, geometry, len(place.cores)) or _plugin_refusal(profile, place.plugins)
    if reason is not None:
        return LayoutRefusal(profile.name, reason)
    return LaunchPlan(
        argv=(place.interpreter, "-m", SERVER_MODULE, *_flags(profile, place)),
        environment=_environment(profile, place),
        lines=_describe(profile, geometry),
    )


def layout_refusal(profile: Profile, geometry: ModelGeometry, core_count: int) -> str | None:
    """Why the layout cannot run, with the arithmetic, or None."""
    tensor, data = profile.parallel.tensor, profile.parallel.data
    return (
        _head_refusal(geometry, tensor)
        or _expert_refusal(profile, geometry)
        or _cache_refusal(profile, geometry)
        or _core_refusal(profile, tensor * data, core_count)
    )


def _head_refusal(geometry: ModelGeometry, tensor: int) -> str | None:
    heads, kv_heads = geometry.head_count, geometry.kv_head_count
    if heads % tensor:
        return f"{heads} query heads / {tensor} tensor ranks leaves {heads % tensor}; take a divisor"
    if not geometry.latent_width and kv_heads % tensor and tensor % kv_heads:
        return (
            f"{kv_heads} key-value heads and {tensor} tensor ranks: neither divides the other, so heads can "
            "be neither split nor copied evenly"
        )
    return None


def _expert_refusal(profile: Profile, geometry: ModelGeometry) -> str | None:
    tensor, data = profile.parallel.tensor, profile.parallel.data
    width = geometry.intermediate_width
    if profile.parallel.experts:
        if not geometry.is_mixture:
            return f"expert parallelism asked for, but {geometry.architecture} has no experts"
        ranks = tensor * data
        if ranks == 1:
            return "expert parallelism over 1 tensor x 1 data = 1 rank spreads nothing; add ranks"
        if geometry.expert_count < ranks:
            return (
                f"{geometry.expert_count} experts over {tensor} tensor x {data} data = {ranks} ranks leaves "
                f"{ranks - geometry.expert_count} ranks without an expert"
            )
        return None
    if width % tensor:
        return f"feed-forward width {width} / {tensor} tensor ranks leaves {width % tensor}"
    return None


def _cache_refusal(profile: Profile, geometry: ModelGeometry) -> str | None:
    memory, tensor = profile.memory, profile.parallel.tensor
    if memory.max_model_tokens > geometry.position_count:
        return (
            f"max_model_tokens {memory.max_model_tokens} exceeds the {geometry.position_count} positions "
            "of the model"
        )
    plan = plan_kv(
        geometry,
        tensor_ranks=tensor,
        cache_bytes=memory.kv_cache_bytes,
        max_model_tokens=memory.max_model_tokens,
        cache_dtype=profile.dtype,
    )
    if plan.request_count < 1:
        needed = plan.bytes_per_token * memory.max_model_tokens
        return (
            f"one request of {memory.max_model_tokens} tokens x {plan.bytes_per_token} bytes per token and "
            f"rank = {needed} bytes, but kv_cache_bytes is {memory.kv_cache_bytes}"
        )
    return None


def _core_refusal(profile: Profile, ranks: int, core_count: int) -> str | None:
    if profile.device == "cpu" and core_count < ranks:
        return f"{ranks} CPU ranks need a core each, but this process may use {core_count}"
    return None


def _plugin_refusal(profile: Profile, plugins: Collection[str]) -> str | None:
    if profile.device == "cpu" and profile.parallel.experts and CPU_PLUGIN not in plugins:
        return (
            f"expert parallelism on CPUs needs the plug-in {CPU_PLUGIN}, which this environment does "
            "not register; run `make install-node` and start from .venv-node"
        )
    return None


def _flags(profile: Profile, place: Surroundings) -> list[str]:
    memory, parallel, answers = profile.memory, profile.parallel, profile.answers
    structured = {"backend": answers.structured_output_backend, "disable_any_whitespace": True}
    flags = [
        "--model", place.model_folder,
        "--served-model-name", profile.served_name,
        "--host", place.host,
        "--port", str(place.port),
        "--middleware", GUARD,
        "--dtype", profile.dtype,
        "--tensor-parallel-size", str(parallel.tensor),
        "--kv-cache-memory-bytes", str(memory.kv_cache_bytes),
        "--max-model-len", str(memory.max_model_tokens),
        "--max-num-seqs", str(memory.max_sequences),
        "--max-num-batched-tokens", str(memory.max_batched_tokens),
        "--max-logprobs", str(answers.max_logprobs),
        "--generation-config", "vllm",
        "--scheduling-policy", "priority",
        "--structured-outputs-config", json.dumps(structured, separators=(",", ":")),
        "--shutdown-timeout", str(profile.shutdown_seconds),
        "--enable-prompt-tokens-details",
        "--no-enable-log-requests",
        "--no-enable-log-outputs",
        "--disable-uvicorn-access-log",
        "--disable-fastapi-docs",
    ]  # fmt: skip
    if parallel.data > 1:
        flags += ["--data-parallel-size", str(parallel.data)]
    if parallel.experts:
        flags.append("--enable-expert-parallel")
    if profile.eager:
        flags.append("--enforce-eager")
    if answers.tool_call_parser is not None:
        flags += ["--enable-auto-tool-choice", "--tool-call-parser", answers.tool_call_parser]
    return flags


def _environment(profile: Profile, place: Surroundings) -> dict[str, str]:
    names = INHERITED_VARIABLES + (GPU_INHERITED_VARIABLES if profile.device == "gpu" else ())
    environment = {name: place.inherited[name] for name in names if name in place.inherited}
    environment |= {
        KEY_FILE_VARIABLE: place.key_file,
        DRAIN_FILE_VARIABLE: f"{place.run_folder}/{DRAIN_FILE_NAME}",
        # Sockets between the ranks and other temporary files: in a folder of this user and this run alone.
        "TMPDIR": place.run_folder,
        "VLLM_RPC_BASE_PATH": place.run_folder,
        # Nothing leaves the machine: no hub, no usage report.
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        # vLLM loads every plug-in that it finds unless a list is set; an empty list loads none.
        "VLLM_PLUGINS": CPU_PLUGIN if profile.device == "cpu" else "",
        "VLLM_LOGGING_LEVEL": "INFO",
        "XDG_CACHE_HOME": place.cache_folder,
        "VLLM_CACHE_ROOT": f"{place.cache_folder}/vllm",
        "HF_HOME": f"{place.cache_folder}/huggingface",
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if profile.device == "cpu":
        ranks = profile.parallel.tensor * profile.parallel.data
        share = len(place.cores) // ranks
        groups = [place.cores[rank * share : (rank + 1) * share] for rank in range(ranks)]
        environment |= {
            "VLLM_CPU_OMP_THREADS_BIND": "|".join(",".join(map(str, group)) for group in groups),
            # All ranks are on this machine: their own sockets stay on loopback.
            "VLLM_HOST_IP": "127.0.0.1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
    return environment


def _describe(profile: Profile, geometry: ModelGeometry) -> tuple[str, ...]:
    parallel, memory = profile.parallel, profile.memory
    plan = plan_kv(
        geometry,
        tensor_ranks=parallel.tensor,
        cache_bytes=memory.kv_cache_bytes,
        max_model_tokens=memory.max_model_tokens,
        cache_dtype=profile.dtype,
    )
    ranks = parallel.tensor * parallel.data
    spread = f"{geometry.expert_count} experts over {ranks} ranks"
    experts = spread if parallel.experts else "experts not spread"
    return (
        f"layout: tensor {parallel.tensor} x data {parallel.data}, {experts}, {profile.dtype}",
        f"cache: {plan.bytes_per_token} bytes per token and rank, {plan.token_count} tokens, "
        f"{plan.request_count} requests of {memory.max_model_tokens} tokens at once",
    )
