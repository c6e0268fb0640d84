"""One class per cause of refusal, each with a stable code, a status and a public sentence.

The tree::

    TidegateError
    ├── ConfigurationError            the process does not start, or a new file is not taken
    ├── StoreUnavailable              Redis gave no usable answer; a room turns it into its own refusal
    └── Refusal                       the request ends here; the sentence is safe to show
        ├── RequestRefused            400  malformed, unknown or out-of-bounds input
        │   ├── PayloadTooLarge       413
        │   ├── UnsupportedMedia      415
        │   ├── HeadersTooLarge       431
        │   ├── NotFound              404  unknown model, route, prompt
        │   ├── MethodNotAllowed      405
        │   ├── Conflict              409  what is asked for contradicts what was done already
        │   ├── Removed               410  a protocol version whose time is over
        │   ├── PreconditionFailed    412  the caller's picture of the state is out of date
        │   ├── Unresolvable          422  prompt or tools cannot be resolved
        │   ├── CandidateRejected     422  a policy that an administrator offers is not sound
        │   ├── UpgradeRequired       426  a protocol version below the tenant's floor
        │   └── PreconditionRequired  428  a change that does not say what it starts from
        ├── NotAuthenticated          401  one body for every reason; the reason goes to the log
        ├── KeySetUnavailable         503  tokens cannot be verified just now
        ├── PolicyDenied              403
        ├── ApprovalRequired          409  a person must agree first, or did so for another request
        ├── ApprovalDenied            403  a person did not agree, or not for this caller
        ├── ApprovalsUnavailable      503  nobody can say whether a person agreed
        ├── AdminForbidden            403  a verified caller who may not do this on the admin API
        ├── LimitExceeded             429
        ├── DestinationBusy           429  a destination has no place for it soon enough
        ├── LimitsUnavailable         503  Redis cannot be asked and no private place is left
        ├── AuditUnavailable          503  no durable receipt, so nothing leaves
        ├── NotReady                  503  starting, draining or overloaded
        ├── UpstreamUnavailable       503  nobody accepts the connection, or the node says 503
        ├── UpstreamFailed            502  an answer that is no answer
        ├── UpstreamTimeout           504
        ├── UpstreamRejected          4xx  the upstream refuses the request itself
        │   └── UpstreamLimited       429  the upstream's own rate limit
        ├── OutputBlocked             502  the output filter could not finish, or says stop
        └── ToolCallRefused           502  the model called a tool that is not offered, or wrongly

Invariants
1. `message` never holds text of a prompt, an answer, a token or a header value.
2. `code` is kebab-case and never changes its meaning; it is the `reason_code` of the record.
3. `detail` is for operators' logs only (closed vocabulary or counts), never for clients.
"""

from __future__ import annotations

from typing import ClassVar


class TidegateError(Exception):
    """Root of everything that this project raises on purpose."""


class ConfigurationError(TidegateError):
    """A file or setting is unusable: says where (file:line: key), what was expected, what was found."""


class StoreUnavailable(TidegateError):
    """Redis gave no usable answer: what was asked for may or may not have been done there."""


class Refusal(TidegateError):
    """A request ends here. Clients see `status`, `code`, `message` and `param`, and nothing else."""

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "api_error"
    default_code: ClassVar[str] = "internal-error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        detail: str | None = None,
        retry_after_seconds: int | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.param = param
        self.detail = detail
        self.retry_after_seconds = retry_after_seconds
        self.headers = headers

    @property
    def http_status(self) -> int:
        """Status of the HTTP answer, when nothing has been sent yet."""
        return self.status

    @property
    def public_code(self) -> str:
        """Code that the client is told."""
        return self.code


class RequestRefused(Refusal):
    """The request is malformed, or asks for something that does not exist or is out of bounds."""

    status = 400
    kind = "invalid_request_error"
    default_code = "invalid-request"


class PayloadTooLarge(RequestRefused):
    """The body is larger than the gateway reads."""

    status = 413
    default_code = "payload-too-large"


class UnsupportedMedia(RequestRefused):
    """The content type or content encoding is not one the gateway reads."""

    status = 415
    default_code = "unsupported-media-type"


class HeadersTooLarge(RequestRefused):
    """The header block is larger than the gateway reads."""

    status = 431
    default_code = "headers-too-large"


class NotFound(RequestRefused):
    """Unknown model, route or document."""

    status = 404
    default_code = "not-found"


class MethodNotAllowed(RequestRefused):
    """The route exists, the method does not."""

    status = 405
    default_code = "method-not-allowed"


class Unresolvable(RequestRefused):
    """A prompt or tool set that the request names cannot be resolved or rendered."""

    status = 422
    default_code = "unresolvable-protocol"


class Removed(RequestRefused):
    """The version that the request asks for was removed on a date that was announced."""

    status = 410
    default_code = "protocol-removed"


