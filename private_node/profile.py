"""A launch profile: the few choices of a deployment, from a TOML file with no unknown keys.

Pure: text in, `Profile` or `ProfileRefusal` out. What a choice means in vLLM's flags is in `arguments`.
"""

from __future__ import annotations

import tomllib
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Positive = Annotated[int, Meta(ge=1, le=2**53)]
ModelName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Parallel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the model is spread. Counts of ranks; expert-parallel size is tensor times data."""

    tensor: Positive = 1
    data: Positive = 1
    experts: bool = False


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds on the cache and the batch. `kv_cache_bytes` is per rank."""

    kv_cache_bytes: Positive
    max_model_tokens: Positive
    max_sequences: Positive = 64
    max_batched_tokens: Positive = 8192


class Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the served model offers to clients."""

    tool_call_parser: ModelName | None = None
    structured_output_backend: Literal["xgrammar", "guidance", "outlines"] = "xgrammar"
    max_logprobs: Annotated[int, Meta(ge=0, le=100)] = 20


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to run the node.

    `model` is `reference` (built by `build-model`) or a folder. `device` is `cpu` for development and
    tests, `gpu` for all else. `shutdown_seconds` bounds the drain on SIGTERM.
    """

    name: ModelName
    device: Literal["cpu", "gpu"]
    model: Annotated[str, Meta(min_length=1)]
    served_name: ModelName
    memory: Memory
    parallel: Parallel = Parallel()
    answers: Answers = Answers()
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    eager: bool = False
    shutdown_seconds: Annotated[int, Meta(ge=1, le=3600)] = 30
    start_seconds: Annotated[int, Meta(ge=10, le=7200)] = 600


class ProfileRefusal(msgspec.Struct, frozen=True):
    """Why a profile does not load: file, then key with what was expected and found."""

    source: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


def parse_profile(text: str, source: str) -> Profile | ProfileRefusal:
    """The profile that `text` (TOML) states; `source` is the file's name for the refusal."""
    try:
        return msgspec.convert(tomllib.loads(text), Profile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as fault:
        return ProfileRefusal(source, str(fault))


def with_overrides(
    profile: Profile,
    *,
    dtype: str | None = None,
    tensor: int | None = None,
    experts: bool | None = None,
) -> Profile | ProfileRefusal:
    """`profile` with single choices replaced, checked like a file. For measurements and comparisons."""
    plain = msgspec.to_builtins(profile)
    if dtype is not None:
        plain["dtype"] = dtype
    if tensor is not None:
        plain["parallel"]["tensor"] = tensor
    if experts is not None:
        plain["parallel"]["experts"] = experts
    try:
        return msgspec.convert(plain, Profile)
    except msgspec.ValidationError as fault:
        return ProfileRefusal("options", str(fault))
