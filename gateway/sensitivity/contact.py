"""What reaches or places a person: mail addresses, telephone numbers, postal addresses, births, devices.

Telephone numbers are known by a calling code, by the form of a region, or by a word beside them. Sources:
ITU-T E.164 and E.123, the regulators' numbering plans, RFC 5321, RFC 2606, RFC 6761, IANA special-purpose
address registries.
"""

from __future__ import annotations

import ipaddress
import re

from gateway.domain.label import Tag
from gateway.sensitivity import numbers
from gateway.sensitivity.digits import NearWords, NumberRow
from gateway.sensitivity.identifiers import PHONE_WORDS
from gateway.sensitivity.rule import Rule, Spans, confidential, is_word_byte
from gateway.sensitivity.views import CONTEXT_BEFORE, View

# --- Mail ----------------------------------------------------------------------------------------------

EMAIL = rb"[A-Za-z0-9._%+'-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
_AT = rb"(?:at|aet|a|arroba|arobase|chez|chiocciola|klammeraffe|apenstaartje|malpa|snabel-?a|@)"
_DOT = rb"(?:dot|punkt|punto|point|ponto|punt|kropka|prikk|d|\.)"
#: `name (at) host (dot) org`, in brackets of any kind, in a few languages.
EMAIL_IN_WORDS = (
    rb"(?i)[a-z0-9._%+-]+ ?[\[({<] ?" + _AT + rb" ?[\])}>] ?[a-z0-9-]+"
    rb"(?: ?[\[({<]? ?" + _DOT + rb" ?[\])}>]? ?[a-z0-9-]+)+"
)
_TLD = (
    rb"(?:com|org|net|edu|gov|io|info|biz|co|ai|app|dev|eu|de|at|ch|fr|es|it|pt|nl|be|uk|ie|se|no|dk|fi"
    rb"|pl|cz|us|ca"
    rb"|br|mx|ar|in|jp|cn|au|nz|za|ru|gr|tr|hu|ro|lu)"
)
_SPOKEN_DOT = rb" ?[\[({<]? ?\b(?:dot|punkt|punto|point|ponto|punt|kropka)\b ?[\])}>]? ?"
#: The same without brackets, up to a known top-level domain.
EMAIL_SPOKEN = (
    rb"(?i)\b[a-z0-9]+(?:(?:[._+-]| (?:dot|punkt|punto|point|ponto|punt|underscore|bindestrich|guion"
    rb"|tiret) )[a-z0-9]+)*"
    rb" (?:at|arroba|arobase|chiocciola|klammeraffe|apenstaartje|malpa) [a-z0-9-]+"
    rb"(?:" + _SPOKEN_DOT + rb"[a-z0-9-]+)*" + _SPOKEN_DOT + _TLD + rb"\b"
)
#: With underscores or stars around its words.
EMAIL_JOINED = (
    rb"(?i)\b[a-z0-9.+-]+[_*|-]+at[_*|-]+[a-z0-9-]+?(?:[_*|.-]+dot[_*|.-]+[a-z0-9]+?)*[_*|-]+dot[_*|-]+"
    + _TLD
    + rb"\b"
)
#: With blanks around its signs.
EMAIL_SPACED = rb"(?i)\b[a-z0-9._%+-]+(?: @ ?|@ )[a-z0-9-]+(?: ?\. ?[a-z0-9-]+)* ?\. ?" + _TLD + rb"\b"
#: Source: RFC 2606, RFC 6761, RFC 9476.
_RESERVED_DOMAIN = re.compile(
    rb"(?i)(?:^|\.)(?:example(?:\.(?:com|net|org|edu))?|test|invalid|localhost|alt|local)$"
)
_FILE_NAME = re.compile(
    rb"(?i)\.(?:png|jpe?g|gif|svg|webp|ico|css|s?js|tsx?|py|rb|go|rs|md|html?|json|ya?ml)$"
)


def email_addresses(view: View, start: int, end: int) -> Spans:
    """A mail address, unless its domain is reserved for documentation or it is a file or a git remote."""
    found = view.data[start:end]
    local, _, domain = found.rpartition(b"@")
    last = domain.rsplit(b".", 1)[-1]
    if not last.isalpha() or len(last) < 2:
        return
    if _RESERVED_DOMAIN.search(domain) or _FILE_NAME.search(domain):
        return
    if local == b"git" and view.data[end : end + 1] in {b":", b"/"}:
        return
    yield start, end


