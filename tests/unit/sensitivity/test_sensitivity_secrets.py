"""Credentials: each kind found, and placeholders, code and hashes passed."""

from __future__ import annotations

import base64
import json

import pytest

from gateway.domain.label import Level, Tag
from gateway.sensitivity import secrets
from gateway.sensitivity.detectors import build_detectors
from gateway.sensitivity.placeholders import looks_random
from tests.unit.sensitivity.vectors import HEX, UPPER, token

DETECTORS = build_detectors()

URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"


def _jwt() -> str:
    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")

    return ".".join((part(b'{"alg": "HS256"}'), part(b'{"sub":"3277"}'), part(bytes(range(40, 72)))))


#: One made-up value for each kind.
KEYS = {
    "anthropic-key": "sk-ant-api03-" + token(80, 1),
    "openrouter-key": "sk-or-v1-" + token(64, 2, HEX),
    "openai-key": "sk-proj-" + token(48, 3),
    "aws-access-key-id": "AKIA" + token(16, 4, UPPER).upper(),
    "github-token": "ghp_" + token(36, 5),
    "gitlab-token": "glpat-" + token(20, 6),
    "slack-token": "xoxb-159449933013-921715115002-" + token(24, 7),
    "slack-webhook": "hooks.slack.com/services/T0AB12CD3/B0AB12CD3/" + token(24, 8),
    "stripe-key": "sk_live_" + token(24, 9),
    "webhook-secret": "whsec_" + token(32, 10),
    "google-api-key": "AIza" + token(35, 11),
    "google-oauth-token": "ya29." + token(60, 12),
    "google-oauth-secret": "GOCSPX-" + token(28, 13),
    "azure-client-secret": "abc8Q~" + token(34, 14),
    "sendgrid-key": "SG." + token(22, 15) + "." + token(43, 16),
    "twilio-key": "SK" + token(32, 17, HEX),
    "npm-token": "npm_" + token(36, 18),
    "pypi-token": "pypi-AgEIcHlwaS5vcmc" + token(60, 19),
    "huggingface-token": "hf_" + token(34, 20),
    "databricks-token": "dapi" + token(32, 21, HEX),
    "digitalocean-token": "dop_v1_" + token(64, 22, HEX),
    "telegram-bot-token": "812345679:AA" + token(33, 23),
    "square-token": "sq0csp-" + token(43, 24),
    "shopify-token": "shpat_" + token(32, 25, HEX),
    "mailgun-key": "key-" + token(32, 26, HEX),
    "mailchimp-key": token(32, 27, HEX) + "-us12",
    "grafana-token": "glsa_" + token(41, 28),
    "docker-token": "dckr_pat_" + token(27, 29),
    "vault-token": "hvs." + token(90, 30),
    "linear-key": "lin_api_" + token(40, 31),
    "newrelic-key": "NRAK-" + token(27, 32, UPPER),
    "postman-key": "PMAK-" + token(24, 33, HEX) + "-" + token(34, 34, HEX),
    "rubygems-key": "rubygems_" + token(48, 35, HEX),
    "brevo-key": "xkeysib-" + token(64, 36, HEX) + "-" + token(16, 37),
    "hubspot-token": "pat-eu1-08ead908-dc5c-4d5d-a063-396f23e06356",
    "figma-token": "figd_" + token(40, 38),
    "sentry-token": "sntrys_" + token(60, 39),
    "age-key": "AGE-SECRET-KEY-1" + token(58, 40, UPPER).upper(),
    "groq-key": "gsk_" + token(52, 41),
    "xai-key": "xai-" + token(80, 42),
    "perplexity-key": "pplx-" + token(48, 43),
    "replicate-token": "r8_" + token(37, 44),
    "nvidia-key": "nvapi-" + token(64, 45),
    "atlassian-token": "ATATT3" + token(180, 46),
    "supabase-token": "sbp_" + token(40, 47),
    "planetscale-token": "pscale_tkn_" + token(43, 48),
    "discord-token": "M" + token(25, 49) + "." + token(6, 50) + "." + token(38, 51),
    "alibaba-key-id": "LTAI" + token(20, 52),
    "contentful-token": "CFPAT-" + token(43, 53),
    "doppler-token": "dp.pt." + token(43, 54),
    "okta-token": "SSWS " + token(42, 55),
    "netlify-token": "nfp_" + token(36, 56),
    "jfrog-key": "AKCp" + token(69, 57),
    "heroku-key": "HRKU-" + token(60, 58),
    "fly-token": "fo1_" + token(43, 59),
    "airtable-token": "pat" + token(14, 60) + "." + token(64, 61, HEX),
    "notion-token": "ntn_" + token(46, 62),
    "jwt": _jwt(),
}

