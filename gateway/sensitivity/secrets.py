"""Credentials: keys with a known form, private keys, tokens, and passwords that stand beside their name.

A known prefix is not enough: prose has `sk-`, code has placeholders. What follows must look drawn at
random. Sources: the issuers' documentation of their token formats; for the choice of kinds also the public
rule set of gitleaks (MIT), read as a list of ideas; no expression was taken from it.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable

from gateway.domain.label import Tag
from gateway.sensitivity.examples import is_documented
from gateway.sensitivity.placeholders import is_masked, is_placeholder, looks_random
from gateway.sensitivity.rule import Examine, Rule, Spans, is_word_byte, restricted
from gateway.sensitivity.views import View

_SECRET = restricted(Tag.SECRET)


def prefixed(kind: str, skip: int = 0) -> Examine:
    """Examiner of a token with a fixed prefix: no letter or digit before it, a random-looking rest.

    `skip` is how many leading bytes are prefix, so that they do not count as variety.
    """

    def examine(view: View, start: int, end: int) -> Spans:
        if is_word_byte(view.data, start - 1):
            return
        if looks_random(view.data[start + skip : end]) and not is_documented(kind, view.text[start:end]):
            yield start, end

    return examine


def named(kind: str) -> Examine:
    """Examiner of a value that a key names (`AccountKey=…`); the pattern's group 1 is the value."""

    def examine(view: View, start: int, end: int) -> Spans:
        if looks_random(view.data[start:end]) and not is_documented(kind, view.text[start:end]):
            yield start, end

    return examine


# --- Private keys --------------------------------------------------------------------------------------

PEM_BEGIN = rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_PEM_END = b"-----END "
#: Longest body looked for, in characters: an RSA key of 16,384 bits takes 12,700.
PEM_BOUND = 32_768
_KEY_BODY = re.compile(rb"[A-Za-z0-9+/=]{16,}")


def pem_private_keys(view: View, start: int, end: int) -> Spans:
    """A PEM or PGP private key, to its end marker, or as far as it goes when it is cut off."""
    data = view.data
    if _KEY_BODY.search(data, end, end + 400) is None:
        return  # the marker alone, as code and documentation print it
    stop = data.find(_PEM_END, end, end + PEM_BOUND)
    if stop < 0:
        # fail-closed: a key without its end is still most of a key, so all that follows belongs to it.
        yield start, min(len(data), end + PEM_BOUND)
        return
    close = data.find(b"-----", stop + len(_PEM_END), stop + 80)
    yield start, close + 5 if close > 0 else stop + len(_PEM_END)


# --- Tokens with structure -----------------------------------------------------------------------------

JWT = rb"ey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+){0,2}"
BASIC_HEADER = rb"(?i)\bbasic[ ]+([A-Za-z0-9+/]{8,}={0,2})"
BEARER_HEADER = rb"(?i)\bbearer[ ]+([A-Za-z0-9._~+/-]{20,}=*)"


def json_web_tokens(view: View, start: int, end: int) -> Spans:
    """A signed or encrypted token whose header is JSON that names an algorithm. Source: RFC 7515, 7516."""
    header = view.data[start:end].split(b".", 1)[0]
    try:
        fields = json.loads(base64.urlsafe_b64decode(header + b"=" * (-len(header) % 4)))
    except (ValueError, RecursionError):
        return
    if isinstance(fields, dict) and "alg" in fields and not is_documented("jwt", view.text[start:end]):
        yield start, end


def basic_credentials(view: View, start: int, end: int) -> Spans:
    """The value of an `Authorization: Basic` header: base64 of `user:password`. Source: RFC 7617."""
    try:
        pair = base64.b64decode(view.data[start:end], validate=True)
    except binascii.Error:
        return
    if b":" in pair[1:] and pair.isascii():
        yield start, end


# --- Passwords beside their name -----------------------------------------------------------------------

