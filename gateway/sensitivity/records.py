"""Numbers that a word makes identifiers, and codes of things that belong to a person or an account.

Where there is a check it is made (MRZ, VIN, DEA, LEI, BIC with account); where there is none the number must
stand directly behind its name: passport, licence, account, policy, claim, record and member numbers, in the
languages of the product, and their fields in FHIR, HL7 and SWIFT messages.
"""

from __future__ import annotations

import re

from stdnum import bic as bic_codes
from stdnum import lei as lei_codes

from gateway.domain.label import Label, Tag
from gateway.sensitivity.rule import (
    Examine,
    Rule,
    Spans,
    Words,
    confidential,
    has_context,
    is_word_byte,
    restricted,
)
from gateway.sensitivity.views import View

#: What may stand between a name and its number: a word for number, a sign, a verb.
_IS = (
    rb"(?:[ _-]?(?:no|nr|n\.?[?o]|num|number|numero|nummer|numer|num\?ro|id|ref|reference|code|card|details|data"  # noqa: E501
    rb"|info|#))?"
    rb"\.?[\"'\])>]{0,3}[ \t]*"
    rb"(?:is|was|reads|ist|lautet|est|es|e'?|:=|:|=>|=|#|,|with|-)?[ \t]*"
    rb"(?:number|no\.?|nr\.?|id|num|value|n\?|\")?[ \t]*[:=]?[ \t\"'#(<\[*]*"
)


def _after(name: bytes, number: bytes) -> bytes:
    return rb"(?i)(?:^|[^a-z])(?:" + name + rb")" + _IS + rb"(" + number + rb")"


def after_word(least_digits: int, most_letters: int = 6) -> Examine:
    """Examiner of a number without a check, directly behind its name; the pattern's group 1."""

    def examine(view: View, start: int, end: int) -> Spans:
        text = view.text[start:end]
        if is_word_byte(view.data, start - 1) and not _GLUED.search(view.data[max(0, start - 24) : start]):
            return
        digits = sum(map(str.isdigit, text))
        letters = sum(map(str.isalpha, text))
        if digits < least_digits or letters > most_letters or is_word_byte(view.data, end):
            return
        is_varied = len(set(text) & set("0123456789")) > 1
        if is_varied and not _MONEY.match(view.text, end) and not _DAY.match(text):
            yield start, end

    return examine


#: A name with its number right behind it: `MRN00482913`, but not the middle of a blob.
_GLUED = re.compile(rb"(?:^|[\s,;:(\"'=])[A-Za-z]{3,}$")
_MONEY = re.compile(r" ?(?:%|€|\$|£|USD|EUR|GBP|CHF|euros?|dollars?|kr\b|,\d\d\b)")
_DAY = re.compile(r"(?:19|20)\d\d-[01]\d-[0-3]\d|[0-3]?\d[./-][01]?\d[./-](?:19|20)\d\d")

_TOKEN = rb"[A-Z]{0,6}[-_/. ]?[0-9][0-9A-Z]*(?:[-_/.]?[0-9A-Z]+)*"
_PASSPORT_NUMBER = (
    rb"[A-Z]{0,3}(?:-[A-Z]{1,2}-)?[ ]?[0-9]{5,9}[A-Z0-9]{0,2}"
    rb"|[CFGHJKLMNPRTVWXYZ0-9]{9}|[0-9]{2}[A-Z]{2}[0-9]{5}"
)
_ACCOUNT_NUMBER = rb"[A-Z]{0,12}[0-9](?:[ -]?[0-9]){4,17}[A-Z]{0,2}"

