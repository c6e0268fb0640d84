"""Every route of the admin API, one row each. Whoever is not named in a row is refused.

Nobody erases here: a route that did would need a role that may do nothing else.
"""

from __future__ import annotations

from gateway.administration import ADMINISTRATOR, AUDITOR, CHECKER
from gateway.web import admin_answers as doc
from gateway.web import admin_changes as changes
from gateway.web import admin_reads as reads
from gateway.web.admin_table import Route

READERS = frozenset({AUDITOR, ADMINISTRATOR, CHECKER})
CHANGERS = frozenset({ADMINISTRATOR})
CHECKERS = frozenset({CHECKER})

ROUTES: tuple[Route, ...] = (
    Route(
        "GET", "/version", "version.read", READERS, reads.version, doc.Version, "What runs", scope="tenant"
    ),
    Route("GET", "/policy", "policy.read", READERS, reads.policy, doc.PolicyAnswer, "What decides now"),
    Route(
        "GET", "/policy/revisions", "revisions.read", READERS, reads.revisions, doc.Bundles, "Stored bundles"
    ),
    Route(
        "GET",
        "/policy/bundles/{sha256}",
        "bundle.read",
        READERS,
        reads.bundle,
        doc.BundleFiles,
        "One stored bundle with its text",
    ),
    Route(
        "GET", "/protocols", "protocols.read", READERS, reads.protocols, doc.Protocols, "Prompts and tools"
    ),
    Route(
        "GET",
        "/destinations",
        "destinations.read",
        READERS,
        reads.destinations,
        doc.Destinations,
        "Destinations and their breakers",
    ),
    Route(
        "GET", "/limits", "limits.read", READERS, reads.limits, doc.Limits, "Limits by tenant", scope="tenant"
    ),
    Route(
        "GET",
        "/limits/{tenant}",
        "limits.read",
        READERS,
        reads.tenant_limits,
        doc.TenantLimit,
        "Limits of one tenant",
        scope="tenant",
    ),
    Route(
        "POST",
        "/policy/bundles",
        "bundle.upload",
        CHANGERS,
        changes.upload,
        doc.Bundle,
        "Check a bundle and store it",
        body=doc.Upload,
    ),
    Route(
        "POST",
        "/policy/bundles/{sha256}/signatures",
        "bundle.countersign",
        CHECKERS,
        changes.countersign,
        doc.Bundle,
        "Put a second person's signature under a bundle",
        body=doc.Countersign,
    ),
    Route(
        "POST",
        "/policy/activate",
        "policy.activate",
        CHANGERS,
        changes.activate,
        doc.Changed,
        "Let a stored bundle act",
        body=doc.Activate,
        from_active=True,
    ),
    Route(
        "POST",
        "/policy/rollback",
        "policy.rollback",
        CHANGERS,
        changes.rollback,
        doc.Changed,
        "Go back to an older revision",
        body=doc.Rollback,
        from_active=True,
    ),
    Route(
        "POST",
        "/policy/shadow",
        "policy.shadow",
        CHANGERS,
        changes.compare,
        doc.Changed,
        "Let a stored bundle decide beside the active one",
        body=doc.Activate,
        from_active=True,
    ),
    Route(
        "DELETE",
        "/policy/shadow",
        "policy.shadow-end",
        CHANGERS,
        changes.end_comparison,
        doc.Changed,
        "End the comparison",
        from_active=True,
    ),
    Route(
        "POST",
        "/policy/reload",
        "policy.reload",
        CHANGERS,
        changes.reload,
        doc.Changed,
        "Look at the policy folder now",
        from_active=True,
    ),
)