_RESERVED_SPOKEN = re.compile(rb"(?i)\bexample\b|\blocalhost\b")


def written_out_email(view: View, start: int, end: int) -> Spans:
    """A mail address with its signs in words: the brackets, or the domain, are proof enough."""
    found = view.data[start:end]
    if _PROSE.match(found) is not None:
        return
    if _RESERVED_SPOKEN.search(found) is None and found[:1] not in b"[({<_*|":
        yield start, end


_PROSE = re.compile(
    rb"(?i)(?:look|meet|available|found|visit|us|me|is|are|it|but|and|or|was|only|not) at |\S+ at (?:this|that|the|which|some"  # noqa: E501
    rb"|any|a|an|one|every|no|each|least|most|all) "
)

# --- Telephone -----------------------------------------------------------------------------------------

#: Country calling codes. Source: ITU-T E.164 list of assigned codes.
_CALLING_CODES = frozenset(
    (  # noqa: SIM905
        "1 7 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 "
        "66 81 82 84 86 90 91 92 93 94 95 98 211 212 213 216 218 220 221 222 223 224 225 226 227 228 229 230 "
        "231 232 233 234 235 236 237 238 239 240 241 242 243 244 245 246 247 248 249 250 251 252 253 254 255 "
        "256 257 258 260 261 262 263 264 265 266 267 268 269 290 291 297 298 299 350 351 352 353 354 355 356 "
        "357 358 359 370 371 372 373 374 375 376 377 378 380 381 382 383 385 386 387 389 420 421 423 500 501 "
        "502 503 504 505 506 507 508 509 590 591 592 593 594 595 596 597 598 599 670 672 673 674 675 676 677 "
        "678 679 680 681 682 683 685 686 687 688 689 690 691 692 800 808 850 852 853 855 856 870 878 880 881 "
        "882 883 886 888 960 961 962 963 964 965 966 967 968 970 971 972 973 974 975 976 977 979 992 993 994 "
        "995 996 998 "
    ).split()
)
INTERNATIONAL_PHONE = rb"(?:\+|\b00)[ ]?[1-9](?:[ \t.()/_-]{0,3}[0-9]){6,}"
BRACKETED_PHONE = rb"\(0?[0-9]{2,5}\)[ ]?[0-9](?:[ ./-]{0,2}[0-9]){4,}"
#: A word and a number directly behind it; group 1 is the number.
PHONE_AFTER_WORD = (
    rb"(?i)(?:phone|telephone|tel|mobile|cell|fax|desk|office|telefono?|telefone|handy|mobil|movil"
    rb"|portable|celular"
    rb"|telefon|telefonnummer|rufnummer|handynummer|mobilnummer|telemovel|cellulare|telefoon"
    rb"|telefoonnummer|gsm"
    rb"|(?:call|ring|text|reach|phone|contact) (?:me|us|him|her|them|back)|call me|erreichen sie mich"
    rb"|erreichbar|appelez[- ](?:moi|nous)|joindre|llam(?:e|ar|a)me|chiamami|ligue(?:-me)?|bel me|answering"
    rb"|messages to|whatsapp|registered)"
    rb"(?:[ _-]?(?:no|nr|num|number))?\.?[\"']?[ \t]*(?:is|at|on|under|ist|lautet|unter|est|au|es|al|e"
    rb"|op|[:=#])?"
    rb"[ \t]*\r?\n?[\"' ]{0,3}([+(]?[0-9](?:[ ().x/-]{0,2}[0-9]){5,})"
)
#: A number and a word directly behind it, as on business cards; group 1 is the number.
PHONE_BEFORE_WORD = (
    rb"(?i)(?:^|[\n;,])[ \t]*([+(]?[0-9](?:[ ().x/-]{0,2}[0-9]){5,})[ \t-]*(?:\(?(?:office|mobile|fax"
    rb"|cell|home"
    rb"|phone|mobil|tel|direct|work|buro|portable|movil|cellulare)\)?)(?:$|[^a-z])"
)
_DATE = re.compile(
    r"(?:19|20)\d\d[-/. ](?:0[1-9]|1[0-2])[-/. ][0-3]\d|[0-3]?\d[-/. ][01]?\d[-/. ](?:19"
    r"|20)\d\d\b"
)
#: Forms that are telephone numbers without a word, by region.
NATIONAL_FORMS: dict[str, str] = {
    "fr": r"0[1-9](?:([ .-])\d\d)(?:\1\d\d){3}",
    "nanp": r"[2-9]\d\d([-.])[2-9]\d\d\2\d{4}|1([-.])[2-9]\d\d\3[2-9]\d\d\3\d{4}",
    "gb": r"07\d{3} \d{6}|07\d{3} \d{3} \d{3}|020 [378]\d{3} \d{4}|01\d{3} \d{6}|01\d1 \d{3} \d{4}",
    "de": r"0\d{2,4}/\d{5,9}|01[567]\d[ -]\d{7,8}|0\d{2,4} ?/ ?\d{2,4}(?:[ -]\d{2,4}){1,3}",
    "nl": r"06[- ]\d{8}|06[- ]\d{4} \d{4}|06(?:[- ]\d\d){4}|0[1-57]\d-\d{7}|0[1-57]\d\d-\d{6}",
    "be": r"04\d\d[ /]\d\d[ .]\d\d[ .]\d\d",
    "ch": r"0\d\d \d{3} \d\d \d\d",
    "se": r"07\d-\d{3} ?\d\d ?\d\d|08-\d{3} \d{3} \d\d",
    "au": r"04\d\d \d{3} \d{3}|0[2378] \d{4} \d{4}",
    "za": r"0[678]\d \d{3} \d{4}",
    "jp": r"0[5789]0-\d{4}-\d{4}|0[1-9]\d?-\d{3,4}-\d{4}",
    "kr": r"01\d-\d{3,4}-\d{4}|02-\d{3,4}-\d{4}",
    "cn": r"1[3-9]\d([ -])\d{4}\4\d{4}",
    "ru": r"8([ -])9\d\d\5\d{3}([ -])\d\d\6\d\d",
    "in": r"0?[6-9]\d{4}[ -]\d{5}",
}
_NATIONAL_FORMS = re.compile("|".join(NATIONAL_FORMS.values()))


