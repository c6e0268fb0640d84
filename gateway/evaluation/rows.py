"""Which words and pieces get a row of their own in the contextual model's table.

Training only. Words come from the training texts themselves and from the word forms of `simplemma` (MIT), as
many of each language as its share says, the likeliest by the teacher's own unigram scores; pieces come from
the teacher's tokeniser, for words that have no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.evaluation.teacher import Teacher
from gateway.sensitivity.vocabulary import Vocabulary, fold, tokens_of

_SPACE = "\u2581"
#: Words of each language beside those of the training texts.
WORD_COUNTS = {"en": 14_000, "de": 9_000, "fr": 7_000, "es": 7_000, "it": 7_000, "pt": 7_000, "nl": 7_000}
#: Languages that the model does not know, told by their likeliest words. Catalan, Galician and the like are
#: not among them: the model reads them well enough, and they are told from Spanish only with loss.
OTHER_LANGUAGES = (
    "cs", "cy", "da", "et", "fi", "ga", "hbs", "hu", "id", "is", "lt", "lv", "ms", "nb", "nn", "pl", "ro",
    "sk", "sl", "sq", "sv", "sw", "tl", "tr",
)  # fmt: skip
_OTHER_WORDS = 2_500
#: Only the likeliest words of a known language speak for it; the others speak for none.
_CORE_WORDS = 4_000
_LATIN_TAILS = 12_000
_CJK_TAILS = 13_000
_ARABIC_WORDS = 7_000
_ARABIC_TAILS = 2_500
_LONGEST_WORD = 20
_SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~€£¥§°•–—“”„«»¿¡。、，：？！；「」（）؟،؛"


@dataclass(frozen=True)
class Rows:
    """The chosen rows. `sources` gives for each row after the special ones what the teacher is shown.

    `groups` gives the language of a word that is likely in one, else its script: the teacher moves each
    language to a place of its own, which is taken away again.
    """

    words: tuple[str, ...]
    tails: tuple[str, ...]
    sources: tuple[str | int, ...]
    groups: tuple[str, ...]
    others: tuple[str, ...]
    foreign: frozenset[str]
    known: frozenset[str]


def choose_rows(
    teacher: Teacher,
    texts: Iterable[str],
    lexicon: Mapping[str, Iterable[str]],
    stop_words: Mapping[str, Iterable[str]],
) -> Rows:
    """Rows for the training `texts`, the word forms of `lexicon` and the function words of all languages.

    `lexicon` and `stop_words` go from language code to words; languages of `stop_words` outside `lexicon` are
    those that the model does not know (but for zh, ja and ar, which it tells by their script); so are
    `OTHER_LANGUAGES` of the lexicon.
    """
    sources: dict[str, str | int] = {}
    for text in texts:
        for token in tokens_of(text):
            word = fold(token)
            if word.isalpha() and _is_latin(word) and len(word) <= _LONGEST_WORD:
                sources.setdefault(word, token)
    known: set[str] = set()
    core: set[str] = set()
    languages: dict[str, str] = {}
    for language, count in WORD_COUNTS.items():
        likeliest = _likeliest(teacher, lexicon[language], count)
        sources = {**{fold(word): word for word in likeliest}, **sources}
        known.update(map(fold, likeliest))
        known.update(fold(word) for word in stop_words[language])
        core.update(fold(word) for word in [*likeliest[:_CORE_WORDS], *stop_words[language]])
        for word in likeliest:
            languages.setdefault(fold(word), language)
    foreign = {
        fold(word)
        for language, words in stop_words.items()
        if language not in WORD_COUNTS
        for word in words
        if word.isalpha() and _is_latin(fold(word)) and len(word) > 1
    } - known
    theirs = {
        fold(word)
        for language in OTHER_LANGUAGES
        for word in _likeliest(teacher, lexicon[language], _OTHER_WORDS)
    } - known
    for word in sorted(foreign | {word for word in known if word.isalpha() and _is_latin(word)}):
        sources.setdefault(word, word)
    for letter in "abcdefghijklmnopqrstuvwxyz":
        sources.setdefault(letter, letter)
    for sign in _SIGNS:
        sources.setdefault(sign, sign)
    pieces = _pieces_by_score(teacher)
    sources.update((word, piece) for word, piece in pieces["arabic words"][:_ARABIC_WORDS])
    tails: dict[str, int] = dict(pieces["latin tails"][:_LATIN_TAILS])
    tails.update(pieces["cjk"][:_CJK_TAILS])
    tails.update(pieces["arabic tails"][:_ARABIC_TAILS])
    words, ends = sorted(sources), sorted(tails)
    shown = (*(sources[word] for word in words), *(tails[end] for end in ends))
    return Rows(
        words=tuple(words),
        tails=tuple(ends),
        sources=shown,
        groups=(*(languages.get(word) or _script(word) for word in words), *map(_script, ends)),
        others=tuple(sorted(word for word in theirs if word not in sources and len(word) > 1)),
        foreign=frozenset(foreign | (theirs & set(words))),
        known=frozenset(core & set(words)),
    )


def language_flags(rows: Rows) -> bytes:
    """One byte a row: 1 for a word of a language that the model knows, 2 for one of another, else 0.

    Kana, Han and Arabic letters count as known by their script.
    """
    vocabulary = Vocabulary(rows.words, rows.tails)
    flags = bytearray(vocabulary.size)
    for word, row in vocabulary.words.items():
        if word in rows.foreign:
            flags[row] = 2
        elif word in rows.known or _script(word) == "arabic":
            flags[row] = 1
    for tail, row in vocabulary.tails.items():
        if _script(tail) != "latin":
            flags[row] = 1
    return bytes(flags)


def _likeliest(teacher: Teacher, words: Iterable[str], count: int) -> list[str]:
    """Words that are one piece of the teacher's tokeniser or two, the likeliest first, one of each fold."""
    vocabulary, scores = teacher.vocabulary, teacher.tokens.scores
    ranked: dict[str, tuple[float, str]] = {}
    for original in words:
        word = original.lower()
        if len(word) > _LONGEST_WORD or not word.isalpha():
            continue
        marked = _SPACE + word
        whole = vocabulary.get(marked)
        best = scores[whole] if whole is not None else -1e9
        for cut in range(2, len(marked)):
            start = vocabulary.get(marked[:cut])
            end = vocabulary.get(marked[cut:]) if start is not None else None
            if start is not None and end is not None:
                best = max(best, scores[start] + scores[end])
        key = fold(word)
        if best > -1e9 and _is_latin(key) and (key not in ranked or best > ranked[key][0]):
            ranked[key] = (best, word)
    return [word for _, word in sorted(ranked.values(), reverse=True)[:count]]


