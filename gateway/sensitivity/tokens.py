"""Tokens whose issuer is known: by a prefix of its own, or by the issuer's name beside the value.

Adding a kind is adding a line and a vector to its test. Sources: the issuers' documentation; for the choice
of kinds and prefixes also the public rule set of gitleaks (MIT), read as a list of facts. The expressions
are this project's.
"""

from __future__ import annotations

import re

from gateway.domain.label import Tag
from gateway.sensitivity.placeholders import is_masked, looks_random
from gateway.sensitivity.rule import Examine, Rule, Spans, restricted
from gateway.sensitivity.secrets import prefixed
from gateway.sensitivity.views import View

_SECRET = restricted(Tag.SECRET)

#: (kind, expression, leading bytes that are prefix).
PREFIXES: tuple[tuple[str, bytes, int], ...] = (
    ("onepassword-secret-key", rb"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}"
        rb"|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}", 3),
    ("onepassword-service-token", rb"ops_eyJ[A-Za-z0-9+/]{100,}={0,3}", 7),
    ("adobe-client-secret", rb"p8e-[A-Za-z0-9]{32}", 4),
    ("alibaba-sts-token", rb"STS\.[A-Za-z0-9]{20,}", 4),
    ("artifactory-reference-token", rb"cmVmd[A-Za-z0-9]{59}", 5),
    ("authress-access-key", rb"(?:sc|ext|scauth"
        rb"|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,}", 5),  # noqa: E501
    ("aws-bedrock-key", rb"ABSK[A-Za-z0-9+/]{100,}={0,2}", 4),
    ("aws-bedrock-short-key", rb"bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9+/=]*", 12),
    ("azure-devops-token", rb"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}", 0),
    ("azure-function-key", rb"[A-Za-z0-9_-]{44}AzFu[A-Za-z0-9_=-]{8}", 0),
    ("azure-acr-key", rb"[A-Za-z0-9+/]{42}\+ACR[A-D][A-Za-z0-9+/]{6}", 0),
    ("beamer-token", rb"b_[A-Za-z0-9=_-]{44}", 2),
    ("bitbucket-app-password", rb"ATBB[A-Za-z0-9]{32}", 4),
    ("buildkite-token", rb"bk(?:ua|aat)_[0-9a-f]{40}", 5),
    ("cerebras-key", rb"csk-[a-z0-9]{40,}", 4),
    ("clickhouse-key", rb"4b1d[A-Za-z0-9]{38}", 4),
    ("clojars-token", rb"(?i)CLOJARS_[a-z0-9]{60}", 8),
    ("cloudflare-origin-key", rb"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}", 5),
    ("cloudinary-url", rb"cloudinary://[0-9]{10,}:[A-Za-z0-9_-]{20,}@[A-Za-z0-9]+", 13),
    ("circleci-token", rb"CCIPAT_[A-Za-z0-9]{20,}_[0-9a-f]{40}", 7),
    ("databricks-oauth-secret", rb"dose[0-9a-f]{32}", 4),
    ("defined-networking-token", rb"dnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}", 6),
    ("deno-token", rb"dd[pw]_[A-Za-z0-9]{36}", 4),
    ("dropbox-token", rb"sl\.(?:u\.)?[A-Za-z0-9=_-]{100,}", 3),
    ("duffel-token", rb"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}", 12),
    ("dynatrace-token", rb"dt0[a-z]01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}", 7),
    ("easypost-key", rb"EZ[AT]K[A-Za-z0-9]{54}", 4),
    ("facebook-page-token", rb"EAA[MC][A-Za-z0-9]{100,}", 4),
    ("facebook-app-token", rb"[0-9]{15,16}\|[0-9A-Za-z_-]{27}", 0),
    ("flutterwave-key", rb"FLW(?:SEC|PUB)K(?:_TEST)?-[0-9a-hA-Z]{12,}(?:-X)?", 8),
    ("fly-macaroon", rb"fm[12][ar]?_[A-Za-z0-9+/]{80,}={0,3}", 4),
    ("frameio-token", rb"fio-u-[A-Za-z0-9_=-]{64}", 6),
    ("gitlab-runner-token", rb"GR1348941[A-Za-z0-9_-]{20}", 9),
    ("gitlab-feature-token", rb"glffct-[A-Za-z0-9_-]{20}", 7),
    ("gitlab-agent-token", rb"glagent-[A-Za-z0-9_-]{50}", 8),
    ("gitlab-session", rb"_gitlab_session=[0-9a-z]{32}", 16),
    ("gocardless-token", rb"live_[A-Za-z0-9_=-]{40}", 5),
    ("grafana-api-key", rb"eyJrIjoi[A-Za-z0-9+/]{60,}={0,2}", 8),
    ("harness-key", rb"[ps]at\.[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}", 4),
    ("hashicorp-terraform-token", rb"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}", 0),
    ("heroku-oauth-key", rb"HRKU-AA[A-Za-z0-9_-]{58}", 7),
    ("infracost-key", rb"ico-[A-Za-z0-9]{32}", 4),
    ("intra42-secret", rb"s-s4t2(?:ud|af)-[0-9a-f]{64}", 9),
    ("langsmith-key", rb"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}", 8),
    ("langfuse-key", rb"sk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", 6),
    ("launchdarkly-key", rb"(?:sdk|api|mob)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", 4),
    ("lob-key", rb"(?:live|test)_[0-9a-f]{35}", 5),
    ("mailersend-key", rb"mlsn\.[0-9a-f]{64}", 5),
    ("mailgun-public-key", rb"pubkey-[0-9a-f]{32}", 7),
    ("mailgun-signing-key", rb"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}", 0),
    ("mandrill-key", rb"md-[A-Za-z0-9_-]{22}", 3),
    ("mapbox-token", rb"[ps]k\.eyJ[A-Za-z0-9_-]{50,}\.[A-Za-z0-9_-]{22}", 6),
    ("maxmind-key", rb"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", 0),
    ("mercadopago-token", rb"APP_USR-[0-9]{12,}-[0-9]{6}-[0-9a-f]{32}", 8),
    ("mongodb-atlas-key", rb"mdb_sa_(?:id|sk)_[A-Za-z0-9_-]{30,}", 10),
    ("neon-key", rb"napi_[A-Za-z0-9]{60,}", 5),
    ("npm-legacy-token", rb"//registry\.npmjs\.org/:_authToken=[0-9a-f-]{36}", 34),
    ("nuget-key", rb"oy2[a-z0-9]{43}", 3),
    ("octopus-key", rb"API-[A-Z0-9]{26,}", 4),
    ("openshift-token", rb"sha256~[A-Za-z0-9_-]{43}", 7),
    ("openai-session", rb"sess-[A-Za-z0-9]{40}", 5),
    ("paddle-key", rb"pdl_(?:live|sdbx)_apikey_[A-Za-z0-9_]{40,}", 16),
    ("paypal-braintree-token", rb"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}", 24),
    ("persona-key", rb"persona_(?:production|sandbox)_[0-9a-f-]{36}", 16),
    ("pinecone-key", rb"pcsk_[A-Za-z0-9_]{60,}", 5),
    ("plaid-token", rb"access-(?:sandbox|development"
        rb"|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", 15),
    ("posthog-key", rb"ph[cx]_[A-Za-z0-9]{40,}", 4),
    ("prefect-key", rb"pn[ub]_[A-Za-z0-9]{36}", 4),
    ("pulumi-token", rb"pul-[0-9a-f]{40}", 4),
    ("razorpay-key", rb"rzp_(?:live|test)_[A-Za-z0-9]{14,}", 9),
    ("readme-token", rb"rdme_[a-z0-9]{70}", 5),
    ("resend-key", rb"re_[A-Za-z0-9]{8,}_[A-Za-z0-9]{20,}", 3),
    ("runpod-key", rb"rpa_[A-Z0-9]{40,}", 4),
    ("salesforce-session", rb"00D[A-Za-z0-9]{12}![A-Za-z0-9_.]{80,}", 3),
    ("scalingo-token", rb"tk-us-[A-Za-z0-9_-]{48}", 6),
    ("segment-key", rb"sgp_[A-Za-z0-9]{60,}", 4),
    ("settlemint-token", rb"sm_[aps]at_[A-Za-z0-9]{16}", 7),
    ("shippo-token", rb"shippo_(?:live|test)_[0-9a-fA-F]{40}", 12),
    ("sidekiq-credential", rb"[0-9a-f]{8}:[0-9a-f]{8}@(?:gems|enterprise)\.contribsys\.com", 0),
    ("sonar-token", rb"sq[apu]_[0-9a-f]{40}", 4),
    ("sourcegraph-token", rb"sgp_(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}", 4),
    ("stackhawk-key", rb"hawk\.[A-Za-z0-9_-]{20}\.[A-Za-z0-9_-]{20}", 5),
    ("statsig-key", rb"secret-[A-Za-z0-9]{40,}", 7),
    ("tailscale-key", rb"tskey-[a-z]+-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}", 6),
    ("tavily-key", rb"tvly-(?:dev-)?[A-Za-z0-9]{30,}", 5),
    ("teams-webhook", rb"webhook\.office\.com/webhookb2/[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36}", 29),  # noqa: E501
    ("discord-webhook", rb"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,}", 25),
    ("together-key", rb"tgp_v1_[A-Za-z0-9_-]{40,}", 7),
    ("trello-token", rb"ATTA[0-9a-f]{64,}", 4),
    ("typeform-token", rb"tfp_[A-Za-z0-9_.=-]{44,}", 4),
    ("twilio-account-sid", rb"AC[0-9a-f]{32}", 2),
    ("vercel-token", rb"vc[pkr]_[A-Za-z0-9]{24,}", 4),
    ("voyage-key", rb"pa-[A-Za-z0-9_-]{43}", 3),
    ("wandb-key", rb"wandb_v1_[A-Za-z0-9_]{40,}", 9),
    ("weights-local-key", rb"local-[0-9a-f]{40}", 6),
    ("woocommerce-key", rb"c[ks]_[0-9a-f]{40}", 3),
    ("xata-key", rb"xau_[A-Za-z0-9]{40,}", 4),
    ("yandex-token", rb"(?:t1\.[A-Za-z0-9_-]+={0,2}\.[A-Za-z0-9_-]{86}|AQVN[A-Za-z0-9_-]{35,38}"
        rb"|y0_[A-Za-z0-9_-]{50,})", 4),
    ("zapier-webhook", rb"hooks\.zapier\.com/hooks/catch/[0-9]+/[A-Za-z0-9]{5,}", 30),
    ("wireguard-key", rb"(?i)privatekey[ ]*=[ ]*[A-Za-z0-9+/]{43}=", 10),
    ("putty-key", rb"PuTTY-User-Key-File-[23]: [a-z0-9-]+", 30),
    ("kubeconfig-key", rb"client-key-data:[ ]*[A-Za-z0-9+/]{40,}={0,2}", 16),
    ("kubernetes-token", rb"(?i)\btoken:[ ]*eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}", 10),  # noqa: E501
    ("docker-config-auth", rb"\"auth\"[ ]*:[ ]*\"[A-Za-z0-9+/]{16,}={0,2}\"", 9),
    ("htpasswd-hash", rb"\$(?:apr1|2[aby]|5|6|y|argon2id?)\$[A-Za-z0-9./$=,+-]{28,}", 4),
    ("netrc-password", rb"(?i)machine[ \t]+[a-z0-9.-]+[ \t\r\n]+login[ \t]+[^ \t\r\n]+[ \t\r\n]+password[ \t]+[^ \t\r\n]{4,}", 8),  # noqa: E501
    ("aws-mws-key", rb"amzn\.mws\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", 9),
    ("bitcoin-private-key", rb"[5KL][1-9A-HJ-NP-Za-km-z]{50,51}", 0),
    ("extended-private-key", rb"[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,}", 4),
)  # fmt: skip