def _digits(view: View, start: int, end: int) -> str:
    return "".join(filter(str.isdigit, view.text[start:end]))


_NEAR_PHONE = NearWords([PHONE_WORDS])


def international_phones(view: View, start: int, end: int) -> Spans:
    """`+` or `00`, an assigned calling code, 8 to 15 digits in all."""
    digits = _digits(view, start, end)
    if view.data[start : start + 1] != b"+":
        digits = digits[2:]
        if not re.search(r"[ ()/-]", view.text[start:end]) and not _NEAR_PHONE.near(
            view.text[max(0, start - CONTEXT_BEFORE) : start]
        ):
            return
    elif is_word_byte(view.data, start - 1):
        return
    if 8 <= len(digits) <= 15 and any(digits[:size] in _CALLING_CODES for size in (1, 2, 3)):
        yield start, end


def bracketed_phones(view: View, start: int, end: int) -> Spans:
    """An area code in brackets and a subscriber's number."""
    if 9 <= len(_digits(view, start, end)) <= 13 and not is_word_byte(view.data, start - 1):
        yield start, end


def named_phones(view: View, start: int, end: int) -> Spans:
    """Six to fifteen digits directly beside a word that says telephone."""
    if 6 <= len(_digits(view, start, end)) <= 15 and _DATE.match(view.text, start) is None:
        yield start, end


def _is_no_date(window: numbers.Window) -> bool:
    return (
        len(window.sizes) <= 6
        and not numbers.touches_letters(window)
        and numbers.stands_alone(window)
        and _DATE.match(window.run.view.text, window.start) is None
    )


def _has_national_form(window: numbers.Window) -> bool:
    return _NATIONAL_FORMS.fullmatch(window.run.view.text[window.start : window.end]) is not None