_PASSPORT = (
    rb"passports?|pass(?:nummer|nr)|reisepass(?:nummer|nr)?|passeport|pasaporte|passaporto|passaporte"
    rb"|paspoort(?:nummer)?"
    rb"|paszport|personalausweis(?:nummer|nr)?|ausweis(?:nummer|nr)?|carte d'identite|identity card"
    rb"|id[- ]card"
    rb"|dni|carta d'identita|identiteitskaart|dowod(?: osobisty)?|travel document"
)
_LICENCE = (
    rb"driv(?:er|ing)(?:'?s)?[ _-]?licen[cs]e|licen[cs]e[ _-]?(?:no|nr|num|number|id)|dl|fuhrerschein(?:nummer|nr)?"  # noqa: E501
    rb"|fuehrerschein(?:nummer)?"
    rb"|permis de conduire|carnet de conducir|permiso de conducir|licencia de conducir|patente(?: di guida)?"
    rb"|carta de conducao|cnh|rijbewijs(?:nummer)?"
)
_ACCOUNT = (
    rb"(?:bank|checking|savings|current|deposit|giro|brokerage|loan|mortgage|personal|member|beneficiary)"
    rb" (?:account|acct)|account[ _-]?(?:no|nr|num|number|id)|acct(?:[ _.-]?(?:no|nr|num|number))?|a/c"
    rb"|(?:my|his|her|their|our) (?:account|acct)"
    rb"|konto(?:nummer|nr)?|bankverbindung|numero de compte|compte(?: bancaire)?|numero de cuenta"
    rb"|cuenta(?: bancaria)?"
    rb"|conto(?: corrente)?|numero di conto|conta(?: corrente| bancaria| poupanca)?|rekening(?:nummer)?"
    rb"|bankrekening"
    rb"|numer konta|sort code"
)
_HEALTH = (
    rb"mrn|medical[ _-]record(?: number)?|medical file|patient[ _-]?(?:id|number|no|identifier|ref)"
    rb"|patient mrn"
    rb"|health record|hospital number|member[ _-]?id|health (?:plan|insurance|card)(?: number)?|chart number"
    rb"|patienten(?:nummer|nr|-id)|fallnummer|krankenversicherten(?:nummer)?|krankenkassen?nummer"
    rb"|versichertennummer"
    rb"|numero de patient|dossier medical|num(?:ero)? de dossier|historia clinica|numero de historia|nhc"
    rb"|cartella clinica|numero paziente|prontuario(?: medico)?|numero de utente|patientnummer"
    rb"|patient(?:en)?nummer"
    rb"|medicare(?: (?:number|id|no))?|medicaid|nhs (?:no|number)|mbi|subscriber id|rx number"
    rb"|prescription number"
    rb"|pid"
)
_POLICY = (
    rb"(?:insurance )?policy[ _-]?(?:no|nr|num|number|id|holder id)|policyholder(?: id)?"
    rb"|claim[ _-]?(?:no|nr|num|number|id)"
    rb"|insurance (?:no|number|id|code|policy(?: (?:no|number))?)|versicherungs(?:schein|policen)?nummer"
    rb"|versicherungsschein|policennummer|police(?:n)?nr|schaden(?:s|fall)?(?:nummer|nr)|numero de police"
    rb"|numero de contrat|numero de sinistre|contrat n\??|numero de poliza|poliza(?: n\??)?"
    rb"|numero de siniestro|siniestro"
    rb"|numero di polizza|polizza(?: n\??)?|numero di sinistro|numero da apolice|apolice(?: n\??)?|sinistro"
    rb"|polis(?:nummer)?|schadenummer"
)
_PERSON = (
    rb"(?:employee|customer|client|student|user|tribal|voter|case|member|staff|badge|taxpayer|citizen"
    rb"|national|personal"
    rb"|identification|suspect|registration|beneficiary|subscriber"
    rb"|system)[ _-]?(?:identification )?(?:id|number|no)"
    rb"(?: number| no)?|id (?:number|no)|voter id|identification number|personalnummer|kundennummer"
    rb"|kunden-?nr"
    rb"|mitarbeiternummer|numero (?:de )?client|matricule|numero de cliente|numero de empleado|numero cliente"
    rb"|matricola|numero de cliente|klantnummer|personeelsnummer|steuernummer|tax (?:id|number)|tin|ein"
    rb"|atin|vat (?:no|number)"
)
_BARE_POLICY = (
    rb"(?i)(?:^|[^a-z])(?:policy|claim|police|polizze|poliza|polizza|apolice|polis|case|file)[ :#]+"
    rb"([A-Z]{1,4}[-/ ]?[0-9]{4,10})"
)

# --- Codes with a check --------------------------------------------------------------------------------

_VIN = (
    rb"(?i)[A-HJ-NPR-Z0-9]{3}[ -]?[A-HJ-NPR-Z0-9]{5}[ -]?[0-9X][ -]?[A-HJ-NPR-Z0-9]{2}[ -]?"
    rb"[A-HJ-NPR-Z0-9]{2}[0-9]{4}"
)
_VIN_WORDS = Words(
    "vin", "vehicle", "chassis", "fahrgestell(?:nummer)?", "fin", "fahrzeug", "vehicule", "bastidor", "telaio",  # noqa: E501
    "vehiculo", "chassi", "veicolo", "car",
)  # fmt: skip
_VIN_VALUES = {**{str(d): d for d in range(10)}, **dict(zip("ABCDEFGH", range(1, 9), strict=True))}
_VIN_VALUES |= dict(zip("JKLMN", range(1, 6), strict=True)) | {"P": 7, "R": 9}
_VIN_VALUES |= dict(zip("STUVWXYZ", range(2, 10), strict=True))
_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def vehicle_numbers(view: View, start: int, end: int) -> Spans:
    """A vehicle identification number: a right check digit (49 CFR 565), or a word beside it."""
    number = re.sub(r"[ -]", "", view.text[start:end].upper())
    if is_word_byte(view.data, start - 1) or is_word_byte(view.data, end):
        return
    letters = sum(map(str.isalpha, number))
    if not 2 <= letters <= 13 or not number.isascii():
        return
    total = sum(_VIN_VALUES[sign] * weight for sign, weight in zip(number, _VIN_WEIGHTS, strict=True))
    named = has_context(view, start, end, _VIN_WORDS)
    has_check = number[8] == "0123456789X"[total % 11] and number[0] in "123456789JKLSTVWYZ"
    if named or (has_check and letters > 3 and view.text[start:end].isupper()):
        yield start, end


