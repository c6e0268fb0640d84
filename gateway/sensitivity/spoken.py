"""Numbers written in words, read as digits: "four five nine five", "fünf vier", "quarante-deux".

Eight languages and more share one table: the words of one language do not mean another digit in a second.
Words stand as the canonical view writes them, without accents.

Invariants
1. Only rows of `LEAST` digits and more are read, so that "one or two" stays what it is.
2. A comma, a dash or a line break between words becomes a separator; blanks join.
"""

from __future__ import annotations

import re

import re2

from gateway.sensitivity.views import View, canonical, replaced
from gateway.sensitivity.work import Work

#: Fewest digits in words in a row.
LEAST = 5

_UNITS = (
    "zero oh null zeero cero nul nulla noll nol nolla",
    "one ein eins eine un une uno um uma een ett en jeden jedna",
    "two zwei zwo deux dos due dois duas twee tva dwa dwie",
    "three drei trois tres tre drie trzy",
    "four vier quatre cuatro quattro quatro fyra cztery",
    "five funf fuenf cinq cinco cinque vijf fem piec",
    "six sechs seis sei zes sex seks szesc",
    "seven sieben sept siete sette sete zeven sju syv siedem",
    "eight acht huit ocho otto oito atta otte osiem",
    "nine neun neuf nueve nove negen nio dziewiec niner",
)
_TEENS = (
    "ten zehn dix diez dieci dez tien tio",
    "eleven elf onze once undici elva elleve",
    "twelve zwolf zwoelf douze doce dodici doze twaalf tolv",
    "thirteen dreizehn treize trece tredici treze dertien",
    "fourteen vierzehn quatorze catorce quattordici catorze veertien",
    "fifteen funfzehn fuenfzehn quinze quince quindici vijftien",
    "sixteen sechzehn seize dieciseis sedici dezesseis dezasseis zestien",
    "seventeen siebzehn dix-sept diecisiete diciassette dezessete dezassete zeventien",
    "eighteen achtzehn dix-huit dieciocho diciotto dezoito achttien",
    "nineteen neunzehn dix-neuf diecinueve diciannove dezenove dezanove negentien",
)
_TENS = (
    "twenty zwanzig vingt veinte venti vinte twintig",
    "thirty dreissig dreizig dreißig trente treinta trenta trinta dertig",
    "forty fourty vierzig quarante cuarenta quaranta quarenta veertig",
    "fifty funfzig fuenfzig cinquante cincuenta cinquanta cinquenta vijftig",
    "sixty sechzig soixante sesenta sessanta sessenta zestig",
    "seventy siebzig septante setenta settanta zeventig",
    "eighty achtzig octante huitante quatre-vingts quatre-vingt ochenta ottanta oitenta tachtig",
    "ninety neunzig nonante noventa novanta negentig",
)
_REPEAT = {
    "double": 2, "doble": 2, "doppel": 2, "doppelt": 2, "doppio": 2, "duplo": 2, "dubbel": 2,
    "triple": 3, "treble": 3, "dreifach": 3, "triplo": 3,
}  # fmt: skip


def _table() -> dict[str, str]:
    """Word → digits, with the compounds that languages write as one word."""
    units = [row.split() for row in _UNITS]
    words = {word: str(digit) for digit, row in enumerate(units) for word in row}
    words |= {word: str(10 + place) for place, row in enumerate(_TEENS) for word in row.split()}
    tens = [(str(place), row.split()) for place, row in enumerate(_TENS, 2)]
    for ten, row in tens:
        for word in row:
            words[word] = ten + "0"
            for digit in range(1, 10):
                for unit in units[digit]:
                    for compound in _compounds(word, unit):
                        words.setdefault(compound, ten + str(digit))
    for base, place in (("soixante", 6), ("quatre-vingt", 8)):
        for extra, row_words in enumerate(_TEENS):
            french = next((w for w in row_words.split() if w in _FRENCH_TEENS), None)
            if french is not None:
                for joint in ("-", " ", "-et-", " et "):
                    words[base + joint + french] = str(place * 10 + 10 + extra)
    return words