URL_PASSWORD = rb"[A-Za-z][A-Za-z0-9+.-]+://[^\s:/@\"'<>?#]*:([^\s@\"'<>/]+)@[A-Za-z0-9\[]"
ASSIGNMENT = (
    rb"(?i)(?:passw(?:or)?d|passwort|kennwort|contrase(?:n|\?)a|mot_?de_?passe|passphrase|pwd|secret"
    rb"|api[_-]?key"
    rb"|apikey|access[_-]?token|auth[_-]?token|refresh[_-]?token|secret[_-]?key|signing[_-]?key"
    rb"|encryption[_-]?key|private[_-]?key|account[_-]?key|credentials?|token)(?:[_-]?[0-9])?"
    rb"[\"'`]?[ \t]*(?::=|=>|[:=])[ \t]*[\"'`]?([^\s\"'`,;<>(){}\[\]|&]{8,})"
)
AWS_SECRET = (
    rb"(?i)secret[_ .-]?(?:access)?[_ .-]?key(?:[_ .-]?id)?[\"'`]?[ \t]*(?::=|=>|[:=]|is)?[ \t]*[\"'`]?"
    rb"([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"
)
_REFERENCE = re.compile(
    rb"^[$%@]|\$\{|\{\{|^(?:os|process|env|config|settings|self|this|request|var|secrets)\."
)
_CODE_NAME = re.compile(rb"^[A-Za-z_]+(?:[._:/-][A-Za-z_]+)*[0-9]?$|^[a-z_]+\.[A-Za-z_.]+[A-Za-z0-9_]*$")


_PLACE = re.compile(rb"^(?:file:|env:|/|\./|~/)[A-Za-z0-9_./~-]+$")
_TYPE_NAME = re.compile(
    rb"^(?:[A-Z][a-z0-9]+){2,}(?:\.[a-z_0-9]+)*$|^[A-Za-z_][A-Za-z0-9_]*(?:\.[a-z_][A-Za-z_0-9]*)+$"
)


def url_passwords(view: View, start: int, end: int) -> Spans:
    """The password of a URL with user information (connection strings, basic-auth URLs). RFC 3986 §3.2.1."""
    value = view.data[start:end]
    if _REFERENCE.search(value) or is_placeholder(value) or value.lower() in _COMMON_FILLERS:
        return
    if b"[" in value or _EXAMPLE_HOST.match(view.data, end):
        return
    yield start, end


_EXAMPLE_HOST = re.compile(rb"@(?:[a-z0-9.-]+\.)?example(?:\.(?:com|org|net))?(?![a-z0-9.-])")
_COMMON_FILLERS = frozenset(
    {b"password", b"pass", b"passwd", b"pwd", b"pw", b"secret", b"token", b"port", b"x"}
)


