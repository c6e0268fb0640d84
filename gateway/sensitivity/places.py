"""Postal addresses and births: what places a person, known by form or by the words before it.

There is no check digit here, so a form must be one that streets have: a number, a name with a capital, a
word for street; or a post code and a town. Patterns run over the canonical view: no accents.
"""

from __future__ import annotations

import re

from gateway.domain.label import Tag
from gateway.sensitivity.rule import Rule, Spans, confidential, is_word_byte
from gateway.sensitivity.views import View

_CAP = rb"[A-Z][A-Za-z'?.-]+"
_ENGLISH = (
    rb"\b[1-9][0-9]{0,4}[A-Za-z]?,? (?:[NSEW]\.? )?(?:" + _CAP + rb" ){1,4}"
    rb"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Place|Pl|Square|Sq"
    rb"|Terrace|Way|Walk"
    rb"|Close|Crescent|Cres|Gardens|Grove|Yard|Mews|Hill|Row|Quay|Parade|Highway|Hwy|Parkway|Pkwy|Circle"
    rb"|Cir|Trail"
    rb"|Alley|Rise|View|Green|Wharf|Park|Path|Vale|Drove)\b"
)
_GERMANIC = (
    rb"\b[A-Z][A-Za-z?-]*(?:stra(?:ss|\?|s)e|str\.|weg|gasse|allee|platz|damm|ufer|chaussee|straat|laan"
    rb"|gracht"
    rb"|plein|kade|singel|gatan|vagen|vej|veien|gate|gaten|katu|tie|backen|torget|plads)"
    rb" [1-9][0-9]{0,3} ?[a-zA-Z]?\b"
    rb"|\b[A-Z][a-z?]+er (?:Stra(?:ss|\?)e|Str\.|Weg|Allee|Platz|Damm|Ring"
    rb"|Chaussee) [1-9][0-9]{0,3} ?[a-z]?\b"
    rb"|\b(?:Am|An der|Im|In der|Auf dem|Zum|Zur"
    rb"|Unter den) [A-Z][a-z?]{3,} [1-9][0-9]{0,3} ?[a-z]?, [0-9]{4,5} [A-Z]"
)
_ROMANCE = (
    rb"\b[1-9][0-9]{0,3}(?: ?(?:bis|ter))?,? (?:rue|avenue|av\.|boulevard|bd|place|impasse|chemin|allee|quai"
    rb"|cours|square|passage|villa|sentier|faubourg)(?: (?:de|du|des|la|le|les|l'|d'))* ?[A-Z?][A-Za-z'?-]+"
    rb"|\b(?i:calle|c/|avenida|avda\.?|plaza|paseo|carrer|camino|ronda|travesia|via|viale|piazza|corso"
    rb"|vicolo|largo|rua"
    rb"|travessa|praca|alameda|estrada|av\.)(?: (?i:de|del|da|do|dos|das|la|las|los|el|di|della|dei|dell'))*"
    rb" (?:[A-Z?][A-Za-z'?.]*,? ?(?:(?:de|del|da|do|dos|la|di|e|y) )*){1,4}"
    rb",? ?(?:n[.?]?[?o]? ?|no?\.? ?|num\.? ?)?[1-9][0-9]{0,4}\b"
)
_TOWN = (
    rb"\b[A-Z][A-Za-z?'-]+(?: [A-Za-z?'-]+){0,3} [1-9][0-9]{0,3} ?[a-zA-Z]?,\s+(?:[A-Z]{1,2}-)?"
    rb"[0-9]{3} ?[0-9]{1,2}(?: ?[A-Z]{2})? [A-Z?][a-z?]+"
    rb"|\b[1-9][0-9]{0,4} [A-Z][A-Za-z?' -]{2,40},\s+[A-Z][A-Za-z?' -]{1,30},?\s+(?:[A-Z]{2} [0-9]{5}(?:-[0-9]{4})?"  # noqa: E501
    rb"|[A-Z]{1,2}[0-9][0-9A-Z]? ?[0-9][A-Z]{2}|[A-Z][0-9][0-9W] ?[A-Z0-9]{4}"
    rb"|[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9])\b"
)
_BOX = (
    rb"(?i)\bp\.? ?o\.? ?box \d{1,6}\b|\bpostfach \d[\d ]{1,8}\b|\bapartado (?:de correos )?\d{2,6}\b"
    rb"|\b(?:psc|unit|cmr) \d{3,4},? box \d{3,5}\b|\bboite postale \d{1,6}\b|\bcasella postale \d{1,6}\b"
)
#: A word that says address and what stands behind it in the line; group 1.
_AFTER_WORD = (
    rb"(?i)(?:\b(?:home|mailing|billing|shipping|postal|delivery|new|my|his|her|their|your|our|street"
    rb"|residential"
    rb"|current|correspondence)[ _]address(?: is(?: now)?| with| to)?|\badress(?:e|es|)(?: ist"
    rb"| lautet| est)?"
    rb"|\banschrift(?: ist| lautet)?|\bwohnhaft (?:in|am|an der)|\bwohn(?:t|e) (?:in der|am|an der|im|in)"
    rb"|\bdireccion(?: es)?|\bdomicili(?:o|ada|ado|e)(?: (?:en|es|in|a|au))?|\bindirizzo(?: e'?)?"
    rb"|\bresidente (?:in|a)"
    rb"|\bendereco(?: e)?|\bmorada(?: e)?|\bwoonadres|\badres(?: is)?|\bwoont (?:aan|op)"
    rb"|\b(?:lives?|living|resid(?:es|ing|ent)|moved) (?:at|to|on)|\bhabit(?:e|ons) (?:au|a)|\bvive en"
    rb"|\babita in"
    rb"|\bmora na|\baddress(?: is|:|=)|\bship (?:it )?to|\bsent? (?:it )?to"
    rb"|\bdeliver(?:ed)? to)[ \t]*[:=]?[ \t\"']*\r?\n?[ \t]*"
    rb"([^\r\n\"]*[0-9][^\r\n\"]*)"
)
#: Chinese, Japanese, Korean: signs are `?` in the bytes, so the form is read in the text.
_HAN = rb"\?{2,}[ ]?[0-9]{1,5}(?:-[0-9]{1,4}){0,3}[ ]?\?|\?{2,} ?[0-9]{1,5}(?:-[0-9]{1,4}){0,3}"
_HAN_ADDRESS = re.compile(
    r"(?:[路街道巷弄村里区區镇市] ?[0-9]{1,5}(?:-[0-9]+)? ?[号號弄楼室幢栋巷])"
    r"|(?:[市区區町村郡丁目] ?[^\s0-9]{0,8} ?[0-9]{1,4}(?:丁目|番地?|[-‐][0-9]{1,4}))"
    r"|(?:(?:로|길) ?[0-9]{1,4}(?:-[0-9]+)?)"
)
#: Printed so often that they are public knowledge.
_PUBLIC = re.compile(
    rb"(?i)10 downing st|1600 pennsylvania|221b baker|1 infinite loop|1600 amphitheatre"
    rb"|350 fifth ave"
)
_NUMBERED = re.compile(r"(?<![0-9])[1-9][0-9]{0,4}[a-zA-Z]?(?![0-9])")
_NAME = re.compile(r"[A-Z\u00c0-\u024f\u0370-\u04ff][\w'.-]{2,}")