#: (kind, text, the secret in it).
IN_CONTEXT = [
    ("aws-secret-access-key", "aws_secret_access_key = {}", token(40, 70)),
    ("gcp-service-account", '{{"type": "service_account", "private_key_id": "{}"}}', token(40, 71, HEX)),
    ("azure-storage-key", "DefaultEndpointsProtocol=https;AccountKey={};", token(86, 72) + "=="),
    ("azure-sas", "https://a.blob.core.windows.net/c?sv=2024&sig={}&se=1", token(43, 73) + "%3D"),
    ("bearer-token", "Authorization: Bearer {}", token(40, 74)),
    ("basic-credentials", "Authorization: Basic {}", base64.b64encode(b"kim:Copper58").decode()),
    ("url-password", "mysql://report:{}@db.prod.corp:3306/dw", "JTdjjuneImWG"),
    ("url-password", "redis://:{}@cache:6379/0", "h4rd-To-Gue55"),
    ("url-password", "see https://kim:{}@host.corp/x", "Wiesel2207"),
    ("assigned-secret", 'config: {{"client_secret": "{}"}}', token(32, 75)),
    ("assigned-secret", "export DB_PASSWORD={} && run", "w1nter-is-c0ming"),
    ("assigned-secret", "api_key: '{}'", token(24, 76)),
    ("access-code", "Le code d'accès à la salle serveur est {}, ne le notez pas.", "4419B"),
    ("access-code", "Der Zugangscode lautet {}.", "88213"),
    ("credential-pair", "exposed: edward.kim@bytecore.com / {}.", "W!nter2024"),
    ("drawn-token", "session cookie: {}", token(40, 77)),
    ("spoken-password", "login with password '{}' was found", "KnightRider!"),
    ("spoken-password", "Login is admin and the passphrase is {}, keep it.", "Copper^Lantern58"),
    ("spoken-password", "Das Passwort für den Tresorraum lautet {}", "Wiesel!2207"),
]


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_finds_each_kind_of_key(kind: str) -> None:
    value = KEYS[kind]
    text = f'CI uses "{value}" today'
    (finding,) = DETECTORS.find(text)
    assert text[finding.start : finding.end] == value
    assert (finding.kind, finding.label.level, finding.label.tags) == (
        kind,
        Level.RESTRICTED,
        frozenset({Tag.SECRET}),
    )


@pytest.mark.parametrize(("kind", "template", "value"), IN_CONTEXT)
def test_finds_values_that_a_name_or_form_makes_secret(kind: str, template: str, value: str) -> None:
    text = template.format(value)
    found = [(finding.kind, text[finding.start : finding.end]) for finding in DETECTORS.find(text)]
    assert any(name == kind and value in span for name, span in found), found


def test_every_kind_of_secret_has_a_vector() -> None:
    kinds = {rule.kind for rule in secrets.RULES if Tag.SECRET in rule.label.tags}
    assert kinds == set(KEYS) | {kind for kind, _, _ in IN_CONTEXT} | {"private-key"}


BODY = "\n".join(token(64, seed) for seed in range(80, 86))


