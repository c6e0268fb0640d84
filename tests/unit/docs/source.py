"""What the code really has: commands, metrics, log events, codes, tests. Read from source and from click."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import click

from gateway import errors
from gateway.cli.main import main
from gateway.telemetry import Metrics

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changelog.d").glob("*.md"))
    if path.is_file()
)
_FENCE = re.compile(r"^( *)```[^\n]*\n.*?^\1```", re.MULTILINE | re.DOTALL)
_LEVELS = frozenset({"info", "warning", "error", "critical", "exception"})


@cache
def generator() -> ModuleType:
    """`docs/generate.py`, which is a script and in no package."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name(page: Path) -> str:
    """A page's path in the project, as a test's id."""
    return page.relative_to(ROOT).as_posix()


def without_fences(text: str) -> str:
    """The prose of a page."""
    return _FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings, as repository hosts make them."""
    found: set[str] = set()
    for line in without_fences(text).splitlines():
        if line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(words.replace(" ", "-"))
    return found


def spans(text: str) -> Iterator[str]:
    """Code of a page: inline spans, and lines of fenced blocks with continuations joined."""
    for fence in _FENCE.finditer(text):
        block = fence[0].replace("\\\n", " ")
        yield from (line.strip() for line in block.splitlines()[1:-1])
    yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", without_fences(text)))


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that `words` (after `tidegate`) name, and the words behind it. Raises `KeyError`."""
    command: click.Command = main
    context = click.Context(command)
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        if not re.fullmatch(r"[a-z-]+", rest[0]):
            break
        found = command.get_command(context, rest[0])
        if found is None:
            raise KeyError(rest[0])
        command, rest = found, rest[1:]
    return command, rest


def metric_families() -> dict[str, set[str]]:
    """Names as they are exposed, by family as documented (counters end in `_total`)."""
    families: dict[str, set[str]] = {}
    for family in Metrics().registry.collect():
        shown = f"{family.name}_total" if family.type == "counter" else family.name
        endings = ("", "_created", "_bucket", "_sum", "_count")
        families[shown] = {shown, *(family.name + ending for ending in endings)}
    return families


@cache
def trees() -> tuple[ast.Module, ...]:
    """Syntax trees of both programs."""
    paths = [*(ROOT / "gateway").rglob("*.py"), *(ROOT / "private_node").rglob("*.py")]
    return tuple(ast.parse(path.read_text("utf-8")) for path in sorted(paths))


@cache
def log_events() -> frozenset[str]:
    """The fixed phrase of every event that the gateway logs."""
    found: set[str] = set()
    for tree in trees():
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=logger, attr=level), args=[ast.Constant(value=str(phrase)), *_]
                ) if level in _LEVELS and ast.unparse(logger) in {"log()", "_log", "structlog.get_logger()"}:
                    found.add(phrase)
                case ast.Call(func=function, args=[ast.Constant(value=str(phrase)), *_]) if ast.unparse(
                    function
                ).endswith("report_fault"):
                    found.add(phrase)
                case _:
                    pass
    return frozenset(found)


@cache
def _texts() -> tuple[frozenset[str], tuple[re.Pattern[str], ...]]:
    plain: set[str] = set()
    patterns: set[str] = set()
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                plain.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [
                    re.escape(str(part.value)) if isinstance(part, ast.Constant) else "[a-z]+"
                    for part in node.values
                ]
                # Only texts with a fixed part of some length: a lone placeholder would match everything.
                if any(isinstance(part, ast.Constant) and len(str(part.value)) > 5 for part in node.values):
                    patterns.add("".join(parts))
    return frozenset(plain), tuple(re.compile(pattern) for pattern in patterns)


def is_text_of_the_code(word: str) -> bool:
    """Whether `word` stands in the code as a whole literal, or can come out of a formatted one."""
    plain, patterns = _texts()
    return word in plain or any(pattern.fullmatch(word) for pattern in patterns)


def base_codes() -> set[str]:
    """Code of every class of refusal."""
    found: set[str] = set()
    classes: list[type[errors.Refusal]] = [errors.Refusal]
    while classes:
        one = classes.pop()
        found.add(one.default_code)
        classes.extend(one.__subclasses__())
    return found


@cache
def test_names() -> frozenset[str]:
    """Name of every test function of the project."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        if "node_modules" not in path.parts:
            found.update(re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE))
    return frozenset(found)


def table(text: str, heading: str) -> list[list[str]]:
    """Cells of the rows of the first table below a heading."""
    section = text.split(f"\n{heading}\n", 1)[1]
    rows: list[list[str]] = []
    for line in section.splitlines():
        if line.startswith("#"):
            break
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            break
    return rows[2:]
