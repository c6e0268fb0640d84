"""JSON as the gateway reads it from clients: bounded, unambiguous, typed.

Invariants
1. Bounds are checked before any parser runs, so no input reaches a recursion limit or builds more
   than `MAX_PARTS` strings, separated values and containers.
2. No object, typed or not, holds a key twice; keys are compared after decoding their escapes.
3. Numbers fit 64 bits or are finite floats; negative zero, NaN and Infinity are refused.
4. A refusal names a field by path and never repeats a value.

Source: RFC 8259. msgspec 0.23.0 takes the last of duplicate keys, raises RecursionError on deep
untyped input and needs 6.5 us for a number such as 1e300; the standard library's parser takes NaN and
lone surrogates, and has neither of the first two faults with our hooks (measured December 2026). So
both read the body: one says that it is well-formed, the other builds the tree that is converted.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from gateway.domain.chat import JsonText
from gateway.errors import RequestRefused

#: Nesting of arrays and objects. Hand-written schemas stay below 20.
MAX_DEPTH = 64
#: Strings (keys included), separators and containers together. 4,000 turns with 100 tools stay below.
MAX_PARTS = 60_000
#: Characters of a field name that an error repeats.
MAX_ECHO_CHARS = 64

_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}")
# Only what our own structs can produce, because an unknown field's name stands in the same sentence.
_WHERE = re.compile(r" - at (?:`key` in )?`\$((?:\.[a-z_]{1,40}|\[[0-9]{1,9}\]|\[\.\.\.\]){0,64})`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `([A-Za-z0-9_]+)`$")
_OUTLINE_DELETE = bytes(set(range(256)) - set(b"[]{},"))
#: One level in, one level out (255 is -1 as a signed byte), nothing.
_STEPS = bytes.maketrans(b"[]{},", b"\x01\xff\x01\xff\x00")
_WELL_FORMED = msgspec.json.Decoder(msgspec.Raw)
_ENCODER = msgspec.json.Encoder()

#: What to do instead, for fields that clients do send.
_HINTS = {
    **dict.fromkeys(
        ("api_base", "base_url", "api_key", "api_version", "organization", "extra_headers", "extra_query"),
        "the gateway alone chooses where a request goes and with which key; remove it",
    ),
    "extra_body": "put the wanted field itself at the top level of the body",
    **dict.fromkeys(
        ("user", "safety_identifier", "metadata", "prompt_cache_key", "user_profile_id"),
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


def refuse_unsaid(path: str) -> RequestRefused:
    """Refusal of a field that the dialect of the only permitted destinations has no word for."""
    return RequestRefused(
        f"The field `{path}` cannot be said in the dialect of the destination where this request may go;"
        " leave it out, or choose another model.",
        code="unsupported-field",
        param=path,
    )


def check_bounds(body: bytes) -> None:
    """Refuse a body that is too deep or has too many parts. Costs 1 us for 1 KB of chat.

    Bounds: linear in the body; the outline is only made when a plain count is above a bound.
    """
    container_count = body.count(b"[") + body.count(b"{")
    if container_count <= MAX_DEPTH and container_count + _parts(body) <= MAX_PARTS:
        return
    # Escapes only stand inside strings, so this leaves exactly the quotes that delimit strings.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    if plain.count(b'"') > 2 * MAX_PARTS:
        raise _too_large()
    pieces = plain.split(b'"')
    outline = b"".join(pieces[::2]).translate(None, _OUTLINE_DELETE)
    container_count = outline.count(b"[") + outline.count(b"{")
    if len(pieces) // 2 + outline.count(b",") + container_count > MAX_PARTS:
        raise _too_large()
    steps = memoryview(outline.translate(_STEPS)).cast("b")
    if max(accumulate(steps), default=0) > MAX_DEPTH:
        raise RequestRefused(f"The body is nested deeper than {MAX_DEPTH} levels.", code="json-too-deep")


def _parts(body: bytes) -> int:
    """Upper bound of strings and separated values."""
    return body.count(b'"') // 2 + body.count(b",")


def decode(body: bytes, kind: type[_T]) -> _T:
    """Value of type `kind` (a struct) in `body`.

    Refuses with code `invalid-json`, `json-too-deep`, `json-too-large`, `duplicate-key`,
    `unknown-field`, `missing-field` or `invalid-value`.
    """
    check_bounds(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise _not_json("it is not UTF-8") from None
    try:
        _WELL_FORMED.decode(body)
        tree = _UNIQUE.decode(text)
    except _NoInteger as error:
        raise _refuse_integer(text, str(error)) from None
    except (ValueError, RecursionError):
        # fail-closed: invariant 1 keeps recursion from happening; should a bound be raised, it is a 400.
        raise _not_json("its syntax is wrong") from None
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise _translate(str(error)) from None


def convert(tree: Any, kind: type[_T], path: str) -> _T:
    """Value of type `kind` in a part of a tree that `decode` gave; `path` is where that part stands.

    Refuses as `decode` does, with the whole path.
    """
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise _translate(str(error), path) from None


def json_text(value: Any) -> JsonText:
    """Compact JSON of a value that `decode` gave."""
    return JsonText(_ENCODER.encode(value).decode())


def _not_json(reason: str) -> RequestRefused:
    return RequestRefused(f"The body is not valid JSON: {reason}.", code="invalid-json")


def _too_large() -> RequestRefused:
    return RequestRefused(
        f"The body holds more than {MAX_PARTS} strings, values and containers; send less at once.",
        code="json-too-large",
    )


def _translate(message: str, base: str = "") -> RequestRefused:
    """Refusal for a message of msgspec: keeps paths and expectations, drops every value."""
    where = _WHERE.search(message)
    path = (base + where.group(1) if where else base).lstrip(".")
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
    return refuse_value(path, "not one of the accepted words")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        name = Counter(key for key, _ in pairs).most_common(1)[0][0]
        shown = name if _NAME.fullmatch(name) else "(unprintable)"
        raise RequestRefused(
            f"The field `{shown}` stands twice in one object; send it once.",
            code="duplicate-key",
            param=shown,
        )
    return found


class _NoInteger(Exception):
    """A whole number that is none for us; holds its digits, which never leave this module."""


def _refuse_integer(text: str, digits: str) -> RequestRefused:
    """Names the field whose value it is, where it stands in an object."""
    # Quotes inside strings are escaped, so text that a client quotes is never taken for a key.
    key = re.search(r'"([A-Za-z0-9_.\-]{1,64})"\s*:\s*' + re.escape(digits[:64]), text)
    if key is None:
        return RequestRefused(
            "A whole number in the body does not fit 64 bits or is a negative zero.", code="invalid-value"
        )
    return refuse_value(key[1], "expected a whole number that fits 64 bits and is no negative zero")


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) <= 20 else None
    if value is None or not -(2**63) <= value < 2**64 or digits == "-0":
        raise _NoInteger(digits)
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


_UNIQUE = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_real, parse_constant=_constant
)
