"""What prose looks like, character by character, and what no longer does.

Every question here is answered from the text to the left alone (and, in `joins`, a bounded look to the
right that waits until it is there), so the answers cannot depend on how an answer was cut.

Invariants
1. `first_trigger` at a position depends on at most `LEFT` characters before it.
2. `is_plain` is a fast "certainly no trigger": whatever it accepts, `first_trigger` finds nothing in.
3. A digit of any script, `@`, a joined `_` or `=`, and a hidden character always trigger.
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum

#: Characters of released text that decisions and scans may look back on.
LEFT = 112
#: Of these, the last ones keep their digits in a scan: no identifier reaches over so wide a gap.
NEAR = 24

_SPACE = r" \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# Drawn as nothing: they can hide inside a key without a reader seeing them.
_HIDDEN = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
# The tag characters among them can spell whole texts by themselves.
_TAGS = r"\U000e0000-\U000e0fff"
# Characters that compatibility folding turns into ASCII letters, digits or signs.
_COMPATIBLE = (
    r"\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209f\u2102\u210a-\u2115\u2119-\u211d\u2124\u2128-\u213f"
    r"\u2145-\u2149\u2150-\u218f\u2460-\u24ff\u2776-\u2793\ufe50-\ufe6b\uff02-\uff07\uff0a\uff0b\uff0d\uff0f"
    r"\uff10-\uff19\uff1c-\uff1e\uff20-\uff3a\uff3c\uff3e-\uff5a\U0001d400-\U0001d7ff\U0001f100-\U0001f169"
)
# Scripts written without spaces between words: a number ends where they begin.
_UNSPACED = (
    r"\u3001-\u303f\u3041-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01\uff08\uff09\uff0c\uff0e\uff1a\uff1b\uff1f"
)
_ENDS = rf"\"'`<>{{}}\[\]|,;{_UNSPACED}"

#: End of a token: a separator that a written identifier may have inside, or an end for certain.
BREAK = re.compile(rf"[{_SPACE}(){_ENDS}]")
#: The same in JSON text, where an escape is one unbreakable thing.
JSON_BREAK = re.compile(rf"\\(?:.|\Z)|[{_SPACE}(){_ENDS}]", re.DOTALL)
_SEPARATOR = re.compile(rf"[{_SPACE}()]")
_SEPARATORS = re.compile(
    rf"(?:[{_HIDDEN}]{{0,8}}[{_SPACE}()\-./_\u2010-\u2015\u00b7]){{1,4}}[{_HIDDEN}]{{0,8}}"
)
_BEFORE_TOKEN = re.compile(rf".*[{_SPACE}(){_ENDS}]", re.DOTALL)

# A value may begin behind these: a sign that assigns, or "is", with a space or a quote between or not, an
# opening quote.
_BEFORE_VALUE = (
    r"[:=*][ \t]", r"[:=][\"'`]", r"[:=][ \t][\"'`]", r" is ", r" [\"'`]", r"earer ", r"asic ", r"sword[ \t]",
)  # fmt: skip
_NOT_VALUE = "".join(f"(?<!{form})" for form in _BEFORE_VALUE)
_PLAIN_PARTS = (
    rf"(?<![.:\-!?$%^~#+])(?<!\.[A-Za-z]){_NOT_VALUE}[a-z]++"
    r"(?:(?<! is)(?<!earer)(?<!asic)(?<!sword) [a-z]++)*+"
    rf"|(?<![!-~]){_NOT_VALUE}[A-Z]{{1,4}}+"
    r"|(?<![\[({<][aA][tT])(?<![\[({<] [aA][tT])[ \n\t,;!?'\"()*\[\]{}|<`&$%#^~]++"
    r"|[.:](?![A-Za-z])"
    r"|(?<!:)/"
    # Every other script, but for what reads as ASCII or is not seen.
    rf"|[^\x00-\x7f\d{_COMPATIBLE}{_HIDDEN}]++"
)
_PLAIN = re.compile(rf"(?:{_PLAIN_PARTS}|-(?![A-Za-z]))*+")
_JSON_PLAIN = re.compile(rf"(?:{_PLAIN_PARTS})*+")

_TRIGGERS = (
    rf"[\d@\\{_COMPATIBLE}{_TAGS}]"
    rf"|[{_HIDDEN}](?<=[!-~][{_HIDDEN}])"
    r"|[_=](?<=[A-Za-z0-9\"')\]}][_=])"
    r"|\+(?<![A-Za-z0-9+]\+)"
    r"|/(?<=:/)"
    r"|B(?<=-----B)"
    r"|[\])}>](?<=[\[({<][aA][tT][\])}>])| (?<=[\[({<] [aA][tT] )"
    r"|[A-Za-z](?:(?<=[A-Za-z0-9][.:\-!?$%^~#+][A-Za-z])|(?<=[A-Za-z0-9]\.[A-Za-z]{2})"
    + "".join(f"|(?<={form}[A-Za-z])" for form in _BEFORE_VALUE)
    + r")|[A-Z](?:(?<=[a-z][A-Z])|(?<=[A-Z]{5})|(?<=[A-Za-z]{33}))"
)
_TRIGGER = re.compile(_TRIGGERS)
# In JSON a minus sign may begin a number, and a mask has to take the place of all of it.
_JSON_TRIGGER = re.compile(_TRIGGERS + rf"|-(?<=[:,\[{_SPACE}]-)")

_ABBREVIATION = re.compile(r"(?<![A-Za-z0-9.])(?:[A-Za-z]\.)+[A-Za-z]\Z")
_JOINED = re.compile(r"[A-Za-z0-9](?:[:!?$%^~#+][A-Za-z]|\.[A-Za-z]{2})\Z")
_KEY_DASH = re.compile(
    r"(?<![A-Za-z0-9])(?:[spr]k|gl[a-z]{2,5}|xox[a-z]|xapp|pypi|pat|sq0[a-z]{3}|GOCSPX|KEY|xai|pplx|nvapi|xkeysib"
    r"|NR(?:AK|II|JS)|PMAK|CFPAT|HRKU)-.\Z"
)
_KEY_CAPITALS = re.compile(r"(?<![A-Za-z0-9])(?:A[A-Z]IA|ABIA|ACCA|AROA|AIDA|LTAI).\Z")
_CASE_CHANGES = re.compile(r"(?<![A-Za-z0-9])eyJ\Z|[a-z][A-Z][A-Za-z]*[a-z][A-Z]\Z|[A-Za-z]{33}\Z")
# A word that says password or key, and a value directly behind it. The stems are looked for first: most
# sentences have none, and the expression is 50 times slower than all of them.
NAMING = (
    "passw", "kennwort", "passphrase", "passcode", "pwd", "secret", "token", "credential", "de passe",
    "senha", "contrase", "wachtwoord", "key", "bearer", "basic",
    "login",
)  # fmt: skip
_NAMED_VALUE = re.compile(
    r"(?i)(?:(?:passw(?:or)?d|passwort|kennwort|passphrase|passcode|pwd|secret|token|credentials?|de passe"
    r"|senha|contrase(?:n|\u00f1)a|wachtwoord"
    r"|(?:api|access|secret|private|account|signing|encryption)[_ -]?key)"
    r"(?:[_-]?[0-9])?[*\"'`]{0,3}[ \t]?(?::=|=>|[:=]|is)[*]{0,2}[ \t]?|bearer "
    r"|login[ \t]\S{1,40}[ \t]password[ \t]"
    r"|key-file-[23]: "
    r"|authorization[\"'`]?[:=] ?[\"'`]?basic )[\"'`]?[A-Za-z]\Z"
)
# Words after which a sentence tells a password, and one in quotes directly behind.
_SPOKEN = (
    "passw", "passphrase", "passcode", "passor", "kennwort", "contrase", "clave", "de passe", "mdp", "senha",
    "avra-passe", "wachtwoord", "parola", "has\u0142o", "haslo", "senord", "adgangskode", "salasana", "pwd",
    "login", "credential",
)  # fmt: skip
_QUOTED_VALUE = re.compile(
    r"[^\W\d_](?:[ :=]|\b(?:is|was|ist|lautet|war|est|es|e'?|of)\b){1,9}[\"'`][A-Za-z]\Z"
)
#: How far behind such a word a password may stand.
_SPOKEN_WITHIN = 96
_QUOTES = frozenset("\"'`")
_QUOTES_AND_BLANKS = _QUOTES | frozenset(" \t")


def is_plain(raw: str, start: int, is_json: bool) -> bool:
    """Whether everything from `start` on is certainly prose, given what stands before it in `raw`."""
    match = (_JSON_PLAIN if is_json else _PLAIN).match(raw, start)
    return match is not None and match.end() == len(raw)


def first_trigger(raw: str, start: int, is_json: bool) -> int:
    """Index of the first character from `start` on that prose would not have there, or -1."""
    plain, candidate = (_JSON_PLAIN.match, _JSON_TRIGGER.match) if is_json else (_PLAIN.match, _TRIGGER.match)
    size = len(raw)
    while start < size:
        if (match := plain(raw, start)) is not None:
            start = match.end()
        if start < size and candidate(raw, start) is not None and _is_trigger(raw, start):
            return start
        start += 1
    return -1


def _is_trigger(raw: str, at: int) -> bool:
    """Settle the candidates that need more than a fixed look back: letters."""
    letter = raw[at]
    if not (letter.isascii() and letter.isalpha()):
        return True
    left = raw[max(0, at - 47) : at + 1]
    before = left[-2:-1]
    if before == "-":
        return left.endswith("-----B") or _KEY_DASH.search(left) is not None
    if before == ".":
        return _ABBREVIATION.search(left) is None
    if before not in _QUOTES_AND_BLANKS:
        shapes = (_JOINED, _CASE_CHANGES, _KEY_CAPITALS) if letter.isupper() else (_JOINED,)
        if any(shape.search(left) is not None for shape in shapes):
            return True
        return letter.isupper() and before.islower() and tells(raw[max(0, at - _SPOKEN_WITHIN) : at], _SPOKEN)
    if tells(left, NAMING) and _NAMED_VALUE.search(left) is not None:
        return True
    return before in _QUOTES and _QUOTED_VALUE.search(left) is not None and tells(left, _SPOKEN)


def tells(left: str, stems: tuple[str, ...]) -> bool:
    """Whether one of these stems stands in `left`."""
    lower = left.lower()
    return any(stem in lower for stem in stems)


def token_before(raw: str) -> str:
    """The unfinished token at the end of `raw`, at most 64 characters of it."""
    tail = raw[-64:]
    match = _BEFORE_TOKEN.match(tail)
    return tail[match.end() :] if match else tail


_HIDDEN_RUN = re.compile(rf"[{_HIDDEN}]+")
_DASH = re.compile(r"[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")


def fold(text: str) -> str:
    """`text` as it reads: hidden characters gone, compatible forms and dashes in ASCII."""
    if text.isascii():
        return _HIDDEN_RUN.sub("", text)
    return unicodedata.normalize("NFKC", _DASH.sub("-", _HIDDEN_RUN.sub("", text)))


class Joint(Enum):
    """What a separator inside held text is."""

    JOINS = "joins"
    ENDS = "ends"
    WAITS = "waits"


_PEM_BEGUN = re.compile(r"-----BEGIN(?: [A-Z0-9]+)*\Z")
_PEM_HEADER = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
#: End of a PEM block, or of a private key as PuTTY writes it. At most 54 characters, so a look back of `LEFT`
#: sees all of it.
PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}-----|Private-MAC:")
#: What stands before the body of a private key as PuTTY writes it.
PUTTY_BODY = re.compile(r"Private-Lines: ?\Z")
#: Characters behind the header of a private key within which its body begins (RFC 1421 headers between).
PEM_BODY_WITHIN = 400
_PEM_BODY = re.compile(r"[A-Za-z0-9+/=]{16,}")
_IBAN_OPEN = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Za-z]{2}|[A-Z][ ._-]?[A-Z][ ._:/-]{0,2})\d[ ._-]?\d"
    r"(?:[ \t\r\n._/-]{0,3}[A-Za-z0-9]{4}){0,7}\Z"
)
_MAIL_OPEN = re.compile(
    r"[\[({<] ?at ?(?:[\])}>] ?[A-Za-z0-9-]* ?(?:[\[({<] ?[A-Za-z]{0,7} ?)?)*\Z", re.IGNORECASE
)
# A password in a URL that may go on behind a bracket or a comma, which its host will tell: not a port.
_URL_OPEN = re.compile(r"://[^\s:/@\"'<>?#]*:(?!\d{1,5}(?!\w))[^\s@\"'<>/]+\Z")
_DIGITS_OPEN = re.compile(r"(?<![A-Za-z0-9])[0-9A-Z]*\d[0-9A-Z]*[)./\-]*\Z")


_ENDS_URL = frozenset("\"'`<>")


def is_open_url(lead: str) -> bool:
    """Whether the folded text ends in a URL that may turn out to hold a password."""
    return _URL_OPEN.search(lead) is not None


def joint(lead: str, text: str, at: int) -> tuple[Joint, int]:
    """What the break at `text[at]` is, and where to go on when it joins.

    `lead` is the folded token run before it. Looks at most five separators and two characters ahead,
    and waits when they are not there yet.
    """
    if _MAIL_OPEN.search(lead + text[at]) is not None:
        return Joint.JOINS, at + 1
    if text[at] not in _ENDS_URL and not text[at].isspace() and _URL_OPEN.search(lead) is not None:
        return Joint.JOINS, at + 1
    if not _SEPARATOR.match(text, at):
        return Joint.ENDS, at
    is_pem = _PEM_BEGUN.search(lead) is not None
    is_iban = _IBAN_OPEN.search(lead) is not None
    if not (is_pem or is_iban or _DIGITS_OPEN.search(lead)):
        return Joint.ENDS, at
    run = _SEPARATORS.match(text, at)
    end = at + 1 if run is None else run.end()
    if end - at > 3 and len(fold(text[at:end])) > 3:
        return Joint.ENDS, at
    if end == len(text):
        return Joint.WAITS, at
    return _after_separators(text, at, end, is_pem, is_iban)


def _after_separators(text: str, at: int, end: int, is_pem: bool, is_iban: bool) -> tuple[Joint, int]:
    following = fold(text[end])[:1]
    if following.isdigit() or following in {"+", "\\"}:
        return Joint.JOINS, end
    if not (following.isascii() and following.isalpha()):
        return Joint.ENDS, at
    if is_iban:
        return Joint.JOINS, end
    if following.islower() or len(fold(text[at:end])) != 1:
        return Joint.ENDS, at
    if is_pem:
        return Joint.JOINS, end
    # One capital alone may be the last part of an identifier ("12 34 56 C"); a word is not.
    if end + 1 == len(text):
        return Joint.WAITS, at
    return (Joint.ENDS, at) if text[end + 1].isalpha() else (Joint.JOINS, end + 1)


def pem_header_end(lead: str) -> int:
    """Index behind the header of a PEM private key in the folded text, or -1."""
    match = _PEM_HEADER.search(lead)
    return -1 if match is None else match.end()


def is_pem_body(lead: str) -> bool:
    """Whether the folded text holds a line of a key: base64, too mixed for a word or a path."""
    for match in _PEM_BODY.finditer(lead):
        line = match[0]
        if line.upper() != line != line.lower() and (len(line) >= 32 or any(map(str.isdigit, line))):
            return True
    return False


_LONG_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:eyJ|sk-|pk-|rk-|[spr]k_|gh[a-z]_|github_pat_|gl[a-z]{2,4}-|xox[a-z]-|xapp-|AIza|ya29\.|EAA|hf_"
    r"|npm_|pypi-|dop_v1_|shp[a-z]{2}_|SG\.|hvs\.|AKIA|ASIA)[A-Za-z0-9_\-.+/=%]{60,}\Z"
)


def is_long_key(lead: str) -> bool:
    """Whether the folded token begins like a key or token and goes on as one to its end."""
    return _LONG_KEY.search(lead) is not None


_ALNUM_HEX = r"(?:3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa])"
_NEEDLESS_ESCAPE = re.compile(
    rf"(?:\\u00|\\x|%|&#[xX]0{{0,4}}){_ALNUM_HEX}|&#0{{0,4}}(?:4[89]|5[0-7]|6[5-9]|[78]\d|9[07-9]|1[01]\d|12[0-2])\b"
)
#: Letters and digits written as escapes in one token: more is not an accident.
_NEEDLESS_ESCAPES = 8


def hides_in_escapes(held: str) -> bool:
    """Whether letters and digits, which need no escape, are written as escapes throughout the held text."""
    return len(_NEEDLESS_ESCAPE.findall(held)) >= _NEEDLESS_ESCAPES