def _pieces_by_score(teacher: Teacher) -> dict[str, list[tuple[str, int]]]:
    """Folded pieces with their numbers by kind, the likeliest first."""
    kinds: dict[str, dict[str, int]] = {"latin tails": {}, "cjk": {}, "arabic words": {}, "arabic tails": {}}
    order = sorted(range(len(teacher.tokens.pieces)), key=lambda place: -teacher.tokens.scores[place])
    for place in order:
        piece = teacher.tokens.pieces[place]
        starts = piece.startswith(_SPACE)
        word = fold(piece.removeprefix(_SPACE))
        script = _script(word) if word.isalpha() else "other"
        if script == "latin" and not starts:
            kinds["latin tails"].setdefault(word, place)
        elif script == "cjk" and len(word) <= 4:
            kinds["cjk"].setdefault(word, place)
        elif script == "arabic":
            kinds["arabic words" if starts else "arabic tails"].setdefault(word, place)
    return {kind: list(pieces.items()) for kind, pieces in kinds.items()}


def _is_latin(word: str) -> bool:
    return _script(word) == "latin"


def _script(word: str) -> str:
    if word.isascii():
        return "latin"
    if all("\u3005" <= letter <= "\u9fff" for letter in word):
        return "cjk"
    if all("\u0600" <= letter <= "\u06ff" for letter in word):
        return "arabic"
    return "other"
