"""The version of a prompt that a request gets, or why it gets none.

Invariants
1. A version is chosen from the registry's own list; the client's words are parsed, never looked up as a
   path, trimmed or folded.
2. A canary is reached by its channel or by its exact version, never by a range.
3. A version below the tenant's floor, or past its removal date, is not chosen, whatever named it.

Source: RFC 9110 section 15.5.22 (426 and the Upgrade field), RFC 9745, RFC 8594.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

from gateway.domain.caller import Caller
from gateway.domain.chat import ChatRequest, PromptReference, Role, TextPart
from gateway.errors import NotFound, Removed, RequestRefused, Unresolvable, UpgradeRequired
from gateway.protocols.channels import SHARES, Channel, Lifetime
from gateway.protocols.document import Prompt, ToolSet
from gateway.protocols.registry import Registry
from gateway.protocols.version import Version, parse_range, parse_version

_CHANNELS = frozenset({"stable", "canary", "previous"})
Notices = tuple[tuple[bytes, bytes], ...]


def select(request: ChatRequest, reference: PromptReference, caller: Caller, registry: Registry) -> Prompt:
    """The prompt that `reference` means for this caller.

    Refuses: prompt-not-found (404); prompt-version-missing (422) without a default; protocol-versions-mixed
    (400) when `x-tidegate-protocol` says something else than the body; protocol-version-required (400) and
    protocol-version-below-floor (426) by the tenant's floor; protocol-removed (410).
    """
    name = reference.id
    versions = registry.versions.get(name)
    if versions is None:
        raise _not_found()
    asked = reference.version
    if caller.protocol is not None:
        asked = _agreed(caller.protocol, name, asked, versions, registry.channels.get(name))
    floor = registry.floors.get(caller.tenant, {}).get(name)
    if asked is None and floor is not None and floor.is_named:
        raise RequestRefused(
            "Your organisation asks for a version of this prompt to be named. Set `prompt.version`;"
            f" the lowest is {floor.lowest}.",
            code="protocol-version-required",
            param="prompt.version",
        )
    version = _chosen(request, name, asked, caller, versions, registry.channels.get(name))
    if floor is not None and version is not None and version < floor.lowest:
        raise UpgradeRequired(
            f"This version of the prompt is below the lowest that your organisation allows ({floor.lowest})."
            " Ask for a newer one in `prompt.version`.",
            param="prompt.version",
            headers=((b"upgrade", f"{name}/{floor.lowest}".encode()),),
        )
    prompt = None if version is None else registry.prompts.get((name, str(version)))
    if prompt is None or version is None:
        raise _not_found()
    return prompt


def notices(documents: list[Prompt | ToolSet], caller: Caller, registry: Registry) -> Notices:
    """Header fields about what was chosen: the prompt's name@version, and when one of `documents` ends.

    Refuses with protocol-removed (410) when one of them has ended.
    """
    pin = documents[0].pin
    fields = [(b"x-tidegate-protocol", f"{pin.name}@{pin.version}".encode())]
    ends = [
        (registry.lifetimes.get((one.pin.name, one.pin.version)) if registry.lifetimes else None, one.pin)
        for one in documents
    ]
    found = [(lifetime, pin) for lifetime, pin in ends if lifetime is not None]
    if found:
        fields += _endings([lifetime for lifetime, _ in found], caller.now_seconds)
    return tuple(fields)


def _endings(lifetimes: list[Lifetime], now_seconds: int) -> list[tuple[bytes, bytes]]:
    removed_at = min((one.removed_at for one in lifetimes if one.removed_at is not None), default=None)
    if removed_at is not None and removed_at <= now_seconds:
        raise Removed(
            "This version of the prompt was removed on a date that was announced. Ask for a newer one in"
            " `prompt.version`, or for none.",
            param="prompt.version",
        )
    deprecated_at = min(
        (one.deprecated_at for one in lifetimes if one.deprecated_at is not None), default=None
    )
    fields: list[tuple[bytes, bytes]] = []
    if deprecated_at is not None:
        fields.append((b"deprecation", b"@%d" % deprecated_at))
    if removed_at is not None:
        when = format_datetime(datetime.fromtimestamp(removed_at, UTC), usegmt=True)
        fields.append((b"sunset", when.encode("ascii")))
    if deprecated_at is not None and deprecated_at <= now_seconds:
        fields.append((b"x-tidegate-warning", b"protocol-deprecated"))
    return fields


def _agreed(
    header: str, name: str, asked: str | None, versions: tuple[Version, ...], channel: Channel | None
) -> str:
    """What header and body ask for together."""
    header_name, _, header_version = header.partition("@")
    if header_name != name or not header_version:
        raise _mixed()
    if asked is None or asked == header_version:
        return header_version
    if _named(asked, versions, channel) != _named(header_version, versions, channel):
        # fail-closed: one of the two would be answered by a version that the client did not mean.
        raise _mixed()
    return asked


def _mixed() -> RequestRefused:
    return RequestRefused(
        "The request names two different versions of a protocol. Name one, in `prompt.version` or in"
        " `x-tidegate-protocol` (name@version).",
        code="protocol-versions-mixed",
        param="x-tidegate-protocol",
    )


def _chosen(
    request: ChatRequest,
    name: str,
    asked: str | None,
    caller: Caller,
    versions: tuple[Version, ...],
    channel: Channel | None,
) -> Version | None:
    if asked is not None:
        return _named(asked, versions, channel)
    if channel is None:
        raise Unresolvable(
            "This prompt has no default version. Name one in `prompt.version`.",
            code="prompt-version-missing",
            param="prompt.version",
        )
    if channel.canary is not None and _share(request, name, caller) < channel.canary_share:
        return channel.canary
    return channel.stable


def _named(asked: str, versions: tuple[Version, ...], channel: Channel | None) -> Version | None:
    """The version that a word, a range or an exact version means; an exact one need not exist."""
    if asked in _CHANNELS:
        found: Version | None = None if channel is None else getattr(channel, asked)
        return found
    wanted = parse_range(asked)
    if wanted is None:
        return parse_version(asked)
    canary = None if channel is None or channel.canary == channel.stable else channel.canary
    return wanted.best(one for one in versions if one != canary)


def _share(request: ChatRequest, name: str, caller: Caller) -> int:
    """Where tenant and conversation fall in the whole. A conversation is known by its first user text."""
    first = next((message for message in request.messages if message.role is Role.USER), None)
    text = "" if first is None else "\n".join(part.text for part in first.parts if isinstance(part, TextPart))
    data = f"canary\0{caller.tenant}\0{name}\0{text}".encode("utf-8", "surrogatepass")
    return int(caller.keyed_digest(data)[:12], 16) % SHARES


def _not_found() -> NotFound:
    return NotFound(
        "There is no such prompt. Check `prompt.id` and `prompt.version`.",
        code="prompt-not-found",
        param="prompt",
    )