def is_dea(number: str) -> bool:
    """Whether the last digit of a DEA registration checks the six before."""
    digits = [int(sign) for sign in number[2:]]
    return (digits[0] + digits[2] + digits[4] + 2 * (digits[1] + digits[3] + digits[5])) % 10 == digits[6]


_DEA = rb"[ABCDEFGHJKLMPRSTUX][A-Z9][ -]?[0-9]{7}"
_DEA_WORDS = Words("dea", "prescriber", "registration", "controlled", "physician", "pharmacy")


def dea_numbers(view: View, start: int, end: int) -> Spans:
    """A prescriber's DEA number with its word near."""
    number = re.sub(r"[ -]", "", view.text[start:end])
    if is_word_byte(view.data, start - 1) or is_word_byte(view.data, end):
        return
    if is_dea(number) and has_context(view, start, end, _DEA_WORDS):
        yield start, end


_LEI = rb"[0-9A-Z]{4}00[0-9A-Z]{12}[0-9]{2}|[0-9A-Z]{18}[0-9]{2}"


def entity_codes(view: View, start: int, end: int) -> Spans:
    """A legal entity identifier (ISO 17442)."""
    if is_word_byte(view.data, start - 1) or is_word_byte(view.data, end):
        return
    number = view.text[start:end]
    if any(map(str.isalpha, number)) and lei_codes.is_valid(number):
        yield start, end


_BIC = rb"\b[A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?\b"
_BIC_WORDS = Words("bic", "swift", r"bic/swift", "swift[ -]?code")
_ACCOUNT_NEAR = re.compile(
    r"(?i)(?:\b(?:account|acct|a/c|konto|kontonummer|compte|cuenta|conto|conta|rekening|beneficiary)\b"
    r"|口座|账号|계좌)"
    r"[^0-9\n]{0,24}([0-9][0-9 -]{5,20}[0-9])"
)


def bank_codes(view: View, start: int, end: int) -> Spans:
    """A BIC with an account number near it: together they name an account."""
    if not bic_codes.is_valid(view.text[start:end]) or not has_context(view, start, end, _BIC_WORDS):
        return
    first = max(0, start - 120)
    for match in _ACCOUNT_NEAR.finditer(view.text, first, min(len(view.text), end + 120)):
        yield start, end
        yield match.span(1)


#: The second line of a travel document's machine-readable zone. Source: ICAO Doc 9303 parts 4 to 6.
_MRZ = (
    rb"[A-Z0-9<]{9}[0-9][A-Z<]{3}[0-9]{6}[0-9][MFX<][0-9]{6}[0-9][A-Z0-9<]{7,16}"
    rb"|[IAC][A-Z0-9<][A-Z<]{3}[A-Z0-9<]{9}[0-9][A-Z0-9<]{15}\r?\n[0-9]{6}[0-9][MFX<][0-9]{6}[0-9][A-Z<]{3}"
)


def _mrz_check(field: str) -> int:
    values = [0 if sign == "<" else int(sign, 36) for sign in field]
    return sum(value * (7, 3, 1)[place % 3] for place, value in enumerate(values)) % 10


def travel_documents(view: View, start: int, end: int) -> Spans:
    """A machine-readable line whose document number or birth date checks."""
    line = view.text[start:end]
    if "\n" in line:
        second = line[line.index("\n") + 1 :]
        holds = _mrz_check(line[5:14]) == int(line[14]) and _mrz_check(second[:6]) == int(second[6])
    else:
        holds = _mrz_check(line[:9]) == int(line[9]) and _mrz_check(line[13:19]) == int(line[19])
    if holds:
        yield start, end


#: Medicare beneficiary identifier. Source: CMS, MBI format (no S, L, O, I, B, Z).
_MBI = (
    rb"(?i)[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-?[AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]"
    rb"-?[AC-HJKMNP-RT-Y]{2}[0-9]{2}"
)


