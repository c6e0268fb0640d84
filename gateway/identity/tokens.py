"""One bearer token, read strictly and verified: pure, without a cache and without keys of its own.

Order: shape and size, header, payload (`read_token`); then the signature (`verify_signature`); then
what the claims say (`check_claims`). No claim is judged before the signature holds.

Invariants
1. Of the header only `alg`, `kid` and `typ` are read, and nothing else may stand there: `jku`, `x5u`,
   `jwk`, `x5c`, `crit` refuse the token before anything is looked up.
2. The algorithm is that of the key, and the issuer must allow it.
3. Every refusal has the same public sentence; the code tells the log which it was.

Source: RFC 7515, 7519, 8725 (best practices), 9068 (access tokens).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import jwt
from jwt.exceptions import InvalidSignatureError, PyJWTError

from gateway.errors import NotAuthenticated
from gateway.identity.keys import VerificationKey, is_key_id
from gateway.identity.strict_json import DuplicateKey, NotStrict, parse_object
from gateway.settings import IssuerSettings

#: Largest token that is read, in characters.
MAX_TOKEN_CHARACTERS = 8 * 1024
ALGORITHMS = ("EdDSA", "ES256", "RS256")
#: The one sentence that every failed authentication gets.
PUBLIC_SENTENCE = "A valid bearer token is required: send `Authorization: Bearer <token>`."

_SHAPE = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_HEADER_NAMES = frozenset({"alg", "kid", "typ"})
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
#: Words for roles and scopes (RFC 6749 scope-token, without the punctuation nobody uses).
_GRANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_MAX_GRANT_COUNT = 128
_MAX_NAME_CHARACTERS = 255
#: Seconds since 1970 beyond this are no time that anybody means (year 5138).
_MAX_TIME_SECONDS = 100_000_000_000

_JWS = jwt.PyJWS(algorithms=list(ALGORITHMS))


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    """A token that is well-formed and no more. Nothing in it may be believed yet."""

    algorithm: str
    key_id: str
    issuer: str
    text: str = field(repr=False)
    payload: bytes = field(repr=False)
    claims: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class VerifiedClaims:
    """What a token says after its signature, its times and its addressees were checked."""

    issuer: str
    tenant: str
    subject: str = field(repr=False)
    client_id: str
    roles: frozenset[str]
    scopes: frozenset[str]
    expires_at_seconds: int
    token_id: str = field(default="", repr=False)


def refusal(code: str) -> NotAuthenticated:
    """The refusal for one cause: its own code, the common sentence."""
    return NotAuthenticated(PUBLIC_SENTENCE, code=code)


def bearer_token(authorization: str) -> str:
    """The token of an `Authorization` value: scheme Bearer in any case, one blank, nothing after it.

    Raises `NotAuthenticated` (missing-token, bad-scheme, token-too-large).
    """
    scheme, blank, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not blank:
        raise refusal("bad-scheme")
    if not token:
        raise refusal("missing-token")
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise refusal("token-too-large")
    return token


def read_token(token: str) -> UnverifiedToken:
    """Header and claims of a token, without believing them.

    Refuses: over 8 KiB, other than three base64url segments in canonical form (malformed), equal keys
    (duplicate-claim), header fields other than alg, kid, typ (header-not-allowed), an algorithm other
    than EdDSA, ES256, RS256 (bad-alg), a key id that is none (bad-kid), no issuer (bad-issuer).
    """
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise refusal("token-too-large")
    shape = _SHAPE.fullmatch(token)
    if shape is None:
        # A token with `alg: none` has an empty third segment; say what it is.
        raise refusal("bad-alg" if _says_none(token) else "malformed")
    header = _object(_decode(shape[1]))
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS or not isinstance(algorithm, str):
        raise refusal("bad-alg")
    if not header.keys() <= _HEADER_NAMES:
        raise refusal("header-not-allowed")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise refusal("bad-typ")
    key_id = header.get("kid")
    if not isinstance(key_id, str) or not is_key_id(key_id):
        raise refusal("bad-kid")
    payload = _decode(shape[2])
    _decode(shape[3])
    claims = _object(payload)
    issuer = claims.get("iss")
    if not isinstance(issuer, str):
        raise refusal("bad-issuer")
    return UnverifiedToken(algorithm, key_id, issuer, token, payload, claims)


def verify_signature(token: UnverifiedToken, key: VerificationKey, issuer: IssuerSettings) -> None:
    """Return when `key` signed exactly this token.

    Raises `NotAuthenticated`: bad-alg (not the key's algorithm, or not allowed for the issuer),
    bad-signature.
    """
    if token.algorithm != key.algorithm or token.algorithm not in issuer.algorithms:
        raise refusal("bad-alg")
    try:
        payload = _JWS.decode(token.text, key.public_key, algorithms=[key.algorithm])
    except InvalidSignatureError:
        raise refusal("bad-signature") from None
    except PyJWTError:
        # fail-closed: whatever else the library dislikes, the token is not verified.
        raise refusal("malformed") from None
    if payload != token.payload:
        # fail-closed: two readers of the same token disagree, so neither is believed.
        raise refusal("malformed")


def check_claims(
    claims: Mapping[str, object], issuer: IssuerSettings, now_seconds: float, leeway_seconds: int
) -> VerifiedClaims:
    """What verified claims say, when they are in time and meant for this gateway.

    `exp`, and when present `nbf` and `iat`, are integers in Unix seconds. Valid while
    now < exp + leeway, nbf ≤ now + leeway, iat ≤ now + leeway.
    Raises `NotAuthenticated`: bad-issuer, missing-exp, bad-exp, expired, bad-nbf, not-yet-valid,
    bad-iat, issued-in-future, bad-audience, bad-client, tenant-not-allowed, bad-subject, bad-roles,
    bad-scopes.
    """
    if claims.get("iss") != issuer.issuer:
        raise refusal("bad-issuer")
    expires_at_seconds = _check_times(claims, now_seconds, leeway_seconds)
    _check_audience(claims.get("aud"), issuer.audience)
    client_id = _client_id(claims, issuer.client_ids)
    tenant = claims.get(issuer.tenant_claim)
    if not isinstance(tenant, str) or tenant not in issuer.tenants:
        raise refusal("tenant-not-allowed")
    return VerifiedClaims(
        issuer=issuer.issuer,
        tenant=tenant,
        subject=_name(claims.get("sub"), "bad-subject"),
        client_id=client_id,
        roles=_grants(claims.get(issuer.roles_claim, []), "bad-roles"),
        scopes=_scopes(claims),
        expires_at_seconds=expires_at_seconds,
        token_id=_token_id(claims.get("jti")),
    )


def _token_id(value: object) -> str:
    """The `jti`, or nothing for one that could not be told from others: only one-time tokens need it."""
    return value if isinstance(value, str) and len(value) <= _MAX_NAME_CHARACTERS else ""


def _says_none(token: str) -> bool:
    """True when the header names an algorithm that is not ours, whatever the other segments are."""
    head = token.partition(".")[0]
    try:
        return _object(_decode(head)).get("alg") not in ALGORITHMS
    except NotAuthenticated:
        return False


def _decode(segment: str) -> bytes:
    """Bytes of one segment; only the one spelling that encodes them is taken."""
    try:
        value = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except (binascii.Error, ValueError):
        raise refusal("malformed") from None
    # Unused low bits and stray characters decode too; two spellings of one token must not exist.
    if base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii") != segment:
        raise refusal("malformed")
    return value


def _object(document: bytes) -> dict[str, object]:
    try:
        return parse_object(document)
    except DuplicateKey:
        raise refusal("duplicate-claim") from None
    except NotStrict:
        raise refusal("malformed") from None


def _time(value: object, code: str) -> int:
    """An integer time. A string, a float, a boolean or an impossible year is none."""
    if type(value) is not int or not 0 <= value <= _MAX_TIME_SECONDS:
        raise refusal(code)
    return value


def _check_times(claims: Mapping[str, object], now_seconds: float, leeway_seconds: int) -> int:
    if "exp" not in claims:
        raise refusal("missing-exp")
    expires_at_seconds = _time(claims["exp"], "bad-exp")
    if now_seconds >= expires_at_seconds + leeway_seconds:
        raise refusal("expired")
    if "nbf" in claims and _time(claims["nbf"], "bad-nbf") > now_seconds + leeway_seconds:
        raise refusal("not-yet-valid")
    if "iat" in claims and _time(claims["iat"], "bad-iat") > now_seconds + leeway_seconds:
        raise refusal("issued-in-future")
    return expires_at_seconds


def _check_audience(value: object, expected: str) -> None:
    """RFC 7519 §4.1.3: one string, or an array of strings that names us."""
    audiences = [value] if isinstance(value, str) else value
    if not isinstance(audiences, list) or not all(isinstance(item, str) for item in audiences):
        raise refusal("bad-audience")
    if expected not in audiences:
        raise refusal("bad-audience")


def _client_id(claims: Mapping[str, object], allowed: tuple[str, ...]) -> str:
    """The application: `azp` (OpenID) or `client_id` (RFC 9068); when both stand, they agree."""
    named = [claims[name] for name in ("azp", "client_id") if name in claims]
    if not named:
        if allowed:
            raise refusal("bad-client")
        return ""
    client_id = _name(named[0], "bad-client")
    if named[-1] != client_id or (allowed and client_id not in allowed):
        raise refusal("bad-client")
    return client_id


def _name(value: object, code: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME_CHARACTERS or not value.isprintable():
        raise refusal(code)
    return value


def _grants(value: object, code: str) -> frozenset[str]:
    if not isinstance(value, list) or len(value) > _MAX_GRANT_COUNT:
        raise refusal(code)
    words: set[str] = set()
    for item in value:
        if not isinstance(item, str) or _GRANT.fullmatch(item) is None:
            raise refusal(code)
        words.add(item)
    return frozenset(words)


def _scopes(claims: Mapping[str, object]) -> frozenset[str]:
    """`scope` (RFC 8693: words between blanks) or `scp` (an array, or such a string); not both."""
    if "scope" in claims and "scp" in claims:
        # fail-closed: two grants that may differ; neither is chosen.
        raise refusal("bad-scopes")
    value = claims.get("scope", claims.get("scp", []))
    return _grants(value.split(" ") if isinstance(value, str) and value else value or [], "bad-scopes")
