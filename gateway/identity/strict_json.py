"""JSON as tokens and key sets carry it: one meaning only.

Python's own parser takes the last of two equal keys and reads NaN and Infinity. A token whose `sub`
stands twice means one thing here and another thing elsewhere, so it means nothing.
"""

from __future__ import annotations

import json
from typing import NoReturn


class NotStrict(ValueError):
    """The bytes are not one JSON value in UTF-8, or use what is refused here."""


class DuplicateKey(NotStrict):
    """An object names the same key twice, at any depth."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise DuplicateKey("a key stands twice in one object")
    return value


def _constant(_: str) -> NoReturn:
    raise NotStrict("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def parse_object(document: bytes) -> dict[str, object]:
    """The object that `document` holds.

    Bounds: the caller's, on the length; depth by the interpreter's recursion limit, which is caught.
    Raises `DuplicateKey` for equal keys after unescaping, `NotStrict` for everything else that is not
    one JSON object in UTF-8 without a byte order mark. Numbers beyond a float's range come out as
    infinity and are the caller's to refuse.
    """
    try:
        value = _DECODER.decode(document.decode("utf-8"))
    except NotStrict:
        raise
    except (ValueError, RecursionError):
        raise NotStrict("not one JSON value in UTF-8") from None
    if not isinstance(value, dict):
        raise NotStrict("not a JSON object")
    return value