_FRENCH_TEENS = frozenset(
    {"dix", "onze", "douze", "treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf"}
)
_GERMANIC = frozenset(
    "zwanzig dreissig dreizig dreißig vierzig funfzig fuenfzig sechzig siebzig achtzig neunzig".split()  # noqa: SIM905
)
_DUTCH = frozenset("twintig dertig veertig vijftig zestig zeventig tachtig negentig".split())  # noqa: SIM905
_ROMANCE_Y = frozenset("treinta cuarenta cincuenta sesenta setenta ochenta noventa".split())  # noqa: SIM905
_ROMANCE_E = frozenset("vinte trinta quarenta cinquenta sessenta oitenta".split())  # noqa: SIM905
_ITALIAN = frozenset("venti trenta quaranta cinquanta sessanta settanta ottanta novanta".split())  # noqa: SIM905
_SPOKEN_WITH = {
    "german": frozenset("ein zwei drei vier funf fuenf sechs sieben acht neun".split()),  # noqa: SIM905
    "dutch": frozenset("een twee drie vier vijf zes zeven acht negen".split()),  # noqa: SIM905
    "spanish": frozenset("uno un dos tres cuatro cinco seis siete ocho nueve".split()),  # noqa: SIM905
    "portuguese": frozenset("um uma dois duas tres quatro cinco seis sete oito nove".split()),  # noqa: SIM905
    "italian": frozenset("uno due tre quattro cinque sei sette otto nove".split()),  # noqa: SIM905
    "french": frozenset("un une deux trois quatre cinq six sept huit neuf".split()),  # noqa: SIM905
    "english": frozenset("one two three four five six seven eight nine".split()),  # noqa: SIM905
}
_FRENCH_TENS = frozenset(
    "vingt trente quarante cinquante soixante septante octante huitante quatre-vingt nonante".split()  # noqa: SIM905
)
_ENGLISH_TENS = frozenset("twenty thirty forty fourty fifty sixty seventy eighty ninety".split())  # noqa: SIM905


def _compounds(ten: str, unit: str) -> tuple[str, ...]:
    """Ways to write ten and unit as one number, in the language that both belong to."""
    if ten in _GERMANIC and unit in _SPOKEN_WITH["german"]:
        return (f"{unit}und{ten}", f"{unit} und {ten}")
    if ten in _DUTCH and unit in _SPOKEN_WITH["dutch"]:
        return (f"{unit}en{ten}", f"{unit}-en-{ten}", f"{unit} en {ten}")
    if ten in _ENGLISH_TENS and unit in _SPOKEN_WITH["english"]:
        return (f"{ten}-{unit}", f"{ten} {unit}", f"{ten}{unit}")
    if ten in _FRENCH_TENS and unit in _SPOKEN_WITH["french"]:
        return (f"{ten}-{unit}", f"{ten} {unit}", f"{ten}-et-{unit}", f"{ten} et {unit}")
    if ten == "veinte" and unit in _SPOKEN_WITH["spanish"]:
        return (f"veinti{unit}", f"veinte y {unit}")
    if ten in _ROMANCE_Y and unit in _SPOKEN_WITH["spanish"]:
        return (f"{ten} y {unit}", f"{ten}i{unit}")
    if (ten in _ROMANCE_E or ten in {"setenta", "noventa"}) and unit in _SPOKEN_WITH["portuguese"]:
        return (f"{ten} e {unit}",)
    if ten in _ITALIAN and unit in _SPOKEN_WITH["italian"]:
        return (f"{ten[:-1] if unit in {'uno', 'otto'} else ten}{unit}",)
    return ()


_WORDS = _table()
#: Russian and Ukrainian words, as the canonical view leaves them.
for _digit, _cyrillic in enumerate(
    ("ноль нуль", "один одна", "два две дві", "три", "четыре чотири", "пять", "шесть шість", "семь сім",
     "восемь вісім", "девять")
):  # fmt: skip
    for _word in _cyrillic.split():
        _WORDS[canonical(_word).text] = str(_digit)

