"""Words that would steer a gateway or a server, standing where a JSON Schema has its keywords. Pure.

As the name of a property (`properties.user`) or as data (`default`, `enum`) such a word is the caller's own
business. As a keyword it means nothing to any schema, only to software that reads more out of a request
than it says, so it is refused like everywhere else in the body.
"""

from __future__ import annotations

import re
from typing import Any

from gateway.dialects.strict_json import refuse_unknown

STEERING = ("api_base", "base_url", "api_key", "extra_headers", "extra_body", "cache_salt", "user")

#: In compact JSON: most schemas are done with one search (1 µs a KB).
_SEEN = re.compile(rf'"(?:{"|".join(STEERING)})":')
#: Keywords whose value maps free names to schemas, and keywords whose value is data.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_DATA = frozenset({"default", "const", "enum", "examples", "example"})


def check_keywords(schema: dict[str, Any], compact: str, path: str) -> None:
    """Return when no keyword of `schema`, at any depth, is a steering word.

    `compact` is the schema as compact JSON. Bounds: the depth that `strict_json` allows.
    Refuses with `RequestRefused`, code `unknown-field`.
    """
    if _SEEN.search(compact) is not None:
        _walk(schema, path)


def _walk(schema: dict[str, Any], path: str) -> None:
    for key, value in schema.items():
        if key in STEERING:
            raise refuse_unknown(path, key)
        if key in _DATA:
            continue
        if isinstance(value, dict):
            children: list[Any] = list(value.values()) if key in _NAMED else [value]
        else:
            children = value if isinstance(value, list) else []
        for child in children:
            if isinstance(child, dict):
                _walk(child, path)
