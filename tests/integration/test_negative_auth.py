"""Wrong tokens against a running gateway: one answer for all, a reason in the log, nothing anywhere else."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.key_server import KeyServer
from tests.fakes.rig import CHAT, RawAnswer, Rig, Seen, chat, no_trace, open_rig, read_one, until
from tests.fakes.tokens import (
    ISSUER,
    SigningKey,
    as_json,
    b64,
    claims,
    eddsa_key,
    es256_key,
    forge,
    hmac_signer,
    key_set,
    rs256_key,
)

pytestmark = pytest.mark.integration

OTHER_ISSUER = "https://issuer.example/demo"
MARK = "tide-tables-of-the-harbour"
ED, EC, RSA = eddsa_key("old"), es256_key("ec-1"), rs256_key("rsa-1")
STRANGER = eddsa_key("stranger")


class KeyServers:
    """Key servers on a loop of their own thread. `trap` is where tokens try to send the gateway."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.keys = KeyServer(key_set(ED, EC, RSA))
        self.trap = KeyServer(key_set(STRANGER))
        self.run(self.keys.start)
        self.run(self.trap.start)

    def run(self, work: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(work(), self._loop).result(10)

    def close(self) -> None:
        self.run(self.keys.stop)
        self.run(self.trap.stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


def issuers(url: str, **times: int) -> str:
    """Settings: two more issuers with keys from `url`, and times of the key sets."""
    head = "".join(f"{name} = {value}\n" for name, value in times.items())
    return (
        f'\n[[identity.issuers]]\nissuer = "{ISSUER}"\naudience = "tidegate"\nkeys = "{url}"\n'
        'tenants = ["acme"]\n'
        f'\n[[identity.issuers]]\nissuer = "{OTHER_ISSUER}"\naudience = "tidegate"\nkeys = "{url}"\n'
        'tenants = ["demo"]\nclient_ids = ["app-1"]\n'
        f"\n[identity]\n{head}"
    )


@pytest.fixture(scope="module")
def servers() -> Iterator[KeyServers]:
    both = KeyServers()
    yield both
    both.close()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, servers: KeyServers) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("auth")
    with open_rig(folder, extra=issuers(servers.keys.url)) as rig:
        yield rig


def now_claims(**changes: object) -> dict[str, object]:
    """Claims that are good now; a change to None takes a claim away."""
    now = int(time.time())
    return claims(**{"iat": now - 10, "nbf": now - 10, "exp": now + 600, **changes})


def good(key: SigningKey = ED, **changes: object) -> str:
    return forge(now_claims(**changes), key)


def with_header(**fields: object) -> str:
    return forge(now_claims(), ED, {"alg": "EdDSA", "typ": "JWT", "kid": "old", **fields})


def with_claim_text(text: str) -> str:
    """A token whose claims end with this JSON text."""
    return forge(as_json(now_claims(exp=None))[:-1] + text.encode() + b"}", ED)


def unsigned(algorithm: str) -> str:
    return f"{b64(as_json({'alg': algorithm, 'typ': 'JWT', 'kid': 'old'}))}.{b64(as_json(now_claims()))}."


def hs256() -> str:
    header = {"alg": "HS256", "typ": "JWT", "kid": RSA.key_id}
    return forge(now_claims(), RSA, header, hmac_signer(RSA.public_pem))


def flipped() -> str:
    token = good()
    return token[:-10] + ("A" if token[-10] != "A" else "B") + token[-9:]


def ask(rig: Rig, token: str, *lines: str) -> RawAnswer:
    """A chat request with this token."""
    body = json.dumps(chat(MARK)).encode()
    head = [f"POST {CHAT} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    head += [f"Authorization: Bearer {token}", f"Content-Length: {len(body)}", *lines]
    return rig.one("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)


def shape(answer: RawAnswer) -> tuple[int, dict[str, str], dict[str, Any]]:
    """What a client can tell two refusals apart by."""
    own = {"x-request-id", "x-tidegate-request-id", "date"}
    headers = {name: value for name, value in answer.headers.items() if name not in own}
    body = json.loads(answer.body)
    assert body.pop("request_id") == answer.headers["x-tidegate-request-id"]
    # The code and the sentence are part of the body: one for all causes.
    return answer.status, {k: v for k, v in headers.items() if k != "content-length"}, body


def assert_refused(answer: RawAnswer, seen: Seen, reason: str, *secret: str) -> None:
    """401; the reason only in one log line and one counter; no record, nothing upstream, no trace."""
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    [line] = seen.logged("authentication failed")
    assert line["reason"] == reason
    assert line["request_id"] == answer.headers["x-tidegate-request-id"]
    assert seen.grown(f'tidegate_identity_failures_total{{reason="{reason}"}}') == 1
    assert seen.records == [], "strangers must not be able to fill the audit log"
    assert seen.upstream_bytes == b""
    no_trace(answer, seen, MARK, *secret)


REFUSED: dict[str, tuple[Callable[[], str], str]] = {
    # 1 unsigned
    "alg-none": (lambda: unsigned("none"), "bad-alg"),
    "alg-None": (lambda: unsigned("None"), "bad-alg"),
    "alg-nOnE-with-signature": (lambda: with_header(alg="nOnE"), "bad-alg"),
    # 2 confusion of algorithms
    "hs256-with-public-pem": (hs256, "bad-alg"),
    "rs256-for-an-ed25519-key": (lambda: with_header(alg="RS256"), "bad-alg"),
    # 3 what a header may not say
    "kid-path": (lambda: with_header(kid="../../etc/passwd"), "bad-kid"),
    "kid-sql": (lambda: with_header(kid="' OR 1=1 --"), "bad-kid"),
    "kid-long": (lambda: with_header(kid="k" * 4_000), "bad-kid"),
    "kid-10kb": (lambda: with_header(kid="k" * 10_240), "token-too-large"),
    "kid-nul": (lambda: with_header(kid="old\x00"), "bad-kid"),
    "kid-not-text": (lambda: with_header(kid=7), "bad-kid"),
    "x5c": (lambda: with_header(x5c=["MIIB"]), "header-not-allowed"),
    "jwk": (lambda: with_header(jwk=dict(STRANGER.jwk)), "header-not-allowed"),
    "crit": (lambda: with_header(crit=["exp"]), "header-not-allowed"),
    # 4 times
    "exp-past": (lambda: good(exp=int(time.time()) - 120), "expired"),
    "nbf-future": (lambda: good(nbf=int(time.time()) + 300), "not-yet-valid"),
    "iat-future": (lambda: good(iat=int(time.time()) + 300), "issued-in-future"),
    "exp-string": (lambda: good(exp=str(int(time.time()) + 600)), "bad-exp"),
    "exp-1e400": (lambda: with_claim_text(',"exp":1e400'), "bad-exp"),
    "exp-far": (lambda: with_claim_text(',"exp":99999999999999999999'), "bad-exp"),
    "exp-nan": (lambda: with_claim_text(',"exp":NaN'), "malformed"),
    "exp-missing": (lambda: good(exp=None), "missing-exp"),
    # 5 meant for somebody else
    "aud-wrong": (lambda: good(aud="another-service"), "bad-audience"),
    "aud-missing": (lambda: good(aud=None), "bad-audience"),
    "aud-prefix": (lambda: good(aud="tidegate-admin"), "bad-audience"),
    "iss-unknown": (lambda: good(iss="https://issuer.example/nobody"), "bad-issuer"),
    "iss-missing": (lambda: good(iss=None), "bad-issuer"),
    "tenant-of-another-issuer": (lambda: good(tenant="demo"), "tenant-not-allowed"),
    "tenant-missing": (lambda: good(tenant=None), "tenant-not-allowed"),
    "azp-mismatch": (lambda: good(iss=OTHER_ISSUER, tenant="demo", azp="app-2"), "bad-client"),
    "azp-missing": (lambda: good(iss=OTHER_ISSUER, tenant="demo"), "bad-client"),
    "key-of-another-issuer": (lambda: good(iss="tidegate-development", tenant="demo"), "unknown-kid"),
    # 8 said twice
    "sub-twice": (
        lambda: with_claim_text(f',"exp":{int(time.time()) + 600},"sub":"root"'),
        "duplicate-claim",
    ),
    "tenant-twice-escaped": (
        lambda: with_claim_text(f',"exp":{int(time.time()) + 600},"ten\\u0061nt":"demo"'),
        "duplicate-claim",
    ),
    "alg-twice": (
        lambda: forge(now_claims(), ED, b'{"alg":"EdDSA","kid":"old","alg":"none"}'),
        "duplicate-claim",
    ),
    # plain forgery
    "signature-flipped": (flipped, "bad-signature"),
    "signed-by-a-stranger": (
        lambda: forge(now_claims(), STRANGER, {"alg": "EdDSA", "kid": "old"}),
        "bad-signature",
    ),
    "not-a-token": (lambda: "a.b.c" * 20, "malformed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_token_gets_401_and_leaves_a_reason_and_nothing_else(
    rig: Rig, servers: KeyServers, name: str
) -> None:
    make, reason = REFUSED[name]
    token = make()
    fetch_count = len(servers.keys.requests)
    with rig.watch() as seen:
        answer = ask(rig, token)
    assert_refused(answer, seen, reason, token[-24:], token[:24])
    assert len(servers.keys.requests) == fetch_count, "a wrong token makes nobody fetch"
    assert servers.trap.requests == []


@pytest.mark.parametrize("name", ["jku", "x5u", "kid", "iss"])
def test_an_address_in_a_token_is_never_asked(rig: Rig, servers: KeyServers, name: str) -> None:
    if name == "iss":
        token = forge(now_claims(iss=servers.trap.url), STRANGER)
    else:
        header = {"alg": "EdDSA", "kid": STRANGER.key_id, name: servers.trap.url}
        token = forge(now_claims(), STRANGER, header)
    reason = {"kid": "bad-kid", "iss": "bad-issuer"}.get(name, "header-not-allowed")
    with rig.watch() as seen:
        answer = ask(rig, token)
    assert_refused(answer, seen, reason, token[-24:])
    assert servers.trap.requests == []


def test_one_body_answers_every_cause(rig: Rig) -> None:
    shapes = [shape(ask(rig, make())) for make, _ in REFUSED.values()]
    body = json.dumps(chat(MARK)).encode()
    bare = f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
    for line in ("", "Authorization: Basic YTpi\r\n", "Authorization: Bearer\r\n", "Authorization:\r\n"):
        shapes.append(shape(rig.one(f"{bare}{line}Content-Length: {len(body)}\r\n\r\n".encode() + body)))
    shapes.append(shape(ask(rig, good(), f"Authorization: Bearer {good()}")))
    assert all(each == shapes[0] for each in shapes), [each for each in shapes if each != shapes[0]]


def test_two_authorization_headers_are_refused_whichever_is_good(rig: Rig) -> None:
    for first, second in ((good(), "a.b.c"), ("a.b.c", good()), (good(), good())):
        with rig.watch() as seen:
            answer = ask(rig, first, f"Authorization: Bearer {second}")
        assert_refused(answer, seen, "duplicate-authorization", MARK)


def test_a_token_in_the_query_is_refused_unread_and_unlogged(rig: Rig) -> None:
    token = good()
    with rig.watch() as seen:
        answers = [
            rig.one(
                f"{method} {path}?access_token={token} HTTP/1.1\r\nHost: h\r\n"
                "Content-Type: application/json\r\nContent-Length: 0\r\n\r\n".encode()
            )
            for method, path in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/v1/models/assistant"))
        ]
    assert [answer.status for answer in answers] == [400, 400, 400]
    assert {answer.code for answer in answers} == {"unexpected-query"}
    assert [line["reason"] for line in seen.logged("request refused")] == ["unexpected-query"] * 3
    assert seen.grown('tidegate_web_refusals_total{reason="unexpected-query"}') == 3
    assert seen.records == []
    assert seen.upstream_bytes == b""
    for answer in answers:
        no_trace(answer, seen, token)
    with rig.watch() as seen:
        # On the routes of operators a query says nothing and is repeated nowhere.
        answer = rig.one(f"GET /live?access_token={token} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    no_trace(answer, seen, token)


def test_good_tokens_of_every_algorithm_pass_beside_all_that(rig: Rig) -> None:
    for key in (ED, EC, RSA):
        token = good(key)
        with rig.watch() as seen:
            answer = ask(rig, token)
        assert answer.status == 200
        assert seen.reasons == [("admitted", "admitted"), ("completed", "completed")]
        assert {record["who"]["tenant"] for record in seen.records} == {"acme"}
        no_trace(answer, seen, token[-24:], MARK)


def test_a_token_that_only_begins_like_a_known_one_is_another_token(rig: Rig) -> None:
    token = good()
    assert ask(rig, token).status == 200
    head, _, signature = token.split(".")
    changed = json.loads(as_json(now_claims(sub="mallory")))
    with rig.watch() as seen:
        answer = ask(rig, f"{head}.{b64(as_json(changed))}.{signature}")
    assert_refused(answer, seen, "bad-signature", signature)


# -- rotation and outage ---------------------------------------------------------------------------


def test_a_new_key_is_taken_within_five_seconds(rig: Rig, servers: KeyServers) -> None:
    new = eddsa_key("rotated")
    servers.keys.body = key_set(ED, EC, RSA, new)
    began = time.monotonic()
    token = good(new)
    until(lambda: ask(rig, token).status == 200, 5.0)
    assert time.monotonic() - began < 5.0
    assert ask(rig, good()).status == 200


def test_ten_thousand_random_key_ids_cause_one_fetch_a_cooldown_and_hurt_no_valid_token(
    rig: Rig, servers: KeyServers
) -> None:
    valid, body = good(), json.dumps(chat(MARK)).encode()
    signature = b64(secrets.token_bytes(64))
    payload = b64(as_json(now_claims()))
    fetch_count = len(servers.keys.requests)
    began = time.monotonic()
    statuses: list[int] = []
    with rig.watch() as seen, rig.connect() as flood, rig.connect() as honest:
        for _ in range(100):
            batch = b"".join(_unknown_key(payload, signature) for _ in range(100))
            flood.sendall(batch)
            _read_401s(flood, 100)
            honest.sendall(rig.head(length=len(body)).replace(rig.token.encode(), valid.encode()) + body)
            statuses.append(read_one(honest).status)
    seconds = time.monotonic() - began
    assert statuses == [200] * 100
    assert seen.grown('tidegate_identity_failures_total{reason="unknown-kid"}') == 10_000
    # Both issuers of this gateway keep a set of their own; only one is asked for here.
    allowed = 1 + int(seconds / 4)
    assert len(servers.keys.requests) - fetch_count <= allowed
    assert [phase for phase, _ in seen.reasons].count("completed") == 100
    assert len(seen.reasons) == 200, "no record for a failed authentication"


def _unknown_key(payload: str, signature: str) -> bytes:
    header = b64(as_json({"alg": "EdDSA", "kid": secrets.token_hex(12)}))
    return (
        f"GET /v1/models HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {header}.{payload}.{signature}\r\n\r\n"
    ).encode()


def _read_401s(link: Any, count: int) -> None:
    data = b""
    while data.count(b"HTTP/1.1 401") < count or not data.endswith(b"}"):
        piece = link.recv(65_536)
        assert piece, "the gateway closed a connection of the flood"
        data += piece
    assert data.count(b"HTTP/1.1 ") == count


def test_in_a_key_outage_known_keys_serve_until_the_grace_ends_and_then_nothing_is_verified(
    tmp_path: Path,
) -> None:
    servers = KeyServers()
    times = {
        "refresh_seconds": 1,
        "cooldown_seconds": 1,
        "stale_grace_seconds": 2,
        "fetch_timeout_seconds": 1,
    }
    try:
        with open_rig(tmp_path, extra=issuers(servers.keys.url, **times)) as rig:
            token, fresh = good(), good(sub="bob")
            assert ask(rig, token).status == 200
            began = time.monotonic()
            servers.run(servers.keys.stop)
            while time.monotonic() - began < 2.0:
                assert ask(rig, token).status == 200, "inside refresh and grace"
                time.sleep(0.2)
            assert ask(rig, fresh).status == 200, "a token not seen before, of a known key"
            until(lambda: ask(rig, token).status == 503, 6.0)
            with rig.watch() as seen:
                for each in (token, fresh, good(RSA)):
                    answer = ask(rig, each)
                    assert answer.status == 503
                    assert answer.code == "key-set-unavailable"
                    assert int(answer.headers["retry-after"]) >= 1
                    no_trace(answer, seen, each[-24:], MARK)
            assert seen.records == []
            assert seen.upstream_bytes == b""
            assert seen.grown('tidegate_web_refusals_total{reason="key-set-unavailable"}') == 3
            assert ask(rig, rig.token).status == 200, "another issuer's keys are not out"
            servers.run(servers.keys.start)
            until(lambda: ask(rig, token).status == 200, 5.0)
    finally:
        servers.close()
