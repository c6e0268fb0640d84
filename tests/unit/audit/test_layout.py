"""File names."""

from __future__ import annotations

import pytest

from gateway.audit import layout


def test_names_sort_as_numbers_do() -> None:
    names = [layout.segment_name(n) for n in (0, 9, 10, 10**12)]
    assert names == sorted(names)
    assert layout.segment_number("00000000000000000010.seg") == 10
    assert layout.journal_number("00000000000000000007.ckp") == 7


@pytest.mark.parametrize(
    "name", ["spare.tmp", "10.seg", "0000000000000000001x.seg", "٠" * 20 + ".seg", "00000000000000000010.ckp"]
)
def test_other_files_have_no_segment_number(name: str) -> None:
    assert layout.segment_number(name) is None