class UpgradeRequired(RequestRefused):
    """The version that the request asks for is below the floor of its tenant.

    `headers` holds the `Upgrade` field that RFC 9110 asks for.
    """

    status = 426
    default_code = "protocol-version-below-floor"


class Conflict(RequestRefused):
    """What is asked for contradicts what was done already: a spent token, a used key, an older revision."""

    status = 409
    default_code = "conflict"


class PreconditionFailed(RequestRefused):
    """`If-Match` names another state than the present one: somebody else was faster."""

    status = 412
    default_code = "stale-digest"


class PreconditionRequired(RequestRefused):
    """A change must name the state that it starts from, and have a key of its own (RFC 6585)."""

    status = 428
    default_code = "precondition-required"


class CandidateRejected(RequestRefused):
    """A policy that does not pass its checks. `findings`: lines with file and place, for administrators."""

    status = 422
    default_code = "candidate-rejected"

    def __init__(self, message: str, *, findings: str, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.findings = findings


class AdminForbidden(Refusal):
    """The caller is known, but may not do this: a user's token, a missing role, another's duty."""

    status = 403
    kind = "permission_error"
    default_code = "admin-role-missing"


class NotAuthenticated(Refusal):
    """No valid token. The public sentence is one for all causes; `code` tells the log which."""

    status = 401
    kind = "authentication_error"
    default_code = "invalid-token"

    @property
    def public_code(self) -> str:
        """One code for all causes: a forger is not told what was noticed."""
        return self.default_code


class KeySetUnavailable(Refusal):
    """Tokens cannot be verified: keys are not reachable and the grace is over."""

    status = 503
    default_code = "key-set-unavailable"


class PolicyDenied(Refusal):
    """The policy permits no destination for this request."""

    status = 403
    kind = "permission_error"
    default_code = "policy-denied"


class ApprovalRequired(Refusal):
    """A person must agree before this request may leave, and has not (or not to this request).

    Clients that try again by themselves would get the same, so they are told not to.
    """

    status = 409
    kind = "permission_error"
    default_code = "approval-required"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message, code=code, param=param, headers=(*headers, (b"x-should-retry", b"false")))


class ApprovalDenied(Refusal):
    """A person did not agree, or the approval is none of this caller's."""

    status = 403
    kind = "permission_error"
    default_code = "approval-denied"


class ApprovalsUnavailable(Refusal):
    """Nobody can say just now whether a person agreed: nothing leaves."""

    status = 503
    default_code = "approvals-unavailable"


class LimitExceeded(Refusal):
    """A bucket is spent. `retry_after_seconds` says when to come back."""

    status = 429
    kind = "rate_limit_error"
    default_code = "rate-limit-exceeded"


class DestinationBusy(Refusal):
    """No place at a destination of bounded capacity within the time that the caller would wait."""

    status = 429
    kind = "rate_limit_error"
    default_code = "destination-queue-full"


class LimitsUnavailable(Refusal):
    """Limits cannot be checked and no private destination remains."""

    status = 503
    default_code = "limits-unavailable"


class AuditUnavailable(Refusal):
    """No durable receipt in time: nothing leaves."""

    status = 503
    default_code = "audit-unavailable"


class NotReady(Refusal):
    """Starting, draining or overloaded."""

    status = 503
    default_code = "not-ready"


class UpstreamUnavailable(Refusal):
    """No permitted destination accepts the request just now."""

    status = 503
    default_code = "upstream-unavailable"


class UpstreamFailed(Refusal):
    """The destination answered with something that is not an answer, or was cut off."""

    status = 502
    default_code = "upstream-failed"


class UpstreamTimeout(Refusal):
    """A named deadline (connect, first byte, idle, total) passed."""

    status = 504
    default_code = "upstream-timeout"


class UpstreamRejected(Refusal):
    """The destination refuses the request itself; its own words are not passed on.

    `upstream_status` is one of 400, 404, 413, 422, 429; anything else is `UpstreamFailed`.
    """

    kind = "invalid_request_error"
    default_code = "upstream-rejected"

    def __init__(
        self,
        message: str,
        *,
        upstream_status: int,
        code: str | None = None,
        param: str | None = None,
        detail: str | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(
            message, code=code, param=param, detail=detail, retry_after_seconds=retry_after_seconds
        )
        self.upstream_status = upstream_status

    @property
    def http_status(self) -> int:
        """The upstream's status is also the client's."""
        return self.upstream_status


class UpstreamLimited(UpstreamRejected):
    """The destination is at its own rate limit."""

    kind = "rate_limit_error"
    default_code = "upstream-rate-limited"


class OutputBlocked(Refusal):
    """The output filter raised, ran out of its budget, or stops the answer by rule."""

    status = 502
    default_code = "output-blocked"


class ToolCallRefused(Refusal):
    """The answer calls a tool that is not offered, or with arguments that it does not take."""

    status = 502
    default_code = "tool-arguments-invalid"
