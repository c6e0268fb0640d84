"""Bodies of OpenAI's shape that are no answers: errors and the list of models."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gateway.errors import Refusal

_ENCODER = msgspec.json.Encoder()


def error_body(refusal: Refusal, request_id: str) -> bytes:
    """`{"error": {"message", "type", "param", "code"}, "request_id"}` as JSON.

    Only the public parts of `refusal` are in it, never `detail`.
    """
    return _ENCODER.encode(
        {
            "error": {
                "message": refusal.message,
                "type": refusal.kind,
                "param": refusal.param,
                "code": refusal.public_code,
            },
            "request_id": request_id,
        }
    )


def models_body(names: Iterable[str], created_seconds: int) -> bytes:
    """Body of `GET /v1/models`: the logical models, in the order given. `created_seconds` is Unix time."""
    return _ENCODER.encode({"object": "list", "data": [_model(name, created_seconds) for name in names]})


def model_body(name: str, created_seconds: int) -> bytes:
    """Body of `GET /v1/models/{name}`."""
    return _ENCODER.encode(_model(name, created_seconds))


def _model(name: str, created_seconds: int) -> dict[str, str | int]:
    return {"id": name, "object": "model", "created": created_seconds, "owned_by": "tidegate"}
