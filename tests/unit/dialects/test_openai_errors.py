"""Error bodies and model lists."""

from __future__ import annotations

import json

from gateway.dialects.openai_errors import error_body, model_body, models_body
from gateway.errors import RequestRefused


def test_writes_an_error_in_openais_shape_without_the_operators_detail() -> None:
    refusal = RequestRefused("Too long.", code="too-long", param="stop", detail="inner-word")
    assert json.loads(error_body(refusal, "r1")) == {
        "error": {
            "message": "Too long.",
            "type": "invalid_request_error",
            "param": "stop",
            "code": "too-long",
        },
        "request_id": "r1",
    }


def test_lists_models_in_the_given_order() -> None:
    found = json.loads(models_body(["b", "a"], 7))
    assert found["object"] == "list"
    assert [entry["id"] for entry in found["data"]] == ["b", "a"]
    assert found["data"][0] == {"id": "b", "object": "model", "created": 7, "owned_by": "tidegate"}


def test_describes_one_model() -> None:
    assert json.loads(model_body("a", 7)) == {
        "id": "a",
        "object": "model",
        "created": 7,
        "owned_by": "tidegate",
    }