#: (kind, issuer's names, expression of the value).
_HEX32, _HEX40, _HEX64, _AN32 = r"[0-9a-f]{32}", r"[0-9a-f]{40}", r"[0-9a-f]{64}", r"[A-Za-z0-9]{32}"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NAMED: tuple[tuple[str, str, str], ...] = (
    ("adafruit-key", "adafruit", r"[A-Za-z0-9_-]{32}"),
    ("adobe-client-id", "adobe", _HEX32),
    ("airtable-key", "airtable", r"[A-Za-z0-9]{17}"),
    ("algolia-key", "algolia", r"[A-Za-z0-9]{32}"),
    ("alibaba-secret", "alibaba", r"[A-Za-z0-9]{30}"),
    ("asana-secret", "asana", r"[A-Za-z0-9]{32}"),
    ("atlassian-key", "atlassian|confluence|jira", r"[A-Za-z0-9]{24}"),
    ("bitbucket-secret", "bitbucket", r"[A-Za-z0-9_-]{64}|[A-Za-z0-9]{32}"),
    ("bittrex-key", "bittrex", _AN32),
    ("cloudflare-key", "cloudflare", r"[A-Za-z0-9_-]{40}|[0-9a-f]{37}"),
    ("codecov-token", "codecov", _AN32),
    ("cohere-key", "cohere|co_api_key", r"[A-Za-z0-9]{40}"),
    ("coinbase-token", "coinbase", r"[A-Za-z0-9_-]{64}"),
    ("confluent-secret", "confluent", r"[A-Za-z0-9+/]{64}|[A-Z0-9]{16}"),
    ("contentful-delivery-token", "contentful", r"[A-Za-z0-9=_-]{43}"),
    ("datadog-key", "datadog|dd_api|dd_app", r"[A-Za-z0-9]{40}|[0-9a-f]{32}"),
    ("deepl-key", "deepl", _UUID + r"(?::fx)?"),
    ("deepseek-key", "deepseek", r"sk-[0-9a-f]{32}"),
    ("discord-secret", "discord", r"[0-9a-f]{64}|[A-Za-z0-9=_-]{32}"),
    ("droneci-token", "drone", _AN32),
    ("dropbox-key", "dropbox", r"[a-z0-9]{15}|[a-z0-9]{11}A{10}[A-Za-z0-9_=-]{43}"),
    ("elevenlabs-key", "elevenlabs|xi[-_]api", r"(?:sk_)?[0-9a-f]{32,48}"),
    ("etsy-token", "etsy", r"[a-z0-9]{24}"),
    ("facebook-secret", "facebook", _HEX32),
    ("fastly-token", "fastly", r"[A-Za-z0-9_-]{32}"),
    ("finicity-key", "finicity", r"[0-9a-f]{32}|[A-Za-z0-9]{20}"),
    ("finnhub-key", "finnhub", r"[a-z0-9]{20}"),
    ("flickr-token", "flickr", _AN32),
    ("freshbooks-token", "freshbooks", r"[a-z0-9]{64}"),
    ("gitter-token", "gitter", r"[A-Za-z0-9_-]{40}"),
    ("heroku-uuid-key", "heroku", _UUID),
    ("hubspot-key", "hubspot", _UUID),
    ("ibm-cloud-key", "ibm|bluemix", r"[A-Za-z0-9_-]{44}"),
    ("intercom-key", "intercom", r"[A-Za-z0-9=_-]{60}"),
    ("jfrog-token", "jfrog|artifactory|bintray|xray", r"[A-Za-z0-9]{73}|[A-Za-z0-9]{64}"),
    ("kraken-key", "kraken", r"[A-Za-z0-9/=_+-]{80,90}"),
    ("kucoin-key", "kucoin", r"[0-9a-f]{24}|" + _UUID),
    ("linear-secret", "linear", _HEX32),
    ("linkedin-secret", "linkedin|linked_in|linked-in", r"[A-Za-z0-9]{16}"),
    ("looker-secret", "looker", r"[A-Za-z0-9]{24}|[A-Za-z0-9]{20}"),
    ("mattermost-token", "mattermost", r"[a-z0-9]{26}"),
    ("meraki-key", "meraki", _HEX40),
    ("messagebird-key", "messagebird|message_bird|message-bird", r"[A-Za-z0-9]{25}"),
    ("mistral-key", "mistral", _AN32),
    ("netlify-key", "netlify", r"[A-Za-z0-9=_-]{40,46}"),
    ("nytimes-key", "nytimes|new-york-times", r"[A-Za-z0-9]{32}"),
    ("okta-api-token", "okta", r"00[A-Za-z0-9_-]{40}"),
    ("opsgenie-key", "opsgenie", _UUID),
    ("pagerduty-key", "pagerduty|pager_duty", r"[A-Za-z0-9+_-]{20}|[0-9a-f]{32}"),
    ("plaid-secret", "plaid", r"[0-9a-f]{30}|[0-9a-f]{24}"),
    ("privateai-key", "privateai|private_ai|private-ai", _AN32),
    ("rapidapi-key", "rapidapi", r"[A-Za-z0-9_-]{50}"),
    ("sendbird-token", "sendbird", _HEX40 + "|" + _UUID),
    ("sentry-auth-token", "sentry", _HEX64),
    ("snyk-token", "snyk", _UUID),
    ("splunk-token", "splunk", _UUID),
    ("squarespace-token", "squarespace", _UUID),
    ("sumologic-key", "sumo", r"su[A-Za-z0-9]{12}|[A-Za-z0-9]{64}"),
    ("travisci-token", "travis", r"[A-Za-z0-9_-]{22}"),
    ("twilio-auth-token", "twilio", _HEX32),
    ("twitch-token", "twitch", r"[a-z0-9]{30}"),
    ("twitter-secret", "twitter", r"[A-Za-z0-9]{45}|[A-Za-z0-9]{50}|[A-Za-z0-9]{25}"
        r"|[0-9]{15,25}-[A-Za-z0-9]{20,40}|A{22}[A-Za-z0-9%]{80,}"),
    ("vonage-secret", "vonage|nexmo", r"[A-Za-z0-9]{16}"),
    ("zendesk-secret", "zendesk", r"[A-Za-z0-9]{40}"),
    ("zoom-secret", "zoom", r"[A-Za-z0-9]{32}"),
)  # fmt: skip

