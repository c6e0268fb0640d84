"""What the policy says: facts in, a permit or a denial out.

Invariants
1. A `Permit` is constructed only in `gateway/policy/evaluate.py` (held by a test over the source tree).
2. Every destination of a permit has clearance ≥ the label of the permit. The constructor checks it,
   the policy compiler proves it, and the upstream checks it again for each connection.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.domain.label import Label, Level

#: What a request is for, the most urgent first. vLLM is told the place in this list as `priority`.
WORKLOADS = ("interactive", "batch", "evaluation", "training-data")


#: What a request of each endpoint asks a destination for. Formats of chat are translated into each other.
OPERATIONS = {
    "chat.completions": "chat",
    "messages": "chat",
    "responses": "chat",
    "embeddings": "embeddings",
    "completions": "completions",
}


@dataclass(frozen=True, slots=True)
class Destination:
    """A place that can answer, with the model it will be asked for.

    `clearance` is the highest level that may be sent there. `hosted` is False only for the company's
    own nodes. `model` is the destination's own name for the logical model. `extensions` are the
    request fields beyond the common ones that it takes, `operations` what it can be asked for.
    """

    name: str
    kind: str
    clearance: Level
    hosted: bool
    region: str
    model: str
    extensions: frozenset[str] = frozenset()
    operations: frozenset[str] = frozenset({"chat"})


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a policy condition can ask about. Built from the verdict and the request only.

    `prompt` is name@version of the pinned prompt; `protocols` are all pinned documents in that form.
    `client` is the application of the token. `attributes` are (name, value) of the caller's attribute
    headers, still unchecked: the policy refuses what it does not declare. `region` is that of this
    deployment. `at_seconds` is when the request came, in Unix time. `unsaid` are (kind, field): the kinds
    of destinations whose wire format cannot say all of this request, with the first field that is missing.
    """

    tenant: str
    roles: frozenset[str]
    scopes: frozenset[str]
    label: Label
    model: str
    endpoint: str
    stream: bool
    tool_names: frozenset[str]
    prompt: str | None
    prompt_tokens: int
    output_tokens: int
    extensions: frozenset[str]
    workload: str = WORKLOADS[0]
    client: str = ""
    protocols: frozenset[str] = frozenset()
    attributes: tuple[tuple[str, str], ...] = ()
    region: str = ""
    at_seconds: int = 0
    unsaid: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Obligations:
    """What must be honoured when the permit is used. Unknown obligations do not load.

    `regions`, `zero_retention` and `variant` narrow the destinations: the permit names only those that
    honour them. Empty regions mean any; no variant means the one of the workload class. `approver_role`:
    a person of this role must agree to each request; None: nobody needs to.
    """

    output_profile: str = "default"
    audit_level: str = "metadata"
    max_output_tokens: int | None = None
    regions: frozenset[str] = frozenset()
    zero_retention: bool = False
    variant: str | None = None
    approver_role: str | None = None


@dataclass(frozen=True, slots=True)
class Permit:
    """Where this request may go, in order of preference, and under which obligations."""

    label: Label
    destinations: tuple[Destination, ...]
    obligations: Obligations
    rule_ids: tuple[str, ...]
    policy_id: str
    policy_version: str
    policy_sha256: str

    def __post_init__(self) -> None:
        if not self.destinations:
            raise ValueError("a permit names at least one destination")
        # fail-closed: a permit that exceeds a clearance cannot exist, whatever built it.
        if any(self.label.level > place.clearance for place in self.destinations):
            raise ValueError("a permit cannot exceed the clearance of a destination")


@dataclass(frozen=True, slots=True)
class Denial:
    """Why no destination is permitted. `message` is public; `code` is kebab-case.

    `status` is 403, or 404 for an unknown model, or 400 when only a request field stands in the way
    (`param` names it).
    """

    code: str
    message: str
    rule_ids: tuple[str, ...]
    policy_id: str
    policy_version: str
    policy_sha256: str
    status: int = 403
    param: str | None = None


Decision = Permit | Denial
