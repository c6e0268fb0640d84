from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.evaluation.corpus import parse_rows


def test_reads_rows_and_passes_blank_lines_over() -> None:
    lines = [
        json.dumps({"text": "a", "label": "restricted", "categories": ["pii"], "note": "x"}).encode(),
        b"\n",
        json.dumps({"text": "b", "label": "public", "id": 7, "lang": "de"}).encode(),
    ]
    first, second = parse_rows(lines, "file")
    assert (first.id, first.level, first.tags) == ("file:1", Level.RESTRICTED, frozenset({"pii"}))
    assert (second.id, second.lang) == ("7", "de")


@pytest.mark.parametrize(
    "line", [b"{", b'{"text": "secret words"}', b'{"text": "secret words", "label": "top"}', b"\xff"]
)
def test_a_bad_row_is_named_by_file_and_line_without_its_text(line: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"^file:2: ") as caught:
        list(parse_rows([b'{"text":"a","label":"public"}', line], "file"))
    assert "secret words" not in str(caught.value)


@given(st.binary(max_size=80))
def test_any_line_gives_a_row_or_a_configuration_error(line: bytes) -> None:
    faults = []
    try:
        list(parse_rows([line], "file"))
    except ConfigurationError as error:
        faults.append(str(error))
    assert all(fault.startswith("file:1: ") for fault in faults)