_PREFIX = "(?:(?:" + "|".join(
    sorted(
        {f"{unit}und" for unit in _SPOKEN_WITH["german"]}
        | {f"{unit}en" for unit in _SPOKEN_WITH["dutch"]}
        | {"veinti", "venti", "trenta", "quaranta", "cinquanta", "sessanta", "settanta", "ottanta", "novanta"}
    )
) + "))?"  # fmt: skip
_ONE = _PREFIX + "(?:" + "|".join(
    sorted({word for row in (*_UNITS, *_TEENS, *_TENS) for word in row.split() if "-" not in word and word.isascii()})  # noqa: E501
) + ")"  # fmt: skip
#: Two such words in a row: the engine's sign that there is something to read.
_BETWEEN = r"[ ,;:.\n_/-]{1,3}"
TRIGGER = rf"(?i)\b{_ONE}{_BETWEEN}(?:[0-9]{{1,4}}{_BETWEEN})?{_ONE}\b".encode()
_HITS = re2.compile(TRIGGER)
_TOKEN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*|\d+|(?:[^\w]|_)+")
_BEFORE = re.compile(r"([^\W\d_]+(?:-[^\W\d_]+)*|[0-9]{1,4})[ \t,;:./_|*-]{1,3}$")
_CYRILLIC_WORDS = [word for word in _WORDS if not word.isascii() and "?" not in word and "ß" not in word]
_CYRILLIC = re.compile(r"(?:(?:" + "|".join(_CYRILLIC_WORDS) + r")[ ,\n-]{1,2}){4,}")
_SEPARATORS = frozenset(",;:./_|*\n-")
#: Stands for a hyphen inside a word.
_JOINT = "+"
#: Tokens of one row; a longer one is cut.
_MOST_TOKENS = 400
#: Most characters between two words of a row.
_GAP = 4


def _value(words: list[str]) -> tuple[str, int] | None:
    """Digits of the longest number that the words begin with, and how many words it takes."""
    for count in (3, 2, 1):
        if count <= len(words):
            digits = _WORDS.get(" ".join(words[:count]).lower())
            if digits is not None:
                return digits, count
    return None


def _begin(text: str, start: int) -> int:
    """Where the row that holds the word at `start` begins: words, digits and single letters before it."""
    for _ in range(40):
        match = _BEFORE.search(text, max(0, start - 24), start)
        if match is None:
            break
        word = match[1].lower()
        if not (_is_word(word) or word.isdigit() or len(word) == 1):
            break
        start = match.start()
    return start


def _tokens(text: str, start: int) -> tuple[list[str], list[tuple[int, int]]]:
    """Tokens from `start` to the end of what may be one row, with their places."""
    words: list[str] = []
    places: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if len(words) > _MOST_TOKENS:
            break
        if not token[0].isalnum():
            if len(token) > _GAP:
                break
        elif not (token.isdigit() and len(token) < 5) and len(token) > 1 and not _is_word(token.lower()):
            break
        # Hyphens inside a word join (`five-one-three`), those between words set apart.
        whole = token.lower() in _WORDS or not token[0].isalpha()
        parts = [token] if whole else re.sub("-", " - ", token).split(" ")
        parts = [_JOINT if part == "-" else part for part in parts]
        at = match.start()
        for part in parts:
            words.append(part)
            places.append((at, at + len(part)))
            at += 1 if part == _JOINT else len(part)
    return words, places


def _is_word(token: str) -> bool:
    return token in _LINKS or token in _WORDS or all(
        part in _WORDS or part in _REPEAT or part in _LINKS for part in token.split("-")
    )  # fmt: skip


_LINKS = frozenset({"und", "en", "et", "y", "e", "and"}) | frozenset(_REPEAT)