_NAMES = "|".join(names for _, names, _ in NAMED)
#: The issuer's name alone: literals cost the engine next to nothing. What follows is read by `beside_name`.
_BESIDE = rb"(?i)(?:" + _NAMES.encode() + rb")"
_FOLLOWING = re.compile(
    r"[A-Za-z0-9_ .-]{0,24}[\"'` ]{0,3}(?::=|=>|[=:,>]|\bis\b|\|\|)[\"'` =>]{0,5}([A-Za-z0-9_=+/.~%-]{12,120})"  # noqa: E501
)


def beside_name(names: str, value: str) -> Examine:
    """Examiner of a value shortly behind its issuer's name."""
    issuers = frozenset(names.split("|"))
    form = re.compile(rf"(?:{value})")

    def examine(view: View, start: int, end: int) -> Spans:
        if view.text[start:end].lower() not in issuers:
            return
        found = _FOLLOWING.match(view.text, end)
        if found is None:
            return
        token = found[1].rstrip(".")
        if form.fullmatch(token) and looks_random(token.encode("ascii", "replace")):
            yield found.start(1), found.start(1) + len(token)

    return examine


def structured(_kind: str) -> Examine:
    """Examiner of a form that carries its proof in its words, when what it holds is not masked."""

    def examine(view: View, start: int, end: int) -> Spans:
        if not is_masked(view.data[start:end]):
            yield start, end

    return examine


_STRUCTURED = {
    "aws-bedrock-short-key", "putty-key", "netrc-password", "zapier-webhook", "openshift-token",
    "cloudinary-url", "teams-webhook", "kubeconfig-key", "docker-config-auth", "htpasswd-hash",
}  # fmt: skip

RULES: tuple[Rule, ...] = (
    *(
        Rule(kind, 1, _SECRET, pattern, structured(kind) if kind in _STRUCTURED else prefixed(kind, skip))
        for kind, pattern, skip in PREFIXES
    ),
    *(Rule(kind, 1, _SECRET, _BESIDE, beside_name(names, value)) for kind, names, value in NAMED),
)
