from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.label import PUBLIC, Label, Level, Tag, join_all

LABELS = st.builds(Label, st.sampled_from(Level), st.frozensets(st.sampled_from(Tag), max_size=4))


@given(LABELS, LABELS, LABELS)
def test_join_is_a_semilattice(a: Label, b: Label, c: Label) -> None:
    assert a.join(a) == a
    assert a.join(b) == b.join(a)
    assert a.join(b).join(c) == a.join(b.join(c))
    assert a.join(PUBLIC) == a


@given(st.lists(LABELS, max_size=6))
def test_a_join_is_not_below_any_of_its_parts(labels: list[Label]) -> None:
    whole = join_all(labels)
    assert all(each.level <= whole.level and each.tags <= whole.tags for each in labels)


def test_a_level_has_exactly_one_spelling() -> None:
    assert Level.parse("restricted") is Level.RESTRICTED
    for word in ("Restricted", "RESTRICTED", "restricted ", "", "secret"):
        with pytest.raises(ValueError, match="expected one of"):
            Level.parse(word)
