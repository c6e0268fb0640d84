"""Facts about the health of somebody: a condition, a person, and what happened to them, in one sentence.

"What are the side effects of metformin?" names no person; "my mother's scan showed a lesion" does, though it
holds no identifier. A finding needs three kinds of words in one sentence: a condition or treatment, somebody
whose it can be (a patient, a relative, the speaker), and a course of events (shown, diagnosed, booked,
since, a dose). Words are those of the canonical view: without accents, `?` for what is not ASCII.

Invariants
1. Work is linear in the text: a sentence is read once, however many conditions it names; one of more than
   `_REACH` characters around a condition is read in overlapping steps.
2. Words that make a sentence a tale or a lesson clear it only from inside that sentence. They clear no
   identifier: those are other rows.
"""

from __future__ import annotations

import re2

from gateway.domain.label import Tag
from gateway.sensitivity.health_sentences import COURSES, EVENTS, HAS, LESSONS, PERSONS
from gateway.sensitivity.health_words import (
    CONDITIONS,
    FIELDS,
    NAMES,
    NOTES,
    NOTES_BESIDE,
    TEMPLATES,
)
from gateway.sensitivity.places import BIRTH
from gateway.sensitivity.rule import Rule, Spans, restricted
from gateway.sensitivity.views import View

#: Characters of the sentence that are read on each side of the condition.
_REACH = 160
#: In a longer sentence what it names within so many characters is read together, and that much further.
_STEP = 80
#: Shorter sentences cannot hold all three.
_LEAST = 16
#: Keys of the view's memo that no offset has.
_READ_TO, _NOTED_TO = -1, -2

CONDITION = (r"(?i)\b(?:" + "|".join(CONDITIONS) + ")").encode()
EVENT = (r"(?i)\b(?:" + "|".join(EVENTS) + r")\b").encode()
_PERSON = re2.compile((r"(?:" + "|".join(PERSONS) + ")").encode())
_COURSE = re2.compile((r"(?i)\b(?:" + "|".join(COURSES) + ")").encode())
_LESSON = re2.compile((r"(?i)\b(?:" + "|".join(LESSONS) + ")").encode())
_HAS = re2.compile((r"(?i)(?:" + "|".join(HAS) + r")(?: \w+)?[ -]?(?:" + "|".join(CONDITIONS) + ")").encode())
NOTE = (r"\b(?:" + "|".join(NOTES) + ")").encode()
_NOTE = re2.compile((r"\b(?:" + "|".join((*NOTES, *NOTES_BESIDE)) + ")").encode())
#: So many different words of shorthand near each other are a note about a patient.
_NOTE_LEAST, _NOTE_MOST, _NOTE_REACH = 3, 8, 160
#: A field of a form or record with a value, and the fields that say whose it is.
_VALUE = r"[\"'*_ ]{0,3}[:=][\"'*_ ]{0,3}[A-Za-z0-9?]"
FIELD = (r"(?i)\b(?:" + "|".join(FIELDS) + ")" + _VALUE).encode()
_NAMED = re2.compile((r"(?i)\b(?:" + "|".join(NAMES) + ")" + _VALUE).encode())
_EMPTY = re2.compile(
    rb"(?i)^(?:none|nil|null|n/a|unknown|string|str|text|list|dict|optional|bool|int|varchar|test|todo|your"
    rb"|tbd|example|false)\b"
)
TEMPLATE = (r"(?i)\b(?:" + "|".join(TEMPLATES) + ")" + _VALUE).encode()
_RECORD_REACH = 320
_BORN = re2.compile(BIRTH)
_SENTENCE_ENDS = (b". ", b"! ", b"? ", b"\n", b".\r")
_DOT = ord(".")
#: Short forms whose full stop ends no sentence.
_TITLE = re2.compile(rb"(?i)\b(?:dr|mrs?|ms|mme|m|pt|sr|sra|dra|hr|fr|sig|dhr|mevr|st|no|ca|resp|bzw|[a-z])$")


