# ruff: noqa: PLC0415 - torch and vllm exist in the node's environment only; this file is read elsewhere too
"""A vLLM plug-in that makes expert parallelism work on vLLM's CPU backend. Development and tests only.

vLLM loads it through the entry point group `vllm.general_plugins`, in every process of the server.

Why it exists: in vLLM 0.32.0 the CPU expert kernel is handed `expert_map` (global expert number to local
one, -1 for "another rank's") and ignores it, so it reads local weights at global numbers and the process
dies on the first request (vllm-project/vllm#57837). The data-parallel form also needs two gathers of
unequal sizes that the CPU communicator lacks.

What it does
1. Global expert numbers become local ones; a token-expert pair that another rank owns gets local number 0
   and weight 0, so it adds nothing. The all-reduce that follows sums the parts of all ranks.
2. `all_gatherv` pads to the longest part and cuts again; `reduce_scatterv` reduces all and keeps its part.

It refuses to run where a GPU is present and on a vLLM whose kernel signature it does not know: a production
node must never run on this. It is a second program's file; nothing of the gateway is imported here.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

SUPPORTED_VLLM: Final = "0.32.0"
LOG_LINE: Final = "CPU expert parallelism active (development and tests only)"
"""The start of the line that every process logs when the plug-in is in place."""

_KNOWN_PARAMETERS: Final = (
    "self", "output", "hidden_states", "w1", "w2", "topk_weights", "topk_ids", "activation",
    "global_num_experts", "expert_map",
)  # fmt: skip
_GPU_DEVICES: Final = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_MARK: Final = "_tidegate_expert_map"


class CpuExpertParallelRefused(RuntimeError):
    """The plug-in is in a place where it must not act."""


def register() -> None:
    """Entry point. Idempotent; raises CpuExpertParallelRefused beside a GPU or another vLLM."""
    import vllm
    from vllm.logger import init_logger
    from vllm.platforms import current_platform

    refusal = refusal_reason(
        is_cpu_platform=current_platform.is_cpu(),
        gpu_devices=[path for path in _GPU_DEVICES if Path(path).exists()],
        vllm_version=str(vllm.__version__),
    )
    if refusal is not None:
        raise CpuExpertParallelRefused(refusal)
    if _patch_experts():
        _patch_communicator()
        log = init_logger("vllm.tidegate")
        log.info("%s: vLLM %s, the kernel honours expert_map", LOG_LINE, vllm.__version__)


def refusal_reason(*, is_cpu_platform: bool, gpu_devices: list[str], vllm_version: str) -> str | None:
    """Why the plug-in must not act here, or None. Pure.

    fail-closed: a machine with a GPU device is refused even when vLLM itself runs on the CPU there.
    """
    if not is_cpu_platform or gpu_devices:
        found = ", ".join(gpu_devices) or "vLLM's own GPU platform"
        return (
            f"tidegate_cpu_expert_parallel is for development and tests on machines without a GPU; "
            f"found {found}. "
            "Take it out of VLLM_PLUGINS and start with a GPU profile."
        )
    if vllm_version.partition("+")[0] != SUPPORTED_VLLM:
        return (
            f"tidegate_cpu_expert_parallel knows vLLM {SUPPORTED_VLLM} only; found {vllm_version}. "
            "Install the pinned version with `make install-node`."
        )
    return None


def localise(
    topk_weights: torch.Tensor, topk_ids: torch.Tensor, expert_map: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and local expert numbers of one rank; pairs that other ranks own weigh 0.

    Shapes: `topk_weights` and `topk_ids` are (tokens, experts per token), `expert_map` is (experts,).
    """
    local = expert_map.to(topk_ids.device)[topk_ids.long()]
    foreign = local < 0
    return topk_weights.masked_fill(foreign, 0), local.masked_fill(foreign, 0).to(topk_ids.dtype)


def _patch_experts() -> bool:
    """Puts the remap before the CPU expert kernel. False when it is already there."""
    from vllm.model_executor.layers.fused_moe.experts.cpu_moe import CPUUnquantizedExperts

    kernel = CPUUnquantizedExperts.apply
    if hasattr(CPUUnquantizedExperts, _MARK):
        return False
    if tuple(inspect.signature(kernel).parameters)[: len(_KNOWN_PARAMETERS)] != _KNOWN_PARAMETERS:
        raise CpuExpertParallelRefused("CPUUnquantizedExperts.apply has another signature than vLLM 0.32.0's")

    def apply(
        self: Any, output: Any, hidden_states: Any, w1: Any, w2: Any, topk_weights: Any, topk_ids: Any,
        activation: Any, global_num_experts: int, expert_map: Any, *rest: Any, **named: Any,
    ) -> None:  # fmt: skip
        if expert_map is not None:
            topk_weights, topk_ids = localise(topk_weights, topk_ids, expert_map)
        kernel(self, output, hidden_states, w1, w2, topk_weights, topk_ids, activation,
               global_num_experts, expert_map, *rest, **named)  # fmt: skip

    CPUUnquantizedExperts.apply = apply
    setattr(CPUUnquantizedExperts, _MARK, True)
    return True


def _patch_communicator() -> None:
    """Adds the two collectives that data parallelism with expert parallelism calls."""
    from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

    CpuCommunicator.all_gatherv = _all_gatherv
    CpuCommunicator.reduce_scatterv = _reduce_scatterv


def _all_gatherv(self: Any, input_: Any, dim: int = 0, sizes: list[int] | None = None) -> Any:
    """Concatenates the parts of all ranks along dimension 0; `sizes` are their lengths, in rank order."""
    if dim != 0:
        raise NotImplementedError("all_gatherv on CPU gathers along dimension 0 only")
    if isinstance(input_, list):
        return [_all_gatherv(self, part, dim, sizes) for part in input_]
    import torch
    import torch.distributed as collectives

    part = input_.contiguous()
    lengths = sizes or [part.shape[0]] * self.world_size
    longest = max(lengths)
    if part.shape[0] < longest:  # gloo gathers equal shapes only
        part = torch.cat([part, part.new_zeros((longest - part.shape[0], *part.shape[1:]))])
    parts = [torch.empty_like(part) for _ in lengths]
    collectives.all_gather(parts, part, group=self.cpu_group)
    return torch.cat([got[:length] for got, length in zip(parts, lengths, strict=True)])


def _reduce_scatterv(self: Any, input_: Any, dim: int = -1, sizes: list[int] | None = None) -> Any:
    """The sum over all ranks, cut to the rows of this rank; `sizes` are the ranks' row counts."""
    if dim != 0:
        raise NotImplementedError("reduce_scatterv on CPU scatters along dimension 0 only")
    import torch.distributed as collectives

    total = input_.contiguous().clone()
    lengths = sizes or [total.shape[0] // self.world_size] * self.world_size
    collectives.all_reduce(total, group=self.cpu_group)
    start = sum(lengths[: self.rank_in_group])
    return total[start : start + lengths[self.rank_in_group]].contiguous()