def _read(text: str, start: int) -> tuple[int, str] | None:
    """End and digits of the row that begins at `start`, or None when too few words are numbers."""
    words, places = _tokens(text, start)
    pieces: list[str] = []
    count, end, repeat, index = 0, start, 1, 0
    while index < len(words):
        word = words[index]
        lower = word.lower()
        phrase = list(words[index : index + 5 : 2]) if word[0].isalpha() else [word]
        if not all(gap == " " for gap in words[index + 1 : index + 5 : 2]):
            phrase = phrase[: 2 if words[index + 1 : index + 2] == [" "] else 1]
        found = _value(phrase) if word[0].isalpha() else None
        if found is not None:
            pieces.append(found[0] * repeat)
            count, repeat = count + len(pieces[-1]), 1
            index += 2 * found[1] - 1
            end = places[index - 1][1]
        elif lower in _REPEAT:
            repeat, index = _REPEAT[lower], index + 1
        elif word.isdigit() or (word.isalpha() and len(word) == 1):
            pieces.append(word.upper() * repeat)
            repeat, index = 1, index + 1
            end = places[index - 1][1]
        else:
            sign = next((sign for sign in word if sign in _SEPARATORS), "")
            if sign and pieces and pieces[-1] not in {" ", "-"}:
                pieces.append("-" if sign == "-" else " ")
            index += 1
    if count < LEAST:
        return None
    # One letter before the digits is a word of the sentence ("a seis cero"), two begin an IBAN.
    letters = next((place for place, piece in enumerate(pieces) if not piece.isalpha()), 0)
    return end, "".join(pieces[letters:] if letters == 1 else pieces).strip(" -")


def in_digits(view: View, work: Work) -> View | None:
    """The view with rows of number words in digits, or None when it has none."""
    text = view.text
    pieces: list[tuple[int, int, str]] = []
    behind = 0
    starts = [match.start() for match in _HITS.finditer(view.data)]
    if not text.isascii() and sum(word in text for word in _CYRILLIC_WORDS) > 3:
        starts = sorted(starts + [match.start() for match in _CYRILLIC.finditer(text)])
    for hit in starts:
        if hit < behind:
            continue
        start = max(behind, _begin(text, hit))
        row = _read(text, start)
        work.spend(2 + (row[0] - start >> 1 if row else 0))
        if row is None:
            behind = hit + 1
            continue
        behind = row[0]
        pieces.append((start, *row))
    return replaced(view, "number-words", pieces) if pieces else None


_CYRILLIC_SIGNS = ("один", "два", "три", "четыре", "пять", "шесть", "чотири", "сім", "девять")


def cyrillic_digits(text: str) -> View | None:
    """The text with rows of Russian or Ukrainian number words in digits, or None without any.

    The engine's trigger knows ASCII words only, so this one is asked for every text that is not ASCII.
    """
    lower = text.lower() if "и" in text or "И" in text else ""
    if sum(word in lower for word in _CYRILLIC_SIGNS) < 3:
        return None
    return in_digits(canonical(lower if len(lower) == len(text) else text), Work())


_HAN = {
    "零": "0", "〇": "0", "○": "0", "공": "0", "영": "0", "一": "1", "壹": "1", "幺": "1", "일": "1",
    "二": "2", "贰": "2", "貳": "2", "两": "2", "이": "2", "三": "3", "叁": "3", "參": "3", "삼": "3",
    "四": "4", "肆": "4", "사": "4", "五": "5", "伍": "5", "오": "5", "六": "6", "陆": "6", "陸": "6",
    "륙": "6", "육": "6", "七": "7", "柒": "7", "칠": "7", "八": "8", "捌": "8", "팔": "8", "九": "9",
    "玖": "9", "구": "9",
}  # fmt: skip
_HAN_TABLE = {ord(sign): digit for sign, digit in _HAN.items()}
_HAN_ROW = re.compile("[" + "".join(_HAN) + "](?:[ \u3000、，,-]?[" + "".join(_HAN) + "]){6,}")


def han_digits(text: str) -> View | None:
    """The text with rows of Chinese, Japanese or Korean number signs in digits, or None without any."""
    if sum(sign in text for sign in _HAN) < 3:
        return None
    pieces = [(*match.span(), match[0].translate(_HAN_TABLE)) for match in _HAN_ROW.finditer(text)]
    if not pieces:
        return None
    inner = replaced(View(text, "han-digits", None), "han-digits", pieces)
    return canonical(inner.text, "han-digits", inner)