def _begin(data: bytes, start: int) -> int:
    """Where the sentence that holds `start` begins, at most `_REACH` before it."""
    behind, place = max(0, start - _REACH), start
    while True:
        place = max(data.rfind(sign, behind, place) for sign in _SENTENCE_ENDS)
        if place < 0:
            return behind
        if data[place] != _DOT or _TITLE.search(data[max(behind, place - 8) : place]) is None:
            return place + 1


def _sentence(data: bytes, start: int, end: int) -> tuple[int, int, bool]:
    """The sentence around `start:end`, `_REACH` characters on either side at most, and whether it ends."""
    reach, place = end + _REACH, end
    while True:
        ends = [at for sign in _SENTENCE_ENDS if (at := data.find(sign, place, reach)) >= 0]
        if not ends:
            return _begin(data, start), min(len(data), reach + _STEP), reach >= len(data)
        place = min(ends) + 1
        if data[place - 1] != _DOT or _TITLE.search(data[max(0, place - 9) : place - 1]) is None:
            return _begin(data, start), place, True


def health_facts(view: View, start: int, end: int) -> Spans:
    """The condition, when its sentence names somebody and what happened; once for all that it names."""
    read_to = view.memo.get(_READ_TO)
    if isinstance(read_to, int) and start < read_to:
        return
    data = view.data
    first, last, is_whole = _sentence(data, start, end)
    view.memo[_READ_TO] = last if is_whole else end + _STEP
    sentence = data[first:last]
    if (
        len(sentence) >= _LEAST
        and _PERSON.search(sentence) is not None
        and (_COURSE.search(sentence) is not None or _HAS.search(sentence) is not None)
        and _LESSON.search(sentence) is None
    ):
        yield start, end


def health_events(view: View, start: int, end: int) -> Spans:
    """Words that tie an illness to the one who speaks or is spoken of, unless a tale or lesson is told."""
    first, last, _ = _sentence(view.data, start, end)
    if _LESSON.search(view.data[first:last]) is None:
        yield start, end


def clinical_notes(view: View, start: int, end: int) -> Spans:
    """A stretch that holds several different words of a clinician's shorthand, or very many of the same."""
    noted_to = view.memo.get(_NOTED_TO)
    if isinstance(noted_to, int) and start < noted_to:
        return
    stretch = view.data[max(0, start - _NOTE_REACH) : end + _NOTE_REACH]
    found = [match.group().translate(None, b"0123456789 .,:;/-%") for match in _NOTE.finditer(stretch)]
    if (len(set(found)) >= _NOTE_LEAST or len(found) > _NOTE_MOST) and _LESSON.search(stretch) is None:
        view.memo[_NOTED_TO] = end + _NOTE_REACH
        yield start, end


def filled(view: View, start: int, end: int) -> Spans:
    """The field, when its value is none of the words that stand for no value."""
    if _EMPTY.search(view.data[end - 1 : end + 12]) is None:
        yield start, end


def health_fields(view: View, start: int, end: int) -> Spans:
    """A filled field of a health record near a filled field that says whose record it is."""
    data = view.data
    if _EMPTY.search(data[end - 1 : end + 12]) is not None:
        return
    around = data[max(0, start - _RECORD_REACH) : end + _RECORD_REACH]
    if _NAMED.search(around) is not None or _BORN.search(around) is not None:
        yield start, end


_PHI = restricted(Tag.PHI)
RULES: tuple[Rule, ...] = (
    Rule("health-fact", 1, _PHI, CONDITION, health_facts, price=4, is_about=True),
    Rule("health-fact", 1, _PHI, EVENT, health_events, price=4, is_about=True),
    Rule("health-field", 1, _PHI, FIELD, health_fields, price=4, is_about=True),
    Rule("biometric-template", 1, restricted(Tag.BIOMETRIC), TEMPLATE, filled, is_about=True),
    Rule("clinical-note", 1, _PHI, NOTE, clinical_notes, price=5, is_about=True),
)