def assigned_secrets(view: View, start: int, end: int) -> Spans:
    """A value assigned to a name like `password` or `api_key`, unless it is a reference or a placeholder.

    It must hold a digit or a sign and a letter, and not be a name of code such as `get_token` or `a.b.c`.
    """
    value = view.data[start:end].rstrip(b".,:!?")
    if len(value) < 8 or _REFERENCE.search(value) or is_placeholder(value) or _CODE_NAME.match(value):
        return
    if _PLACE.match(value) or _TYPE_NAME.match(value):
        return
    if view.data[end : end + 1] == b"(" or value.startswith(b":"):
        return  # a call, a role of reStructuredText
    letters = sum(byte in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" for byte in value)
    is_mixed = 0 < letters < len(value) and len(set(value)) >= 6 and not value.startswith((b"//", b"http"))
    if is_mixed and not is_documented("aws-secret-access-key", view.text[start:end]):
        yield start, start + len(value)


#: A word for password and the rest of its sentence.
SPOKEN = (
    rb"(?i)\b(?:passwords?|passwd|passphrase|passcode|passwort|passworter|kennwort|contrasena|clave"
    rb"|mot de passe|mdp"
    rb"|senha|palavra-passe|wachtwoord|parola d'ordine|parola chiave|haslo|losenord|adgangskode|passord"
    rb"|salasana|pwd"
    rb"|login|credentials)\b([^\r\n]{6,80})"
)
_TOKEN = re.compile(rb"[^\s\"'`<>,;]{6,}")
_NOT_SPOKEN = re.compile(rb"[(\[/]")
_SIGNS = frozenset(b"!@#$%^&*+=?~")


def _is_mixed(value: bytes) -> bool:
    """Whether a quoted word has a digit, a sign or a capital inside, and is no placeholder."""
    if is_placeholder(value) or _REFERENCE.search(value):
        return False
    return re.search(rb"[0-9!@#$%^&*?]|[a-z][A-Z]", value) is not None


def _is_password(value: bytes) -> bool:
    """Whether a word of a sentence is made as passwords are: letters, digits and signs, or mixed case."""
    if b"://" in value or _REFERENCE.search(value) or is_placeholder(value) or _NOT_SPOKEN.search(value):
        return False
    if value.count(b"@") == 1 and b"." in value.partition(b"@")[2]:
        return False  # a mail address
    text = value.decode("latin-1")
    has_digit = any(map(str.isdigit, text))
    has_lower, has_upper = any(map(str.islower, text)), any(map(str.isupper, text))
    has_sign = not _SIGNS.isdisjoint(value)
    return (
        has_digit and (has_lower or has_upper) and (has_sign or (has_lower and has_upper and len(value) > 7))
    )


def _is_signed_word(value: bytes) -> bool:
    """Whether a word is made of two words and a sign: `KnightRider!`, `Start@2025`."""
    body = value.rstrip(b"!#$%*?")
    return (
        len(value) > 6
        and len(body) < len(value)
        and re.fullmatch(rb"[A-Za-z0-9_@&+-]+", body) is not None
        and re.search(rb"[a-z][A-Z]|[0-9@&]", body) is not None
    )


#: Directly behind the word, in quotes or not.
_QUOTED = re.compile(rb"^[ :=]*(?:is|was|ist|lautet|war|est|es|e'?|of)?[ :=]*([\"'`])([^\"'`\s]{6,40})\1")


def spoken_passwords(view: View, start: int, end: int) -> Spans:
    """Words behind `password` in a sentence that look like one, and what stands there in quotes."""
    quoted = _QUOTED.match(view.data[start:end])
    if quoted is not None and _is_mixed(quoted[2]):
        yield start + quoted.start(2), start + quoted.end(2)
        return
    for match in _TOKEN.finditer(view.data, start, end):
        value = match[0].rstrip(b".,:!?)")
        value = match[0].rstrip(b".,:)")
        if len(value) > 5 and (_is_password(value) or _is_signed_word(value)):
            yield match.start(), match.end()


#: A word for a code that opens something, a verb, and the code; group 1.
ACCESS_CODE = (
    rb"(?i)\b(?:(?:access|door|entry|gate|alarm|security|safe|vault|lock|unlock|entrance|building|garage"
    rb"|verification"
    rb"|one[- ]time|otp|2fa|mfa|recovery|backup)[ -]?(?:code|pin|combination|passcode)"
    rb"|pin(?:[ -]?(?:code|number|nummer))?"
    rb"|passcode|zugangscode|zutrittscode|tur[- ]?code|turkode|zahlencode|geheimzahl|code d'?(?:acces|entree)"
    rb"|code (?:de (?:la )?porte|secret|pin|confidentiel)|digicode|codigo (?:de (?:acceso|entrada"
    rb"|la puerta|seguridad)|pin)"
    rb"|clave (?:de acceso|secreta)|codice (?:di accesso|segreto|pin|di sicurezza|della porta)|combinazione"
    rb"|codigo de (?:acesso|seguranca)|senha (?:de acesso|do cofre)|toegangscode|deurcode|pincode|kod dostepu"
    rb"|combination)\b([^\r\n.!?]{1,60})"
)
_CODE = re.compile(
    rb"(?i)(?:\b(?:is|ist|lautet|est|es|e'?|=|:|is:|nu|to|wird|sera|sara|are)"
    rb"|[:=]) *[\"'`]?([A-Z]{0,2}[0-9][0-9A-Z#*-]{3,11})(?![0-9A-Z])"
)


def access_codes(view: View, start: int, end: int) -> Spans:
    """The code in a sentence that tells the code of a door, a card or a second factor."""
    match = _CODE.search(view.data, start, end)
    if match is not None and not re.fullmatch(rb"(?:19|20)\d\d", match[1]):
        yield match.span(1)


#: A mail address or user name, a slash or colon, and a password, as lists of credentials print them.
CREDENTIAL_PAIR = (
    rb"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}(?: ?[/:|] ?|[ ]+and[ ]+)([^\s\"'<>,;]{6,40})"
)


def credential_pairs(view: View, start: int, end: int) -> Spans:
    """The password behind a mail address."""
    value = view.data[start:end].rstrip(b".,:;)")
    if _is_password(value) or _is_signed_word(value):
        yield start, start + len(value)


#: A drawn token with no prefix behind a word such as key or token; group 1.
DRAWN = (
    rb"(?i)(?:key|token|secret|credential|auth|signature|bearer|hmac|salt|seed|webhook|session|cookie"
    rb"|jwt|pass)[a-z0-9_-]*"
    rb"[\"'` ]{0,3}(?::=|=>|[=:]|\bis\b|\blautet\b|\best\b|\bes\b)[\"'` ]{0,3}([A-Za-z0-9+/_=.~-]{20,})"
)
_HEXADECIMAL = re.compile(rb"(?:0x)?[0-9a-fA-F]+")
_IDENTIFIER_NAME = re.compile(
    rb"(?i)(?:commit|sha|hash|digest|checksum|etag|integrity|public|fingerprint|thumbprint|id|uuid|guid"
    rb"|ref|version"
    rb"|primary|foreign|sort|partition|idempotency|cache|trace|span)[a-z0-9_-]*[\"'` ]{0,3}(?::=|=>|[=:]"
    rb"|\bis\b)"
)


def entropy(value: bytes) -> float:
    """Bits per byte of the value's own distribution (Shannon)."""
    return -sum(share * math.log2(share) for share in (value.count(byte) / len(value) for byte in set(value)))


def drawn_tokens(view: View, start: int, end: int) -> Spans:
    """A long value of high entropy behind a word for secret. Hashes and UUIDs are left to their names."""
    value = view.data[start:end].rstrip(b".")
    if is_masked(value) or _REFERENCE.search(value) or _CODE_NAME.match(value) or value.count(b".") > 2:
        return
    if _PLACE.match(value) or _TYPE_NAME.match(value):
        return
    if is_documented("aws-secret-access-key", value.decode("ascii")):
        return
    before = view.data[max(0, start - 48) : start]
    if _IDENTIFIER_NAME.search(before) and not re.search(rb"(?i)secret|api|private|token", before):
        return
    is_hex = _HEXADECIMAL.fullmatch(value) is not None
    classes = sum(bool(re.search(group, value)) for group in (rb"[a-z]", rb"[A-Z]", rb"[0-9]"))
    if (is_hex and len(value) >= 32 and entropy(value) > 3.0) or (
        not is_hex and classes == 3 and entropy(value) > 3.6
    ):
        yield start, start + len(value)


def _row(kind: str, pattern: bytes, skip: int, make: Callable[[str, int], Examine] = prefixed) -> Rule:
    return Rule(kind, 1, _SECRET, pattern, make(kind, skip))


def _named_row(kind: str, pattern: bytes) -> Rule:
    return Rule(kind, 1, _SECRET, pattern, named(kind))


RULES: tuple[Rule, ...] = (
    Rule("private-key", 1, _SECRET, PEM_BEGIN, pem_private_keys),
    Rule("jwt", 1, _SECRET, JWT, json_web_tokens),
    Rule("basic-credentials", 1, _SECRET, BASIC_HEADER, basic_credentials),
    Rule("url-password", 1, _SECRET, URL_PASSWORD, url_passwords),
    _named_row("bearer-token", BEARER_HEADER),
    _row("anthropic-key", rb"sk-ant-[A-Za-z0-9]{2,10}-[A-Za-z0-9_-]{20,}", 7),
    _row("openrouter-key", rb"sk-or-v1-[0-9a-f]{48,}", 9),
    _row("openai-key", rb"sk-(?:proj-|svcacct-|admin-|None-)?[A-Za-z0-9_]{16,}[A-Za-z0-9_-]*", 3),
    _row("aws-access-key-id", rb"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}", 4),
    _named_row("aws-secret-access-key", AWS_SECRET),
    _row("github-token", rb"gh[pousr]_[A-Za-z0-9]{36,}", 4),
    _row("github-token", rb"github_pat_[A-Za-z0-9_]{22,}", 11),
    _row("gitlab-token", rb"gl(?:pat|ptt|dt|rt|cbt|soat|ft|agent|imt|oas|ffct)-[A-Za-z0-9_.-]{20,}", 6),
    _row("slack-token", rb"xox[abceoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}", 5),
    _row("slack-token", rb"xapp-[0-9]-[A-Z0-9]+-[0-9]+-[A-Za-z0-9]+", 5),
    _row("slack-webhook", rb"hooks\.slack\.com/(?:services|workflows)/[A-Z0-9]+/[A-Za-z0-9/]{20,}", 22),
    _row("stripe-key", rb"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}", 8),
    _row("webhook-secret", rb"whsec_[A-Za-z0-9+/=]{24,}", 6),
    _row("google-api-key", rb"AIza[A-Za-z0-9_-]{35}", 4),
    _row("google-oauth-token", rb"ya29\.[A-Za-z0-9_-]{20,}", 5),
    _row("google-oauth-secret", rb"GOCSPX-[A-Za-z0-9_-]{28}", 7),
    _named_row("gcp-service-account", rb"\"private_key_id\"[ ]*:[ ]*\"([0-9a-f]{40})(?:[^0-9a-f]|$)"),
    _named_row("azure-storage-key", rb"(?i)(?:account|shared(?:access)?)key=([A-Za-z0-9+/]{43,}={0,2})"),
    _named_row("azure-sas", rb"[?&]sig=([A-Za-z0-9%+/]{40,}(?:=|%3[Dd])?)"),
    _row("azure-client-secret", rb"[A-Za-z0-9_~.]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}", 0),
    _row("sendgrid-key", rb"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}", 3),
    _row("twilio-key", rb"SK[0-9a-f]{32}", 2),
    _row("npm-token", rb"npm_[A-Za-z0-9]{36}", 4),
    _row("pypi-token", rb"pypi-AgE[A-Za-z0-9_-]{50,}", 8),
    _row("huggingface-token", rb"(?:hf|api_org)_[A-Za-z0-9]{30,}", 3),
    _row("databricks-token", rb"dapi[0-9a-f]{32}(?:-[0-9])?", 4),
    _row("digitalocean-token", rb"do[oprt]_v1_[0-9a-f]{64}", 7),
    _row("telegram-bot-token", rb"[0-9]{8,10}:A[A-Za-z0-9_-]{34}", 0),
    _row("square-token", rb"sq0[a-z]{3}-[A-Za-z0-9_-]{22,}", 7),
    _row("square-token", rb"EAAA[lE][A-Za-z0-9_-]{59}", 4),
    _row("shopify-token", rb"shp(?:at|ca|pa|ss|ua)_[0-9a-fA-F]{32}", 6),
    _row("mailgun-key", rb"key-[0-9a-f]{32}", 4),
    _row("mailchimp-key", rb"[0-9a-f]{32}-us[0-9]{1,2}", 0),
    _row("grafana-token", rb"gl(?:sa|c)_[A-Za-z0-9_+/=]{32,}", 4),
    _row("docker-token", rb"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}", 9),
    _row("vault-token", rb"hv[bsr]\.[A-Za-z0-9_-]{24,}", 4),
    _row("linear-key", rb"lin_(?:api|oauth)_[A-Za-z0-9]{32,}", 8),
    _row("newrelic-key", rb"NR(?:AK|II|JS)-[A-Za-z0-9_-]{19,}", 5),
    _row("postman-key", rb"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", 5),
    _row("rubygems-key", rb"rubygems_[0-9a-f]{48}", 9),
    _row("brevo-key", rb"x(?:keysib|smtpsib)-[0-9a-f]{64}-[A-Za-z0-9]{16}", 8),
    _row("hubspot-token", rb"pat-(?:na|eu)[0-9]-[0-9a-f-]{36}", 8),
    _row("figma-token", rb"fig[dou]_?r?_[A-Za-z0-9_-]{40,}", 5),
    _row("sentry-token", rb"sntry[su]_[A-Za-z0-9_+/=-]{40,}", 7),
    _row("age-key", rb"AGE-SECRET-KEY-1[A-Z0-9]{58}", 16),
    _row("groq-key", rb"gsk_[A-Za-z0-9]{40,}", 4),
    _row("xai-key", rb"xai-[A-Za-z0-9]{60,}", 4),
    _row("perplexity-key", rb"pplx-[A-Za-z0-9]{40,}", 5),
    _row("replicate-token", rb"r8_[A-Za-z0-9]{37}", 3),
    _row("nvidia-key", rb"nvapi-[A-Za-z0-9_-]{60,}", 6),
    _row("atlassian-token", rb"ATATT3[A-Za-z0-9_=-]{60,}", 6),
    _row("supabase-token", rb"sb(?:p|_secret)_[A-Za-z0-9_-]{30,}", 4),
    _row("planetscale-token", rb"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}", 11),
    _row("discord-token", rb"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}", 0),
    _row("alibaba-key-id", rb"LTAI[A-Za-z0-9]{16,24}", 4),
    _row("contentful-token", rb"CFPAT-[A-Za-z0-9_-]{43}", 6),
    _row("doppler-token", rb"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}", 6),
    _row("okta-token", rb"SSWS [A-Za-z0-9_-]{42}", 5),
    _row("netlify-token", rb"nfp_[A-Za-z0-9_]{36}", 4),
    _row("jfrog-key", rb"AKCp[A-Za-z0-9]{60,}", 4),
    _row("heroku-key", rb"HRKU-[A-Za-z0-9_-]{30,}", 5),
    _row("fly-token", rb"fo1_[A-Za-z0-9_-]{43}", 4),
    _row("airtable-token", rb"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", 3),
    _row("notion-token", rb"(?:ntn|secret)_[A-Za-z0-9]{40,}", 4),
    Rule("access-code", 1, _SECRET, ACCESS_CODE, access_codes),
    Rule("credential-pair", 1, _SECRET, CREDENTIAL_PAIR, credential_pairs),
    Rule("spoken-password", 2, _SECRET, SPOKEN, spoken_passwords),
    Rule("assigned-secret", 1, _SECRET, ASSIGNMENT, assigned_secrets),
    Rule("drawn-token", 1, _SECRET, DRAWN, drawn_tokens),
)
