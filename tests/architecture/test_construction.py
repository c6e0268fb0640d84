"""The two values that carry the promise are constructed in one place each."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "gateway").rglob("*.py"), *(ROOT / "private_node").rglob("*.py")])
ONLY = {"Permit": "gateway/policy/evaluate.py", "Admitted": "gateway/pipeline/admit.py"}


def uses(source: str, name: str) -> list[int]:
    """Lines on which `name` is called, given another name, or handed on as a value.

    What may stand elsewhere: imports under its own name, annotations, `isinstance` checks, class
    patterns, and unions of types. A bare use is counted, so that an alias cannot hide a call.
    """
    tree = ast.parse(source)
    allowed: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                allowed |= {id(inner) for inner in ast.walk(kind)}
            case ast.AnnAssign(annotation=kind) | ast.arg(annotation=ast.expr() as kind):
                allowed |= {id(inner) for inner in ast.walk(kind)}
            case (
                ast.FunctionDef(returns=ast.expr() as kind) | ast.AsyncFunctionDef(returns=ast.expr() as kind)
            ):
                allowed |= {id(inner) for inner in ast.walk(kind)}
            case ast.MatchClass(cls=kind):
                allowed |= {id(inner) for inner in ast.walk(kind)}
            case ast.BinOp(op=ast.BitOr()) | ast.Subscript():
                allowed |= {id(inner) for inner in ast.walk(node) if not isinstance(inner, ast.Call)}
            case _:
                pass
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=used) | ast.Attribute(attr=used) if used == name and id(node) not in allowed:
                found.append(node.lineno)
            case ast.Call(func=ast.Name(id=used) | ast.Attribute(attr=used)) if used == name:
                found.append(node.lineno)
            case ast.alias(name=used, asname=str()) if used == name:
                found.append(node.lineno)
            case ast.Call(func=ast.Name(id="replace") | ast.Attribute(attr="replace"), args=[first, *_]):
                # `dataclasses.replace` builds one without its name; values are named after their type.
                if name.lower() in ast.unparse(first).lower():
                    found.append(node.lineno)
            case _:
                pass
    return found


@pytest.mark.parametrize("name", sorted(ONLY))
def test_is_constructed_in_one_module_only(name: str) -> None:
    elsewhere = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        if path.relative_to(ROOT).as_posix() != ONLY[name]
        for line in uses(path.read_text(encoding="utf-8"), name)
    }
    assert elsewhere == set()


@pytest.mark.parametrize("name", sorted(ONLY))
def test_is_constructed_where_it_should_be(name: str) -> None:
    assert uses((ROOT / ONLY[name]).read_text(encoding="utf-8"), name)


def test_reads_the_whole_source_tree() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in SOURCES}
    assert {"gateway/domain/decision.py", "gateway/policy/evaluate.py", "gateway/snapshot.py"} <= names


@pytest.mark.parametrize(
    "source",
    [
        "Permit(label)",
        "decision.Permit(label)",
        "make = Permit",
        "make = decision.Permit",
        "from gateway.domain.decision import Permit as Value",
        "partial(Permit, label)",
        "replace(permit, destinations=())",
        "dataclasses.replace(self.permit, label=label)",
        "Permit.__new__(Permit)",
        "x: list = [Permit]",
        "y = Permit(label) | 1",
    ],
)
def test_finds_each_way_to_construct(source: str) -> None:
    assert uses(source, "Permit")


@pytest.mark.parametrize(
    "source",
    [
        "from gateway.domain.decision import Permit",
        "def f(x: Permit) -> Permit | None: ...",
        "async def f(x: list[Permit]) -> Callable[[Permit], None]: ...",
        "Decision = Permit | Denial",
        "isinstance(x, Permit)",
        "match x:\n    case Permit(label=label): ...",
        "x: Permit",
        "replace(request, permitless=1)",
    ],
)
def test_lets_types_pass(source: str) -> None:
    assert uses(source, "Permit") == []
