"""JSON as the gateway reads it from clients: bounded, unambiguous, typed.

Invariants
1. Bounds are checked before any parser runs, so no input reaches a recursion limit or builds more
   than `MAX_STRINGS` strings and `MAX_COMMAS` further values.
2. No object, typed or not, holds a key twice; keys are compared after decoding their escapes.
3. Numbers fit 64 bits or are finite floats; negative zero, NaN and Infinity are refused.
4. A refusal names a field by path and never repeats a value.

Source: RFC 8259; msgspec 0.23.0 takes the last of duplicate keys and raises RecursionError on deep
untyped input (measured November 2026), hence the checks around it.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeVar

import msgspec

from gateway.domain.chat import JsonText
from gateway.errors import RequestRefused

#: Nesting of arrays and objects. Hand-written schemas stay below 20.
MAX_DEPTH = 64
#: String literals, keys included. A conversation of 4,000 turns with tools stays below.
MAX_STRINGS = 65_536
#: Separators outside strings.
MAX_COMMAS = 65_536
#: Characters of a field name that an error repeats.
MAX_ECHO_CHARS = 64

_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}")
_WHERE = re.compile(r" - at `\$([^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `([A-Za-z0-9_]+)`$")
_OUTLINE_DELETE = bytes(set(range(256)) - set(b"[]{},"))
_BRACKETS_DELETE = bytes(set(range(256)) - set(b"[]{}"))
_ENCODER = msgspec.json.Encoder()

#: What to do instead, for fields that clients do send.
_HINTS = {
    **dict.fromkeys(
        ("api_base", "base_url", "api_key", "api_version", "organization", "extra_headers", "extra_query"),
        "the gateway alone chooses where a request goes and with which key; remove it",
    ),
    "extra_body": "put the wanted field itself at the top level of the body",
    **dict.fromkeys(
        ("user", "safety_identifier", "metadata", "prompt_cache_key"),
        "the caller is known from the token and is not named to a provider; remove it",
    ),
    **dict.fromkeys(("cache_salt", "priority"), "the gateway sets it itself; remove it"),
    "service_tier": "the policy decides how a request is served; remove it",
    "functions": "use `tools`",
    "function_call": "use `tools` with `tool_choice` or `tool_calls`",
    **dict.fromkeys(
        ("guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_decoding_backend"),
        "use `structured_outputs`, because the server ignores this field silently",
    ),
}


def refuse_unknown(path: str, name: str) -> RequestRefused:
    """Refusal of a field that is not in the dialect; `path` is where its object stands."""
    shown = name if _NAME.fullmatch(name) else "(unprintable)"
    full = f"{path}.{shown}" if path else shown
    hint = _HINTS.get(name, "remove it, or see the list of accepted fields in the documentation")
    return RequestRefused(f"Unknown field `{full}`: {hint}.", code="unknown-field", param=full)


def refuse_value(path: str, expected: str) -> RequestRefused:
    """Refusal of a value; `expected` is a fixed phrase that never holds the value itself."""
    where = path or "body"
    return RequestRefused(f"Invalid value of `{where}`: {expected}.", code="invalid-value", param=where)


def check_bounds(body: bytes) -> None:
    """Refuse a body that is too deep or has too many parts. Costs 1 µs for 1 KB of chat.

    Bounds: linear in the body; the outline is only made when a plain count is above a bound.
    """
    if (
        body.count(b"[") + body.count(b"{") <= MAX_DEPTH
        and body.count(b'"') <= 2 * MAX_STRINGS
        and body.count(b",") <= MAX_COMMAS
    ):
        return
    # Escapes only stand inside strings, so this leaves exactly the quotes that delimit strings.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    if plain.count(b'"') > 2 * MAX_STRINGS:
        raise RequestRefused(
            f"The body holds more than {MAX_STRINGS} strings; send less at once.", code="json-too-large"
        )
    outline = b"".join(plain.split(b'"')[::2]).translate(None, _OUTLINE_DELETE)
    if outline.count(b",") > MAX_COMMAS:
        raise RequestRefused(
            f"The body holds more than {MAX_COMMAS} values; send less at once.", code="json-too-large"
        )
    brackets = outline.translate(None, _BRACKETS_DELETE)
    for _ in range(MAX_DEPTH):
        # Each round takes away the innermost level, so what is left after the last is too deep
        # (or not balanced, which no parser takes either).
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if not brackets:
            return
    raise RequestRefused(
        f"The body is not balanced or is nested deeper than {MAX_DEPTH} levels.", code="json-too-deep"
    )


def decode(body: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    """Typed value of `body`. Refuses with code `invalid-json`, `json-too-deep`, `json-too-large`,
    `duplicate-key`, `unknown-field`, `missing-field` or `invalid-value`.

    The typed pass comes first: it is fast and ends at the first unknown field. The second pass looks
    at every key and number, and its result is dropped.
    """
    check_bounds(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise _not_json("it is not UTF-8") from None
    try:
        value = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _translate(str(error)) from None
    except msgspec.DecodeError:
        raise _not_json("its syntax is wrong") from None
    except RecursionError:
        # fail-closed: invariant 1 keeps this from happening; should a bound be raised, it is a 400.
        raise _not_json("it is nested too deep") from None
    try:
        _SECOND_PASS.decode(text)
    except (ValueError, RecursionError):
        raise _not_json("its syntax is wrong") from None
    return value


def json_text(value: Any) -> JsonText:
    """Compact JSON of a value that `decode` gave."""
    return JsonText(_ENCODER.encode(value).decode())


def _not_json(reason: str) -> RequestRefused:
    return RequestRefused(f"The body is not valid JSON: {reason}.", code="invalid-json")


def _translate(message: str) -> RequestRefused:
    """Refusal for a message of msgspec: keeps paths and expectations, drops every value."""
    where = _WHERE.search(message)
    path = where.group(1).lstrip(".") if where else ""
    head = message[: where.start()] if where else message
    if unknown := _UNKNOWN.match(head):
        return refuse_unknown(path, unknown.group(1))
    if missing := _MISSING.match(head):
        full = f"{path}.{missing.group(1)}" if path else missing.group(1)
        return RequestRefused(f"Missing field `{full}`.", code="missing-field", param=full)
    if head.startswith("Expected `null`"):
        # A field that may only be null is one that the dialect does not carry.
        parent, _, name = path.rpartition(".")
        return refuse_unknown(parent, name)
    if head.startswith("Expected "):
        # These sentences are made of type names and bounds of our own structs only.
        return refuse_value(path, "e" + head[1:])
    if head.startswith(("Integer value out of range", "Number out of range")):
        return refuse_value(path, "the number is out of range")
    return refuse_value(path, "not one of the accepted words")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        name = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        shown = name if _NAME.fullmatch(name) else "(unprintable)"
        raise RequestRefused(
            f"The field `{shown}` stands twice in one object; send it once.",
            code="duplicate-key",
            param=shown,
        )
    return found


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) <= 20 else None
    if value is None or not -(2**63) <= value < 2**64 or digits == "-0":
        raise RequestRefused(
            "A whole number in the body does not fit 64 bits or is a negative zero.", code="invalid-value"
        )
    return value


def _real(digits: str) -> float:
    value = float(digits) if len(digits) <= 400 else math.inf
    if not math.isfinite(value) or (value == 0 and digits[0] == "-"):
        raise RequestRefused(
            "A number in the body is not finite or is a negative zero.", code="invalid-value"
        )
    return value


def _constant(_: str) -> None:
    raise ValueError("NaN and Infinity are not JSON")


_SECOND_PASS = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_real, parse_constant=_constant
)
