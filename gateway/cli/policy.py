"""`tidegate policy lint | test | explain`: check a policy folder, run its cases, ask it about a request.

Exit status 0: sound, all cases hold, or the request is permitted. 1: a fault, a failing case, a denial.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.domain.decision import Facts, Permit
from gateway.domain.label import Label, Level, Tag
from gateway.errors import ConfigurationError
from gateway.policy.bundle import CaseResult, read_files, run_cases
from gateway.policy.cases import ENDPOINTS, WORKLOADS
from gateway.policy.compile import compile_bundle
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.explain import DestinationStep, Explanation, RuleStep, explain, verdict_line

_LEVELS = click.Choice([level.word for level in Level])
_TAGS = click.Choice([tag.value for tag in Tag])
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def policy() -> None:
    """Check, test and explain the policy files of a folder."""


@policy.command(name="lint")
@click.argument("directory", type=_FOLDER)
def lint_command(directory: Path) -> None:
    """Compile the policy in DIRECTORY; say what it is, or the first fault with file, line and column."""
    compiled = _compiled(directory)
    permits = sum(rule.deny is None for rule in compiled.rules)
    click.echo(f"{directory}: sound")
    click.echo(f"  policy        {compiled.id} {compiled.version}")
    click.echo(f"  sha256        {compiled.sha256}")
    click.echo(f"  rules         {permits} permit, {len(compiled.rules) - permits} deny")
    click.echo(f"  models        {', '.join(compiled.models)}")
    for place in compiled.destinations.values():
        kind = "hosted" if place.hosted else "private"
        click.echo(f"  destination   {place.name}: {kind}, clearance {place.clearance.word}, {place.region}")
    for tenant in compiled.tenants.values():
        click.echo(
            f"  tenant        {tenant.name}: floor {tenant.floor.level.word}, "
            f"{tenant.requests_per_minute} requests and {tenant.tokens_per_minute} tokens a minute, "
            f"{tenant.concurrency} at a time"
        )
    click.echo(f"  cases         {len(compiled.cases)}, not run (tidegate policy test {directory})")


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
@click.option("--tenant", required=True, help="Who asks.")
@click.option("--model", required=True, help="The logical model asked for.")
@click.option("--label", type=_LEVELS, required=True, help="The sensitivity level of the request.")
@click.option("--tag", "tags", type=_TAGS, multiple=True, help="A tag of the label; may be repeated.")
@click.option("--role", "roles", multiple=True, help="A role of the caller; may be repeated.")
@click.option("--scope", "scopes", multiple=True, help="A scope of the token; may be repeated.")
@click.option("--tool", "tools", multiple=True, help="A tool that is offered; may be repeated.")
@click.option(
    "--extension", "extensions", multiple=True, help="A field beyond the common ones; may be repeated."
)
@click.option(
    "--configured", multiple=True, help="A destination of this deployment; all of the policy by default."
)
@click.option("--endpoint", type=click.Choice(ENDPOINTS), default=ENDPOINTS[0], show_default=True)
@click.option("--workload", type=click.Choice(WORKLOADS), default=WORKLOADS[0], show_default=True)
@click.option("--prompt", help="The pinned prompt, as name@version.")
@click.option("--stream/--no-stream", default=False, show_default=True)
@click.option("--prompt-tokens", type=click.IntRange(0), default=0, show_default=True)
@click.option("--output-tokens", type=click.IntRange(0), default=0, show_default=True)
def explain_command(
    directory: Path,
    tenant: str,
    model: str,
    label: str,
    tags: tuple[str, ...],
    roles: tuple[str, ...],
    scopes: tuple[str, ...],
    tools: tuple[str, ...],
    extensions: tuple[str, ...],
    configured: tuple[str, ...],
    endpoint: str,
    workload: str,
    prompt: str | None,
    stream: bool,
    prompt_tokens: int,
    output_tokens: int,
) -> None:
    """Say what the policy in DIRECTORY decides about a request, and how each rule came to match or not.

    The tenant's floor is applied first, as it is for a real request.
    """
    compiled = _compiled(directory)
    unknown = sorted(set(configured) - set(compiled.destinations))
    if unknown:
        raise click.BadParameter(f"the policy has no destination {unknown[0]}", param_hint="--configured")
    asked = Label(Level.parse(label), frozenset(Tag(tag) for tag in tags))
    treated = asked.join(compiled.floor(tenant)) if tenant in compiled.tenants else asked
    if treated.level > asked.level:
        click.echo(f"the floor of tenant {tenant} raises the label from {label} to {treated.level.word}")
    facts = Facts(
        tenant=tenant,
        roles=frozenset(roles),
        scopes=frozenset(scopes),
        label=treated,
        model=model,
        endpoint=endpoint,
        stream=stream,
        tool_names=frozenset(tools),
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        extensions=frozenset(extensions),
        workload=workload,
    )
    explanation = explain(compiled, facts, frozenset(configured or compiled.destinations))
    _show(explanation)
    if not isinstance(explanation.decision, Permit):
        raise click.exceptions.Exit(1)


def _compiled(directory: Path) -> CompiledPolicy:
    try:
        return compile_bundle(read_files(directory))
    except ConfigurationError as error:
        click.echo(f"{directory}: refused\n  {error}", err=True)
        raise click.exceptions.Exit(1) from None


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