def beneficiary_numbers(view: View, start: int, end: int) -> Spans:
    """A Medicare beneficiary identifier in capitals, with hyphens or a word."""
    found = view.text[start:end]
    if is_word_byte(view.data, start - 1) or is_word_byte(view.data, end) or not found.isupper():
        return
    if found.count("-") == 2 or has_context(view, start, end, _MBI_WORDS):
        yield start, end


_MBI_WORDS = Words("mbi", "medicare", "beneficiary", "member", "patient")

# --- Messages of the trades ----------------------------------------------------------------------------

_SWIFT_FIELD = (
    rb"(?:^|[\n}]):?:(?:5[0-9][A-Z]?|25[A-Z]?|97[A-Z]):{1,2}(?:[A-Z]{4}//|/{1,2})(?:[CD]/)?"
    rb"([A-Z0-9][A-Z0-9 -]{4,33})"
)
_SWIFT_PARTY = rb":5[0-9][A-Z]?:/{1,2}([A-Z0-9]{5,34})"
_HL7 = rb"(?:^|[\r\n\"\\n])PID\|[0-9]*\|([^\r\n]{8,})"
_FHIR = (
    rb"\"resourceType\"\s*:\s*\"(Patient|RelatedPerson|Observation|Condition|MedicationRequest"
    rb"|MedicationStatement|Encounter"
    rb"|DiagnosticReport|AllergyIntolerance|Immunization|Procedure|Coverage|Claim|ExplanationOfBenefit"
    rb"|CarePlan"
    rb"|ServiceRequest|Specimen|FamilyMemberHistory|DocumentReference|Person)\""
)
_FHIR_PERSON = re.compile(rb"\"(?:family|birthDate|identifier|subject|patient|beneficiary|telecom)\"")
_FHIR_VALUE = (
    rb"(?i)\"system\"\s*:\s*\"[^\"]*(?:us-ssn|mrn|medical-record|nhs-number|patient|insur|subscriber"
    rb"|passport|drivers?-?lic"
    rb"|sid/[a-z-]+)[^\"]*\"\s*,\s*\"value\"\s*:\s*\"([^\"]{4,40})\""
)


def fhir_resources(view: View, start: int, end: int) -> Spans:
    """A clinical resource that says whose it is."""
    if _FHIR_PERSON.search(view.data, max(0, start - 2000), end + 4000) is not None:
        yield start, end


def party_accounts(view: View, start: int, end: int) -> Spans:
    """The account of a party in a SWIFT MT field (tags 50 to 59, 25, 97)."""
    found = view.text[start:end].strip()
    if sum(map(str.isdigit, found)) >= 4:
        yield start, start + len(found)


def whole(_view: View, start: int, end: int) -> Spans:
    """The candidate itself: its form is proof enough."""
    yield start, end


_PII, _FIN, _PHI = restricted(Tag.PII), restricted(Tag.FIN), restricted(Tag.PHI, Tag.PII)
_HR: Label = confidential(Tag.PII)

RULES: tuple[Rule, ...] = (
    Rule("passport", 2, _PII, _after(_PASSPORT, _PASSPORT_NUMBER), after_word(3)),
    Rule("driving-licence", 1, _PII, _after(_LICENCE, _TOKEN), after_word(5, 8)),
    Rule("bank-account", 2, _FIN, _after(_ACCOUNT, _ACCOUNT_NUMBER), after_word(6, 14)),
    Rule("health-record", 2, _PHI, _after(_HEALTH, _TOKEN), after_word(4)),
    Rule("policy-number", 1, restricted(Tag.PII, Tag.FIN), _after(_POLICY, _TOKEN), after_word(4)),
    Rule("policy-number", 1, confidential(Tag.PII), _BARE_POLICY, after_word(4)),
    Rule("person-number", 1, _HR, _after(_PERSON, _TOKEN), after_word(5, 9)),
    Rule("vehicle-number", 1, _PII, _VIN, vehicle_numbers),
    Rule("us-dea", 1, _PHI, _DEA, dea_numbers),
    Rule("lei", 1, confidential(Tag.FIN), _LEI, entity_codes),
    Rule("bic-account", 1, _FIN, _BIC, bank_codes),
    Rule("travel-document", 1, _PII, _MRZ, travel_documents),
    Rule("us-mbi", 1, _PHI, _MBI, beneficiary_numbers),
    Rule("swift-party", 1, _FIN, _SWIFT_FIELD, party_accounts),
    Rule("swift-party", 1, _FIN, _SWIFT_PARTY, party_accounts),
    Rule("hl7-patient", 1, _PHI, _HL7, whole),
    Rule("fhir-resource", 1, _PHI, _FHIR, fhir_resources),
    Rule("fhir-identifier", 1, _PHI, _FHIR_VALUE, whole),
)
