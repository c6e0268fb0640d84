"""`tidegate limits show | reconcile`: what is used of the limits, and settling from the audit log."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import redis

from gateway.audit.export import stored_records
from gateway.audit.files import OsFiles
from gateway.audit.store import StoredLog
from gateway.domain.ids import tenant_tag
from gateway.domain.limits import Quota, TenantLimits
from gateway.domain.principal import Principal
from gateway.errors import ConfigurationError
from gateway.limits.bucket import SLOTS, bounded_cost, bounded_usage, month_of
from gateway.limits.quotas import quotas_of
from gateway.limits.rebuild import Held, rebuild
from gateway.limits.scripts import SETTLE_SCRIPT, limit_words, quota_keys, record_prefix
from gateway.policy.bundle import read_files
from gateway.policy.compile import compile_bundle
from gateway.settings import Settings, load_settings, read_secret

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def limits() -> None:
    """Look at the limits, and settle what a crash left."""


@limits.command()
@click.argument("settings", type=FILE)
@click.argument("tenant")
def show(settings: Path, tenant: str) -> None:
    """Print what TENANT has used of each quota: this minute, at this moment, this day and month (UTC)."""
    client, tag = _client(load_settings(settings)), tenant_tag(tenant)
    windows = sorted(client.scan_iter(f"tg:{{{tag}}}:*:w"))
    seconds, _ = client.time()
    for key in windows:
        head = key[:-2]
        scope, owner = head.split("}:", 1)[1].split(":", 1)
        requests, tokens, debt = _window(client.hgetall(key), seconds)
        leases = client.zcount(f"{head}:c", f"({seconds * 1000}", "+inf")
        money = client.hgetall(f"{head}:m")
        day = int(money.get("D", 0)) if money.get("d") == str(seconds // 86_400) else 0
        month = int(money.get("M", 0)) if money.get("m") == str(month_of(seconds // 86_400)) else 0
        click.echo(
            f"{scope + ' ' + owner:<24} requests {requests}  tokens {tokens}  debt {debt}  held {leases}  "
            f"day {day} usd-micros  month {month} usd-micros"
        )
    if not windows:
        click.echo("nothing used in the last two minutes", err=True)


@limits.command()
@click.argument("settings", type=FILE)
@click.option("--log", "logs", type=DIRECTORY, multiple=True, help="The log of another writer; repeat.")
@click.option("--apply", "is_applied", is_flag=True, help="Change Redis; without it only say what would be.")
def reconcile(settings: Path, logs: tuple[Path, ...], is_applied: bool) -> None:
    """Settle what the audit log says has ended, and raise money to what it says was spent.

    Reads the log of SETTINGS and each --log. Never lowers money: a log that is not given may hold the rest.
    """
    loaded = load_settings(settings)
    client, policy = _client(loaded), compile_bundle(read_files(Path(loaded.policy.directory)))
    folders = (Path(loaded.audit.directory), *logs)
    rebuilt = rebuild(stored for folder in folders for stored in _stored(folder))
    known = {name: tenant.limits for name, tenant in policy.tenants.items()}
    script = client.register_script(SETTLE_SCRIPT)
    settled = 0
    for held in rebuilt.ended():
        if held.tenant in known and _is_open(client, held):
            settled += 1
            if is_applied:
                _settle(script, held, known[held.tenant])
    raised = 0
    today = datetime.datetime.fromtimestamp(client.time()[0], datetime.UTC).date()
    for (tenant, scope, owner), (day, month) in rebuilt.spent(today).items():
        if month and tenant in known and _has_budget(known[tenant], scope, owner):
            key = quota_keys(tenant_tag(tenant), Quota(scope, owner, known[tenant].whole))[2]
            raised += _raise(client, key, today, day, month, is_applied)
    word = "" if is_applied else "would be "
    click.echo(f"{len(rebuilt.held)} requests read; {word}settled: {settled}; money {word}raised: {raised}")


def _client(settings: Settings) -> Any:
    url = settings.limits.redis_url
    if url.startswith(("file:", "env:")):
        url = read_secret(url).reveal()
    if not url:
        raise ConfigurationError("limits.redis_url: expected a URL; an embedded Valkey ends with its gateway")
    return redis.Redis.from_url(url, decode_responses=True)


def _stored(folder: Path) -> Iterator[bytes]:
    return stored_records(StoredLog(OsFiles(folder, ())))


def _window(kept: dict[str, str], seconds: int) -> tuple[int, int, int]:
    """Requests, tokens and debt of a window at this second."""
    newest = int(kept.get("i", 0))
    slot = max(newest, seconds)
    live = {number % SLOTS for number in range(slot - SLOTS + 1, newest + 1)}
    counted = {kind: sum(int(kept.get(f"{kind}{each}", 0)) for each in live) for kind in "rt"}
    return counted["r"], counted["t"], int(kept.get("D", 0)) if slot - newest < 2 * SLOTS else 0


def _is_open(client: Any, held: Held) -> bool:
    key = record_prefix(tenant_tag(held.tenant)).decode() + held.request_id
    tokens, is_settled = client.hmget(key, "n", "s")
    return tokens is not None and is_settled is None


def _settle(script: Any, held: Held, known: TenantLimits) -> None:
    nobody: frozenset[str] = frozenset()
    caller = Principal(held.tenant, "", held.subject_ref, "", "", held.client_id, "", nobody, nobody, 0)
    quotas = quotas_of(known, caller, held.model)
    tag, used = tenant_tag(held.tenant), bounded_usage(held.usage)
    keys = [record_prefix(tag) + held.request_id.encode()]
    keys += [key for quota in quotas for key in quota_keys(tag, quota)]
    cost = bounded_cost(held.cost_usd_micros)
    script(keys=keys, args=[held.request_id, -1 if used is None else used, cost, *limit_words(quotas)])


def _has_budget(known: TenantLimits, scope: str, owner: str) -> bool:
    limited = {"tenant": known.whole, "key": known.key, "user": known.user, "model": known.models.get(owner)}
    found = limited[scope]
    return found is not None and found.budget.is_set


def _raise(client: Any, key: bytes, today: datetime.date, day: int, month: int, is_applied: bool) -> bool:
    """Whether Redis knows of less money than the log; then it is raised, when `is_applied`."""
    number = (today - datetime.date(1970, 1, 1)).days
    kept = client.hgetall(key)
    of_day = int(kept.get("D", 0)) if kept.get("d") == str(number) else 0
    of_month = int(kept.get("M", 0)) if kept.get("m") == str(month_of(number)) else 0
    if of_day >= day and of_month >= month:
        return False
    if is_applied:
        now = {"d": number, "D": max(day, of_day), "m": month_of(number), "M": max(month, of_month)}
        client.hset(key, mapping=now)
        client.pexpire(key, 32 * 86_400_000)
    return True