@pytest.mark.parametrize(
    "name", ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
)
def test_finds_a_private_key_from_marker_to_marker(name: str) -> None:
    key = f"-----BEGIN {name}-----\n{BODY}\n-----END {name}-----"
    text = f"> {key} <"
    (finding,) = DETECTORS.find(text)
    assert (finding.kind, text[finding.start : finding.end]) == ("private-key", key)


def test_finds_a_private_key_inside_json() -> None:
    text = json.dumps({"private_key": f"-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----\n"})
    assert "private-key" in {finding.kind for finding in DETECTORS.find(text)}


def test_a_private_key_without_end_covers_all_that_follows() -> None:
    text = f"-----BEGIN EC PRIVATE KEY-----\n{BODY}\nand so on"
    (finding,) = DETECTORS.find(text)
    assert (finding.start, finding.end) == (0, len(text))


@pytest.mark.parametrize(
    "text",
    [
        'if text.startswith("-----BEGIN RSA PRIVATE KEY-----"): raise ValueError',
        "-----BEGIN PUBLIC KEY-----",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "ghp_XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
        "AKIAXXXXXXXXXXXXXXXX",
        "task-" + "management" * 3,
        "risk-" + token(30, 90),
        "sk-circle-fade-dot-animation",
        "password: ${DB_PASSWORD}",
        "password: {{ vault.db_password }}",
        "password = os.environ['PASSWORD']",
        "password: string",
        "api_key = config.get_api_key",
        "token: your_token_here",
        "secret = 'changeme'",
        "mysql://user:password@localhost/db",
        "postgres://user:${PASSWORD}@host/db",
        "https://host/path:8080@2x",
        "Authorization: Bearer <token>",
        "basic training for all staff",
        "is the sauce recipe secret? no, it's on the website.",
        "eyJub3QiOiJqd3QifQ.eyJhIjoxfQ.c2lnbmF0dXJl",
        "The password must have 8 characters.",
        "private_key_id: see the console",
    ],
)
def test_passes_placeholders_code_and_prose(text: str) -> None:
    assert DETECTORS.find(text) == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"aB3dE5gH7j", True), (b"xxxxxxxxxx1", False), (b"abcdefghij", False), (b"1111111111111111", False)],
)
def test_tells_random_values(value: bytes, expected: bool) -> None:
    assert looks_random(value) is expected


@pytest.mark.parametrize(
    "text",
    [
        "password: todoHunter2!9",
        "db_password=Sample-Hunter2!9",
        "password=placeholderHunter2",
        "postgres://kim:exampleHunter2!9@db.vestfjord.no/x",
        "login is replaceKx82!mw",
        "ghp_xxxxxx" + token(30, 5),
        "token = '" + token(20, 6) + "xxxxxx'",
        "password=Hunter2...9xK!",
    ],
)
def test_a_placeholder_word_clears_no_secret_beside_it(text: str) -> None:
    assert any(finding.label.level is Level.RESTRICTED for finding in DETECTORS.find(text))


@pytest.mark.parametrize(
    "text",
    [
        "password=your-password-here1",
        "api_key=YOUR_API_KEY_1234",
        "password: changeme123",
        "api_key: 'sk-xxxxxxxxxxxxxxxxxxxxxxxx1234'",
        "ghp_" + "x" * 36,
        "api_key: sk-abc...xyz12",
        "SECRET_KEY=replace-this-with-a-real-key-1",
        "password = '********12'",
    ],
)
def test_passes_a_value_that_is_mostly_a_placeholder(text: str) -> None:
    assert DETECTORS.find(text) == ()


def test_a_key_id_of_a_service_account_needs_no_closing_quote() -> None:
    value = token(40, 9, HEX)
    for end in ('"', "", " ", "\n"):
        (finding,) = DETECTORS.find(f'x "private_key_id": "{value}{end}')
        assert finding.kind == "gcp-service-account"
    longer = DETECTORS.find(f'"private_key_id": "{value}ab"')
    assert "gcp-service-account" not in {finding.kind for finding in longer}
