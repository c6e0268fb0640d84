"""No path but the listed ones reaches vLLM, however it is written."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from hypothesis import given
from hypothesis import strategies as st

from private_node.path_guard import LOOPBACK_ROUTES, ROUTES, route_refusal

PIECES = st.sampled_from(
    ["/", "//", "v1", "V1", "models", "chat", "completions", "health", "metrics", ".", "..", "%2f", "%2e",
     "%6d", "odels", ";", "?", "#", "\\", " ", "\x00", "é", "tokenize", "invocations"]
)  # fmt: skip
PATHS = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=30)
METHODS = st.sampled_from(["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "get"])


@given(method=METHODS, path=PATHS, is_local=st.booleans())
def test_serves_listed_routes_and_nothing_else(method: str, path: str, is_local: bool) -> None:
    """The scope is built as uvicorn builds it: raw bytes, and the same decoded once."""
    raw = path.encode("utf-8", "surrogatepass")
    scope = {
        "method": method,
        "path": unquote_to_bytes(raw).decode("utf-8", "replace"),
        "raw_path": raw,
        "query_string": b"",
        "root_path": "",
        "client": ("127.0.0.1" if is_local else "10.0.0.1", 1),
    }
    allowed = ROUTES | (LOOPBACK_ROUTES if is_local else frozenset())
    assert (route_refusal(scope) is None) == ((method, raw) in allowed)


@given(raw=st.binary(max_size=40), path=st.text(max_size=40))
def test_serves_no_path_whose_two_forms_differ(raw: bytes, path: str) -> None:
    scope = {"method": "GET", "path": path, "raw_path": raw, "client": None}
    if path.encode("utf-8", "surrogatepass") != raw:
        assert route_refusal(scope) is not None
