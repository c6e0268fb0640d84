"""Arguments of a tool call: strict JSON, an object, and exactly what the schema takes.

Invariants
1. Nothing is repaired: text that is almost JSON, or almost the schema, is a fault.
2. A fault is a closed word; no part of the arguments is in it.
3. What cannot be judged (too large, too deep, the judge raised) is a fault.
"""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any, NoReturn

from gateway.domain.chat import CheckArguments
from gateway.protocols.schema import Judge

#: Longest arguments of one call, in characters.
MAX_CHARACTERS = 1_048_576
MAX_DEPTH = 32


class _Duplicate(ValueError):
    """A key stands twice in one object."""


class NotStrict(ValueError):
    """The text is not JSON as the gateway reads it: its first argument is a closed word."""


def strict_value(text: str) -> Any:
    """The JSON value of `text`: unique keys, finite numbers, bounded depth. Raises `NotStrict`."""
    try:
        value = _DECODER.decode(text)
    except _Duplicate:
        # fail-closed: two values of one name, and the reader may take the one that was not judged.
        raise NotStrict("duplicate-key") from None
    except (ValueError, RecursionError):
        raise NotStrict("not-json") from None
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_deep(value):
        raise NotStrict("too-deep")
    return value


def checker(judge: Judge) -> CheckArguments:
    """What judges the text of a call's arguments: gives a fault word or None.

    Words: arguments-too-large, arguments-not-json, arguments-duplicate-key, arguments-not-an-object,
    arguments-too-deep, arguments-off-schema. Cost: 4 us for a small object.
    """
    return partial(_fault, judge)


def _fault(judge: Judge, text: str) -> str | None:
    if len(text) > MAX_CHARACTERS:
        return "arguments-too-large"
    try:
        value = strict_value(text)
    except NotStrict as fault:
        return f"arguments-{fault}"
    if type(value) is not dict:
        # A true case: with `tool_choice` a server may write the bare string instead of the object.
        return "arguments-not-an-object"
    try:
        return None if judge.is_valid(value) else "arguments-off-schema"
    except Exception:  # noqa: BLE001
        # fail-closed: lone surrogates, for one, cannot be handed to the judge.
        return "arguments-off-schema"


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            item
            for node in level
            for item in (node.values() if isinstance(node, dict) else node)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Duplicate
    return found


def _real(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("not finite")
    return value


def _no_constant(_: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_real, parse_constant=_no_constant)
