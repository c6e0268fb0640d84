"""The plug-in refuses every place but a machine without a GPU and the vLLM that it knows."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from private_node.arguments import CPU_PLUGIN
from private_node.cpu_expert_parallel import LOG_LINE, SUPPORTED_VLLM, refusal_reason


def test_acts_on_a_cpu_machine_with_the_known_version() -> None:
    for version in (SUPPORTED_VLLM, SUPPORTED_VLLM + "+cpu"):
        assert refusal_reason(is_cpu_platform=True, gpu_devices=[], vllm_version=version) is None


@pytest.mark.parametrize(
    ("is_cpu", "devices"), [(False, []), (True, ["/dev/nvidiactl"]), (False, ["/dev/kfd"])]
)
def test_refuses_where_a_gpu_is_present(is_cpu: bool, devices: list[str]) -> None:
    reason = refusal_reason(is_cpu_platform=is_cpu, gpu_devices=devices, vllm_version=SUPPORTED_VLLM)
    assert reason is not None
    assert "development and tests" in reason
    assert "VLLM_PLUGINS" in reason


@pytest.mark.parametrize("version", ["0.33.0", "0.32.1", "0.32.0rc1", ""])
def test_refuses_a_vllm_that_it_does_not_know(version: str) -> None:
    reason = refusal_reason(is_cpu_platform=True, gpu_devices=[], vllm_version=version)
    assert reason is not None
    assert SUPPORTED_VLLM in reason


def test_says_in_its_log_line_that_it_is_not_for_production() -> None:
    assert "development and tests only" in LOG_LINE


def test_is_registered_under_the_name_that_launch_plans_allow() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    plugins = project["entry-points"]["vllm.general_plugins"]
    assert plugins == {CPU_PLUGIN: "private_node.cpu_expert_parallel:register"}
