"""The command line of the private node: `python -m private_node build-model | serve | probe | kv`.

Standard library and msgspec only, so that the node's environment needs nothing of the gateway's.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import msgspec

from private_node.arguments import DRAIN_FILE_NAME, LaunchPlan, LayoutRefusal, Surroundings, compose
from private_node.geometry import GeometryRefusal, ModelGeometry, geometry_from_config
from private_node.kv_plan import plan_kv
from private_node.launch import Node
from private_node.path_guard import NodeKeyError, read_key
from private_node.probe import Address, Ready, probe
from private_node.profile import Profile, ProfileRefusal, parse_profile, with_overrides
from private_node.reference_model import ReferenceModelError, ensure_reference_model

EXIT_REFUSED: Final = 2
CACHE_VARIABLE: Final = "TIDEGATE_CACHE"
_PACKAGE: Final = Path(__file__).resolve().parent


class Refused(Exception):
    """The command cannot be carried out; the sentence says what to do."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns its exit code (0 done, 2 refused, else see `launch`)."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.run
    try:
        return command(options)
    except (Refused, NodeKeyError, ReferenceModelError) as refusal:
        say(f"refused: {refusal}")
        return EXIT_REFUSED


def say(line: str) -> None:
    """One line of progress on standard error."""
    print(f"private_node: {line}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m private_node", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    build = commands.add_parser("build-model", help="build the reference model and print its folder")
    build.set_defaults(run=_build_model)
    serve = commands.add_parser("serve", help="start vLLM and wait until it answers")
    serve.add_argument("--profile", default="cpu", help="name of a built-in profile or path of a TOML file")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8100)
    serve.add_argument("--key-file", type=Path, required=True, help="created with a new key when absent")
    serve.add_argument("--log-file", type=Path, help="vLLM's output; default <cache>/vllm.log")
    serve.add_argument("--dtype", help="instead of the profile's")
    serve.add_argument("--tensor-parallel-size", type=int, help="instead of the profile's")
    serve.add_argument("--expert-parallel", action=argparse.BooleanOptionalAction)
    serve.add_argument("--print-plan", action="store_true", help="print the command, start nothing")
    serve.set_defaults(run=_serve)
    ask = commands.add_parser("probe", help="ask a node for one token; exit code 0 when it is ready")
    ask.add_argument("--host", default="127.0.0.1")
    ask.add_argument("--port", type=int, default=8100)
    ask.add_argument("--key-file", type=Path, required=True)
    ask.add_argument("--model", default="reference-moe")
    ask.add_argument("--timeout-seconds", type=float, default=20.0)
    ask.set_defaults(run=_probe)
    plan = commands.add_parser("kv", help="what the key-value cache of a model costs")
    plan.add_argument("config", type=Path, help="the model's config.json")
    plan.add_argument("--tensor-parallel-size", type=int, default=1)
    plan.add_argument("--cache-bytes", type=int, required=True, help="per rank")
    plan.add_argument("--max-model-len", type=int, required=True)
    plan.add_argument("--cache-dtype", help="instead of the model's")
    plan.add_argument("--block-size", type=int, default=16)
    plan.set_defaults(run=_kv)
    return parser


def _build_model(_options: argparse.Namespace) -> int:
    print(ensure_reference_model(_cache_folder(), say))
    return 0


def _serve(options: argparse.Namespace) -> int:
    inherited = dict(os.environ)  # before the model is built: OpenCV changes LD_LIBRARY_PATH on import
    profile = _profile(options)
    key_file = options.key_file.absolute()
    _ensure_key(key_file)
    key = read_key(key_file).decode()
    cache = _cache_folder()
    if profile.model == "reference":
        model_folder = ensure_reference_model(cache, say)
    else:
        model_folder = Path(profile.model).absolute()
    with tempfile.TemporaryDirectory(prefix="tidegate-node-") as run_folder:
        place = Surroundings(
            interpreter=sys.executable,
            model_folder=str(model_folder),
            cache_folder=str(cache),
            key_file=str(key_file),
            run_folder=run_folder,
            host=options.host,
            port=options.port,
            cores=sorted(os.sched_getaffinity(0)),
            plugins=entry_points(group="vllm.general_plugins").names,
            inherited=inherited,
        )
        plan = compose(profile, _geometry(model_folder / "config.json"), place)
        if isinstance(plan, LayoutRefusal):
            raise Refused(str(plan))
        for line in plan.lines:
            say(line)
        if options.print_plan:
            _print_plan(plan)
            return 0
        node = Node(
            plan,
            Address(options.host, options.port),
            key,
            profile.served_name,
            log=(options.log_file or cache / "vllm.log").absolute(),
            drain=Path(run_folder) / DRAIN_FILE_NAME,
            report=say,
        )
        return node.serve(profile.start_seconds, profile.shutdown_seconds)


def _probe(options: argparse.Namespace) -> int:
    key = read_key(options.key_file).decode()
    state = probe(Address(options.host, options.port), key, options.model, options.timeout_seconds)
    if isinstance(state, Ready):
        say(f"ready first_token_seconds={state.seconds:.2f} fingerprint={state.system_fingerprint}")
        return 0
    say(f"not ready: {state.reason}")
    return 1


def _kv(options: argparse.Namespace) -> int:
    plan = plan_kv(
        _geometry(options.config),
        tensor_ranks=options.tensor_parallel_size,
        cache_bytes=options.cache_bytes,
        max_model_tokens=options.max_model_len,
        cache_dtype=options.cache_dtype,
        block_tokens=options.block_size,
    )
    print(f"bytes per token and rank  {plan.bytes_per_token:>14,}")
    print(f"tokens per rank           {plan.token_count:>14,}")
    print(f"requests of full length   {plan.request_count:>14,}")
    return 0


def _profile(options: argparse.Namespace) -> Profile:
    name: str = options.profile
    path = Path(name) if name.endswith(".toml") else _PACKAGE / "profiles" / f"{name}.toml"
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise Refused(f"profile {name}: cannot be read from {path} ({type(fault).__name__})") from None
    profile = parse_profile(text, path.name)
    if isinstance(profile, Profile):
        profile = with_overrides(
            profile,
            dtype=options.dtype,
            tensor=options.tensor_parallel_size,
            experts=options.expert_parallel,
        )
    if isinstance(profile, ProfileRefusal):
        raise Refused(str(profile))
    return profile


def _geometry(config: Path) -> ModelGeometry:
    try:
        stated = msgspec.json.decode(config.read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError) as fault:
        raise Refused(f"{config}: cannot be read as a JSON object ({type(fault).__name__})") from None
    geometry = geometry_from_config(stated)
    if isinstance(geometry, GeometryRefusal):
        raise Refused(str(geometry))
    return geometry


def _ensure_key(path: Path) -> None:
    """Creates the key file with a new key when it is absent; never touches one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w") as handle:
        handle.write(secrets.token_urlsafe(32) + "\n")
    say(f"new node key in {path}")


def _cache_folder() -> Path:
    """`TIDEGATE_CACHE`, else `.cache/tidegate` beside the package (the project's root in a checkout)."""
    return Path(os.environ.get(CACHE_VARIABLE) or _PACKAGE.parent / ".cache" / "tidegate").absolute()


def _print_plan(plan: LaunchPlan) -> None:
    print(json.dumps({"argv": plan.argv, "environment": dict(plan.environment)}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
