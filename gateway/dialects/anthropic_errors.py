"""Errors in Anthropic's shape, and which of its words says what."""

from __future__ import annotations

import msgspec

from gateway.errors import Refusal

_ENCODER = msgspec.json.Encoder()
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def error_type(status: int) -> str:
    """Anthropic's word for the cause of a status."""
    return _TYPES.get(status, "invalid_request_error" if 400 <= status < 500 else "api_error")


def messages_error_body(refusal: Refusal, request_id: str) -> bytes:
    """`{"type": "error", "error": {"type", "message", "details"}, "request_id"}` as JSON.

    `details.error_code` is the gateway's code, `details.param` the field. Only the public parts of
    `refusal` are in it, never `detail`.
    """
    return _ENCODER.encode(
        {
            "type": "error",
            "error": {
                "type": error_type(refusal.http_status),
                "message": refusal.message,
                "details": {"error_code": refusal.public_code, "param": refusal.param},
            },
            "request_id": request_id,
        }
    )


def count_body(input_tokens: int) -> bytes:
    """Body of the answer to `POST /v1/messages/count_tokens`."""
    return _ENCODER.encode({"input_tokens": input_tokens})