def streets(view: View, start: int, end: int) -> Spans:
    """A street with its number, unless the place is public knowledge."""
    if _PUBLIC.match(view.data, start) is None and not is_word_byte(view.data, start - 1):
        yield start, end


def named_addresses(view: View, start: int, end: int) -> Spans:
    """What a word for address introduces, when it holds a number and a name with a capital."""
    text = view.text[start : min(end, start + 120)]
    if "@" in text or "://" in text or re.match(r"\d{1,3}(?:\.\d{1,3}){3}", text):
        return
    number, name = _NUMBERED.search(text), _NAME.search(text)
    if number is not None and name is not None and abs(number.start() - name.start()) < 48:
        yield start, start + len(text.rstrip(" .,;?!"))


def han_addresses(view: View, start: int, end: int) -> Spans:
    """A road or quarter with a house number in Chinese, Japanese or Korean."""
    match = _HAN_ADDRESS.search(view.text, max(0, start), min(len(view.text), end + 4))
    if match is not None:
        yield match.start(), match.end()


_MONTH = (
    rb"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec|mai|juin|juil|avr|fev|aout|okt|dez|marz"
    rb"|ene|abr|ago"
    rb"|dic|gen|mag|giu|lug|set|ott|out|mei|maa|mrt|januar|februar|janvier|fevrier|enero|febrero|gennaio"
    rb"|febbraio"
    rb"|janeiro|fevereiro|januari|februari)[a-z]*\.?"
)
_DAY = (
    rb"(?:[0-3]?[0-9](?:st|nd|rd|th|er|\.|\?)?[ ./-]{0,2}(?:de "
    rb"|of )?" + _MONTH + rb"(?: de)?,?[ ./-]{0,2}[0-9]{2,4}"
    rb"|" + _MONTH + rb" [0-3]?[0-9](?:st|nd|rd|th)?,? [0-9]{4}"
    rb"|[0-3]?[0-9][./ -][0-3]?[0-9][./ -][0-9]{2,4}|(?:19|20)[0-9]{2}[./-][01]?[0-9][./-][0-3]?[0-9]"
    rb"|(?:19|20)[0-9]{2} ?\?+ ?[01]?[0-9] ?\?+ ?[0-3]?[0-9])"
)
#: A day in digits only; nothing but the word for birth tells it from another number.
_DAY_DIGITS = (
    rb"\b(?:[0-3][0-9][01][0-9](?:(?:19|20)[0-9]{2}|[0-9]{2})|[01][0-9][0-3][0-9](?:19|20)[0-9]{2}"
    rb"|(?:19|20)[0-9]{2}[01][0-9][0-3][0-9])\b"
)
#: Words that say birth; group 1 is the day.
BIRTH = (
    rb"(?i)(?:\b(?:date of birth|birth[ _-]?date|birthday|dob|d\.o\.b\.?|born(?: on)?|geburtsdatum"
    rb"|geb(?:oren|\.)?(?: am)?"
    rb"|geburtstag|geb\.?-?datum|date de naissance|ne(?:e)?(?:\(e\))? le|fecha de nacimiento"
    rb"|nacid[oa] el|nacio el"
    rb"|f\. ?nac\.?|data di nascita|nat[oa] (?:il|a [a-z]+ il)|data de nascimento|nascid[oa] (?:em|a)|nasc\.?"
    rb"|geboortedatum|geboren op|fodelsedatum|fodt|data urodzenia|birth_?date|birthdate)\b|\?{4}|\?{2})"
    rb"[\"']?[ \t]*(?:is|was|ist|war|est|es|e'?|:|=|,|-)?(?: it'?s)?[ \t\"'(]*("
    + _DAY
    + rb"|"
    + _DAY_DIGITS
    + rb")"
)
_HAN_BIRTH = re.compile(r"出生|生日|生年月日|생년월일|생일")


def births(view: View, start: int, end: int) -> Spans:
    """A day that is said to be somebody's birth."""
    before = view.text[max(0, start - 12) : start]
    in_ascii = any(map(str.isascii, before.split()[-1:]))
    # Where only signs of other scripts stand before it, they must be the words for birth.
    if before.isascii() or in_ascii or _HAN_BIRTH.search(before) is not None:
        yield start, end


_CONTACT = confidential(Tag.PII)
RULES: tuple[Rule, ...] = (
    *(
        Rule("postal-address", 1, _CONTACT, pattern, streets)
        for pattern in (_ENGLISH, _GERMANIC, _ROMANCE, _TOWN, _BOX)
    ),
    Rule("postal-address", 1, _CONTACT, _AFTER_WORD, named_addresses),
    Rule("postal-address", 1, _CONTACT, _HAN, han_addresses),
    Rule("date-of-birth", 1, _CONTACT, BIRTH, births),
)
