"""Which version a name means: channels, retirements and floors, read from two small files.

Invariants
1. Every version that a file names exists, or nothing is loaded.
2. Rolling back is changing one line (`stable`), and needs no new document.
3. Who belongs to a canary follows from tenant and conversation under a key, not from chance: one
   conversation stays with one version.

Source: RFC 9745 (Deprecation), RFC 8594 (Sunset).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from types import MappingProxyType

import msgspec

from gateway.errors import ConfigurationError
from gateway.protocols.version import Version, parse_version

CHANNELS_FILE = "channels.yaml"
FLOORS_FILE = "floors.yaml"
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
#: Parts of a whole in which the share of a canary is counted: hundredths of a percent.
SHARES = 10_000


class CanaryFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A version that some conversations get in place of `stable`."""

    version: str
    percent: float


class RetirementFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Dates (YYYY-MM-DD, UTC) from which a version is deprecated, and from which it is gone."""

    deprecated: str | None = None
    removed: str | None = None


class ChannelFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One document in `channels.yaml`. `retire` has dates by version."""

    stable: str | None = None
    canary: CanaryFile | None = None
    previous: str | None = None
    retire: dict[str, RetirementFile] = {}


class FloorFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Lowest version of a document that a tenant may use, in `floors.yaml`."""

    lowest: str
    require_version: bool = True


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Unix times from which a version is deprecated and removed."""

    deprecated_at: int | None = None
    removed_at: int | None = None


@dataclass(frozen=True, slots=True)
class Channel:
    """Channels of one prompt. `canary_share` is in hundredths of a percent."""

    stable: Version | None
    canary: Version | None
    canary_share: int
    previous: Version | None


@dataclass(frozen=True, slots=True)
class Floor:
    """A tenant's lowest version of a document; `is_named`: a request must say which version it wants."""

    lowest: Version
    is_named: bool


Lifetimes = Mapping[tuple[str, Version], Lifetime]
#: Floors by tenant, then by name of the document.
Floors = Mapping[str, Mapping[str, Floor]]


def read_lifetime(dates: RetirementFile, place: str) -> Lifetime | None:
    """The lifetime that two dates give; None for none. Raises `ConfigurationError`."""
    deprecated = _unix(dates.deprecated, f"{place}.deprecated")
    removed = _unix(dates.removed, f"{place}.removed")
    if deprecated is None and removed is None:
        return None
    if deprecated is None or (removed is not None and removed <= deprecated):
        raise ConfigurationError(f"{place}: expected a date `deprecated` that is before `removed`")
    return Lifetime(deprecated, removed)


def read_channels(
    tree: object, prompts: Mapping[str, Collection[Version]], tool_sets: Mapping[str, Collection[Version]]
) -> tuple[dict[str, Channel], dict[tuple[str, Version], Lifetime]]:
    """Channels by name of a prompt, and lifetimes by document, from the content of `channels.yaml`."""
    try:
        entries = msgspec.convert(tree, dict[str, ChannelFile])
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{CHANNELS_FILE}: {error}") from None
    channels: dict[str, Channel] = {}
    lifetimes: dict[tuple[str, Version], Lifetime] = {}
    for name, entry in entries.items():
        if entry.stable is None and entry.canary is None and entry.previous is None:
            if not entry.retire:
                raise ConfigurationError(f"{CHANNELS_FILE}: {name}: expected stable, or dates in retire")
        else:
            channels[name] = _channel(name, entry, prompts.get(name, ()))
        known = {*prompts.get(name, ()), *tool_sets.get(name, ())}
        for word, dates in entry.retire.items():
            place = f"{CHANNELS_FILE}: {name}.retire.{word}"
            version = parse_version(word)
            if version is None or version not in known:
                raise ConfigurationError(f"{place}: no document {name}@{word}")
            lifetime = read_lifetime(dates, place)
            if lifetime is not None:
                lifetimes[name, version] = lifetime
    return channels, lifetimes


def _channel(name: str, entry: ChannelFile, known: Collection[Version]) -> Channel:
    def version(word: str | None, channel: str) -> Version | None:
        found = None if word is None else parse_version(word)
        if word is not None and (found is None or found not in known):
            raise ConfigurationError(f"{CHANNELS_FILE}: {name}.{channel}: no prompt {name}@{word}")
        return found

    stable = version(entry.stable, "stable")
    if stable is None:
        raise ConfigurationError(f"{CHANNELS_FILE}: {name}: expected stable")
    canary, share = None, 0
    if entry.canary is not None:
        canary = version(entry.canary.version, "canary.version")
        share = round(entry.canary.percent * SHARES / 100)
        if not 0 <= share <= SHARES:
            raise ConfigurationError(f"{CHANNELS_FILE}: {name}.canary.percent: expected 0 to 100")
    return Channel(stable, canary, share, version(entry.previous, "previous"))


def read_floors(tree: object, known: Mapping[str, Collection[Version]]) -> Floors:
    """Floors from the content of `floors.yaml`. Raises `ConfigurationError`."""
    try:
        entries = msgspec.convert(tree, dict[str, dict[str, FloorFile]])
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{FLOORS_FILE}: {error}") from None
    floors: dict[str, Mapping[str, Floor]] = {}
    for tenant, documents in entries.items():
        if _TENANT.fullmatch(tenant) is None:
            raise ConfigurationError(f"{FLOORS_FILE}: expected names of tenants (a-z 0-9 . _ -) as keys")
        found: dict[str, Floor] = {}
        for name, entry in documents.items():
            lowest = parse_version(entry.lowest)
            if lowest is None or not any(version >= lowest for version in known.get(name, ())):
                # fail-closed: a floor that no version reaches is a misspelt name or number.
                raise ConfigurationError(
                    f"{FLOORS_FILE}: {tenant}.{name}.lowest: no prompt {name} of this version or above"
                )
            found[name] = Floor(lowest, entry.require_version)
        floors[tenant] = MappingProxyType(found)
    return MappingProxyType(floors)


def _unix(text: str | None, place: str) -> int | None:
    if text is None:
        return None
    try:
        # Python reads more forms of a date than this one.
        day = date.fromisoformat(text if _DATE.fullmatch(text) else "")
    except ValueError:
        raise ConfigurationError(f"{place}: expected a date as YYYY-MM-DD") from None
    return int(datetime.combine(day, time(), UTC).timestamp())
