"""`tidegate policy`: check a policy folder, run its cases, ask it about a request, compare, replay.

Exit status 0: sound, all cases hold, or the request is permitted. 1: a fault, a failing case, a denial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.cli.policy_changes import FOLDER as _FOLDER
from gateway.cli.policy_changes import compiled as _compiled
from gateway.cli.policy_changes import diff_command, recorded_request, replay_command
from gateway.cli.policy_sign import new_key_command, sign_command, signatures_command
from gateway.domain.decision import WORKLOADS, Facts, Permit
from gateway.domain.label import Label, Level, Tag
from gateway.errors import ConfigurationError
from gateway.policy.bundle import CaseResult, run_cases
from gateway.policy.cases import ENDPOINTS, instant
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.explain import DestinationStep, Explanation, RuleStep, explain, verdict_line
from gateway.policy.notes import notes
from gateway.protocols.registry import build_registry
from gateway.rollout.candidate import output_profiles, parse_yaml
from gateway.rollout.content import read_content

_LEVELS = click.Choice([level.word for level in Level])
_TAGS = click.Choice([tag.value for tag in Tag])


@click.group()
def policy() -> None:
    """Check, test, explain and compare the policy files of a folder."""


policy.add_command(diff_command)
policy.add_command(replay_command)
policy.add_command(new_key_command)
policy.add_command(sign_command)
policy.add_command(signatures_command)


@policy.command(name="lint")
@click.argument("directory", type=_FOLDER)
@click.option("--strict", is_flag=True, help="End with 1 when there is a note.")
def lint_command(directory: Path, strict: bool) -> None:
    """Compile the policy in DIRECTORY; say what it is, or the first fault with file, line and column.

    Prompts, tool sets and output profiles are checked too. Notes say what is sound and does nothing.
    """
    compiled = _compiled(directory)
    _check_rest(directory, compiled)
    permits = sum(rule.deny is None for rule in compiled.rules)
    click.echo(f"{directory}: sound")
    click.echo(f"  policy        {compiled.id} {compiled.version} revision {compiled.revision}")
    click.echo(f"  sha256        {compiled.sha256}")
    click.echo(f"  rules         {permits} permit, {len(compiled.rules) - permits} deny")
    click.echo(f"  models        {', '.join(compiled.models)}")
    for place in compiled.destinations.values():
        kind = "hosted" if place.hosted else "private"
        click.echo(f"  destination   {place.name}: {kind}, clearance {place.clearance.word}, {place.region}")
    for tenant in compiled.tenants.values():
        click.echo(
            f"  tenant        {tenant.name}: floor {tenant.floor.level.word}, "
            f"{tenant.limits.requests_per_minute} requests and "
            f"{tenant.limits.tokens_per_minute} tokens a minute, "
            f"{tenant.limits.concurrency} at a time"
        )
    click.echo(f"  cases         {len(compiled.cases)}, not run (tidegate policy test {directory})")
    found = notes(compiled)
    for note in found:
        click.echo(f"  note          {note}")
    if found and strict:
        raise click.exceptions.Exit(1)


def _check_rest(directory: Path, policy: CompiledPolicy) -> None:
    """What other rooms read of the folder: prompts, tool sets, output profiles."""
    try:
        content = read_content(directory)
        build_registry(content.protocols, content.lock, parse_yaml)
        output_profiles(policy)
    except ConfigurationError as error:
        click.echo(f"{directory}: refused\n  {error}", err=True)
        raise click.exceptions.Exit(1) from None


@policy.command(name="test")
@click.argument("directory", type=_FOLDER)
def test_command(directory: Path) -> None:
    """Run the cases of DIRECTORY/cases against the policy in DIRECTORY."""
    results = run_cases(_compiled(directory))
    for result in results:
        _show_case(result)
    failed = sum(result.difference is not None for result in results)
    click.echo(f"policy test: {len(results) - failed} passed, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)


@policy.command(name="explain")
@click.argument("directory", type=_FOLDER)
@click.option("--request", "request_id", help="Explain this recorded request instead; needs --audit.")
@click.option("--audit", "log", type=_FOLDER, help="The audit log or export that holds the request.")
@click.option("--tenant", help="Who asks.")
@click.option("--model", help="The logical model asked for.")
@click.option("--label", type=_LEVELS, help="The sensitivity level of the request.")
@click.option("--tag", "tags", type=_TAGS, multiple=True, help="A tag of the label; may be repeated.")
@click.option("--role", "roles", multiple=True, help="A role of the caller; may be repeated.")
@click.option("--scope", "scopes", multiple=True, help="A scope of the token; may be repeated.")
@click.option("--tool", "tools", multiple=True, help="A tool that is offered; may be repeated.")
@click.option(
    "--extension", "extensions", multiple=True, help="A field beyond the common ones; may be repeated."
)
@click.option("--attribute", "attributes", multiple=True, help="NAME=VALUE of an attribute; may be repeated.")
@click.option(
    "--configured", multiple=True, help="A destination of this deployment; all of the policy by default."
)
@click.option("--endpoint", type=click.Choice(ENDPOINTS), default=ENDPOINTS[0], show_default=True)
@click.option("--workload", type=click.Choice(WORKLOADS), default=WORKLOADS[0], show_default=True)
@click.option("--client", default="", help="The application of the token.")
@click.option("--region", default="", help="The region of the deployment.")
@click.option("--at", default="1970-01-01T00:00:00Z", help="When it comes, such as 2026-11-30T08:15:00Z.")
@click.option("--prompt", help="The pinned prompt, as name@version.")
@click.option("--stream/--no-stream", default=False, show_default=True)
@click.option("--prompt-tokens", type=click.IntRange(0), default=0, show_default=True)
@click.option("--output-tokens", type=click.IntRange(0), default=0, show_default=True)
def explain_command(
    directory: Path, request_id: str | None, log: Path | None, configured: tuple[str, ...], **asked: Any
) -> None:
    """Say what the policy in DIRECTORY decides about a request, and how each rule came to match or not.

    The tenant's floor is applied first, as it is for a real request. With --request, the facts are those
    that the log holds of that request.
    """
    compiled = _compiled(directory)
    unknown = sorted(set(configured) - set(compiled.destinations))
    if unknown:
        raise click.BadParameter(f"the policy has no destination {unknown[0]}", param_hint="--configured")
    places = frozenset(configured or compiled.destinations)
    if request_id is not None:
        if log is None:
            raise click.UsageError("--request needs --audit")
        one = recorded_request(log, request_id)
        click.echo(f"recorded {one.ts_utc}: {one.answer.words} (rule {one.answer.rule})")
        facts = one.facts
        if not configured and one.deployment is not None:
            places = one.deployment.configured_for(compiled)
    else:
        facts = _facts(asked)
    floor = compiled.floor(facts.tenant)
    if facts.tenant in compiled.tenants and floor.level > facts.label.level:
        low, high = facts.label.level.word, floor.level.word
        click.echo(f"the floor of tenant {facts.tenant} raises the label from {low} to {high}")
        facts = replace(facts, label=facts.label.join(floor))
    explanation = explain(compiled, facts, places)
    _show(explanation)
    if not isinstance(explanation.decision, Permit):
        raise click.exceptions.Exit(1)


def _facts(asked: Mapping[str, Any]) -> Facts:
    """Facts of the options. Raises click's errors."""
    missing = [name for name in ("tenant", "model", "label") if asked[name] is None]
    if missing:
        raise click.UsageError(f"Missing option '--{missing[0]}'.")
    pairs = [each.partition("=") for each in asked["attributes"]]
    if any(not mark for _, mark, _ in pairs):
        raise click.BadParameter("expected NAME=VALUE", param_hint="--attribute")
    try:
        at_seconds = instant(asked["at"])
    except ValueError:
        raise click.BadParameter("expected a time such as 2026-11-30T08:15:00Z", param_hint="--at") from None
    return Facts(
        tenant=asked["tenant"],
        roles=frozenset(asked["roles"]),
        scopes=frozenset(asked["scopes"]),
        label=Label(Level.parse(asked["label"]), frozenset(Tag(tag) for tag in asked["tags"])),
        model=asked["model"],
        endpoint=asked["endpoint"],
        stream=asked["stream"],
        tool_names=frozenset(asked["tools"]),
        prompt=asked["prompt"],
        prompt_tokens=asked["prompt_tokens"],
        output_tokens=asked["output_tokens"],
        extensions=frozenset(asked["extensions"]),
        workload=asked["workload"],
        client=asked["client"],
        protocols=frozenset({asked["prompt"]} if asked["prompt"] else ()),
        attributes=tuple(sorted((name, value) for name, _, value in pairs)),
        region=asked["region"],
        at_seconds=at_seconds,
    )


def _show_case(result: CaseResult) -> None:
    click.echo(f"{'ok  ' if result.difference is None else 'FAIL'}  {result.case.where}: {result.case.name}")
    if result.difference is not None:
        click.echo(f"      {result.difference}")


def _show(explanation: Explanation) -> None:
    click.echo(verdict_line(explanation.decision))
    click.echo()
    _table(("RULE", "EFFECT", "OUTCOME", "WHY"), (_rule_row(step) for step in explanation.rules))
    if explanation.destinations:
        click.echo()
        rows = (_destination_row(step) for step in explanation.destinations)
        _table(("DESTINATION", "PERMITTED", "WHY"), rows)


def _rule_row(step: RuleStep) -> tuple[str, ...]:
    return step.rule_id, step.effect, step.outcome, step.reason


def _destination_row(step: DestinationStep) -> tuple[str, ...]:
    return step.name, "yes" if step.is_permitted else "no", step.reason


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, overflow="fold", no_wrap=title != "WHY")
    for row in rows:
        # `Text`, because a condition such as `tags[0]` is not markup.
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False, soft_wrap=False).print(table)
