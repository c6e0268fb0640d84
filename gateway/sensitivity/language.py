"""Is a text in the languages that the contextual model was taught? Told by which words its table holds.

Invariants
1. Work is linear in the rows of a text. Nothing is raised.
2. Rows added before or after never lower the surplus: it is the highest sum of evidence over any run of rows.
   So one foreign sentence inside a long known text is still seen, and one foreign word is not enough.

Evidence of a row is over 0 when it speaks for another language: a word of one, or a word that the table does
not hold. It is under 0 for frequent words of the known languages, and for signs and digits, between which
code has its names. ADR 0008 has the figures.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gateway.sensitivity.vocabulary import CUT, LONG, ROW_MASK, SIGN, SPECIAL, Vocabulary, speaks_for_other

#: Flags of rows: a word of a language that the model knows, of one that it does not, a foreign script.
KNOWN, OTHER_LANGUAGE, OTHER_SCRIPT = 1, 2, 3
#: A text with more than this is in no known language: one foreign word is not enough, two are.
LIMIT = np.float32(2.2)
_OTHER = 2.0
#: A word that was cut into pieces speaks for another language, but less.
_CUT = 0.5
_FREQUENT = -1.0
#: Arabic words of the table are those of all languages with that script.
_FREQUENT_ARABIC = -0.25
_HELD = -0.3
_SIGN = -0.3

Floats = NDArray[np.float32]


def evidence_of_rows(vocabulary: Vocabulary, flags: NDArray[np.uint8]) -> Floats:
    """Evidence (rows,) of each row for another language, when it stands for a whole word."""
    evidence = np.zeros(len(flags), np.float32)
    for word, row in vocabulary.words.items():
        if not word.isalpha():
            evidence[row] = _SIGN
        elif len(word) > 1:
            evidence[row] = _HELD
    evidence[flags == KNOWN] = _FREQUENT
    evidence[flags >= OTHER_LANGUAGE] = _OTHER
    for words in (vocabulary.words, vocabulary.tails):
        for word, row in words.items():
            if "\u0600" <= word[0] <= "\u06ff" and word.isalpha():
                # fail-closed: Persian and Urdu words stand in the table too, but not as known ones.
                evidence[row] = _OTHER if len(word) > 1 and speaks_for_other(word) else _FREQUENT_ARABIC
    evidence[SPECIAL.index("digit1") : LONG] = _SIGN
    evidence[SIGN] = _SIGN
    return evidence


def surplus(marked: NDArray[np.int32], evidence: Floats) -> float:
    """Highest sum of evidence over any run of `marked` rows (with the bit `CUT`); 0 for none."""
    if len(marked) == 0:
        return 0.0
    found = np.where((marked & CUT) != 0, np.float32(_CUT), evidence[marked & ROW_MASK])
    sums = np.cumsum(found, dtype=np.float64)
    lowest = np.minimum.accumulate(np.concatenate([[0.0], sums[:-1]]))
    return max(0.0, float((sums - lowest).max()))