_SHAPES = frozenset(
    {
        (2, 2, 2, 2, 2), (3, 3, 4), (1, 3, 3, 4), (5, 6), (5, 3, 3), (3, 4, 4), (3, 5), (3, 6), (3, 7), (3, 8),  # noqa: E501
        (4, 5), (4, 6), (4, 7), (4, 8), (5, 5), (2, 8), (2, 4, 4), (4, 2, 2, 2), (3, 3, 2, 2), (3, 7),
        (2, 3, 3, 2), (4, 3, 3), (3, 3, 4), (3, 4, 4), (2, 3, 4), (1, 3, 3, 2, 2), (3, 9), (4, 9), (5, 7),
        (3, 2, 2, 2), (3, 2, 2, 2, 2), (4, 2, 2, 3), (3, 3, 3), (3, 3, 3, 2), (3, 2, 3, 2), (4, 3, 2, 2),
        (4, 4, 4), (3, 4, 2), (4, 3, 4), (6, 5), (5, 4), (4, 4, 3),
    }
)  # fmt: skip
#: A national number: by the form of its region alone, or with 9 to 12 digits and a word beside it.
NATIONAL_PHONES = NumberRow(
    frozenset(range(9, 13)),
    lambda _digits: True,
    PHONE_WORDS,
    _has_national_form,
    shapes=_SHAPES,
    fits=_is_no_date,
)

# --- Devices -------------------------------------------------------------------------------------------

IPV4 = rb"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b"
IPV6 = rb"(?i)\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b|\b(?:[0-9a-f]{1,4}:){2,6}:[0-9a-f:]{1,19}"
MAC = rb"(?i)\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b|\b[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}\b"
#: Resolvers that everybody names. Source: their operators' documentation.
_KNOWN_ADDRESSES = frozenset(
    {
        "8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9", "149.112.112.112", "208.67.222.222",
        "208.67.220.220", "2001:4860:4860::8888", "2606:4700:4700::1111",
    }
)  # fmt: skip
_VERSION = re.compile(
    r"(?i)(?:\bv|version|release|ver\.?|build|==|>=|~=|python|chrome|oid|section"
    r"|chapter|§)[ :=/]{0,2}$"
)


#: Beginnings of IPv4 addresses that are not global, whatever follows. Source: RFC 6890.
_NOT_GLOBAL = ("0.", "10.", "127.", "169.254.", "192.168.", *(f"172.{second}." for second in range(16, 32)))


def ip_addresses(view: View, start: int, end: int) -> Spans:
    """A public address. Private, documentation and reserved ones, and version numbers, are none."""
    found = view.text[start:end]
    if found in _KNOWN_ADDRESSES or _VERSION.search(view.text, max(0, start - 14), start):
        return
    if view.data[start - 1 : start] in {b".", b"-"} or (
        view.data[end : end + 2].startswith((b".", b"-")) and (view.data[end + 1 : end + 2].isdigit())
    ):
        return
    if found.startswith(_NOT_GLOBAL):
        return  # by far the most frequent ones in logs, told without the parser
    try:
        address = ipaddress.ip_address(found)
    except ValueError:
        return
    if address.is_global and not address.is_multicast and int(address) & 0xFFFF:
        yield start, end


def mac_addresses(view: View, start: int, end: int) -> Spans:
    """A hardware address, but for all-equal ones and those of documentation (RFC 7042 §2.1.2)."""
    digits = re.sub(r"[^0-9a-f]", "", view.text[start:end].lower())
    around = view.data[max(0, start - 1) : start] + view.data[end : end + 1]
    if len(set(digits)) > 2 and not digits.startswith("00005e0053") and not set(around) & set(b":-."):
        yield start, end


_PII = confidential(Tag.PII)
RULES: tuple[Rule, ...] = (
    Rule("email", 2, _PII, EMAIL, email_addresses),
    Rule("email", 2, _PII, EMAIL_IN_WORDS, written_out_email),
    Rule("email", 2, _PII, EMAIL_SPOKEN, written_out_email),
    Rule("email", 2, _PII, EMAIL_SPACED, written_out_email),
    Rule("email", 2, _PII, EMAIL_JOINED, written_out_email),
    Rule("phone", 2, _PII, INTERNATIONAL_PHONE, international_phones),
    Rule("phone", 2, _PII, BRACKETED_PHONE, bracketed_phones),
    Rule("phone", 2, _PII, PHONE_AFTER_WORD, named_phones),
    Rule("phone", 2, _PII, PHONE_BEFORE_WORD, named_phones),
    Rule("phone", 2, _PII, numbers.DIGIT_RUN, NATIONAL_PHONES),
    Rule("ip-address", 1, _PII, IPV4, ip_addresses),
    Rule("ip-address", 1, _PII, IPV6, ip_addresses),
    Rule("mac-address", 1, _PII, MAC, mac_addresses),
)
