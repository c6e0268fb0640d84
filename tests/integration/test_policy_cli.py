from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.policy import policy
from tests.fakes.policy_pack import RULES, pack

pytestmark = pytest.mark.integration
CASE = """\
cases:
  - name: sensitive stays
    facts: {tenant: demo, model: assistant, label: restricted}
    expect: {destinations: [private]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cases").mkdir()
    for name, text in (pack() | {"cases/a.yaml": CASE}).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(policy, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


def test_lint_says_what_a_sound_folder_holds(folder: Path) -> None:
    result = run("lint", folder)
    assert result.exit_code == 0
    assert "destination   hosted: hosted, clearance internal, us" in result.stdout
    assert "rules         2 permit, 0 deny" in result.stdout


def test_lint_names_the_first_fault_and_ends_with_1(folder: Path) -> None:
    path = folder / "routing.yaml"
    path.write_text(path.read_text().replace("public..internal", "public..restricted"))
    result = run("lint", folder)
    assert result.exit_code == 1
    assert (
        "routing.yaml:30:20: rules[1].destinations[0]: expected a clearance of at least restricted"
        in result.stderr
    )
    assert result.stdout == ""


def test_test_runs_the_cases(folder: Path) -> None:
    result = run("test", folder)
    assert result.exit_code == 0
    assert "ok    cases/a.yaml:2: sensitive stays" in result.stdout
    assert result.stdout.endswith("policy test: 1 passed, 0 failed\n")


def test_test_ends_with_1_when_a_case_fails(folder: Path) -> None:
    (folder / "cases/a.yaml").write_text(CASE.replace("[private]", "[hosted]"))
    result = run("test", folder)
    assert result.exit_code == 1
    assert "FAIL  cases/a.yaml:2: sensitive stays" in result.stdout
    assert "expected permit for hosted, found permit for private by rule sensitive" in result.stdout
    assert result.stdout.endswith("policy test: 0 passed, 1 failed\n")


def test_explain_shows_which_rules_match_and_why_not(folder: Path) -> None:
    rule = "  - {id: first, labels: public..internal, when: \"'[red]x' in roles\", destinations: [private]}\n"
    text = RULES.replace("rules:\n", "rules:\n" + rule)
    path = folder / "routing.yaml"
    path.write_text(path.read_text().replace(RULES, text))
    result = run(
        "explain", folder, "--tenant", "demo", "--model", "assistant", "--label", "public", "--role", "clerk"
    )
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "permit: hosted, private (rule ordinary)"
    assert "first permit no match the condition is false: '[red]x' in roles" in lines
    assert "sensitive permit no match label public is outside confidential..restricted" in lines
    assert "ordinary permit decides label, model and tenant fit" in lines
    assert "hosted yes as big; clearance internal, hosted, us" in lines


def test_explain_applies_the_tenants_floor(folder: Path) -> None:
    result = run("explain", folder, "--tenant", "acme", "--model", "assistant", "--label", "public")
    assert result.stdout.startswith("the floor of tenant acme raises the label from public to internal\n")


def test_explain_ends_with_1_for_a_denial(folder: Path) -> None:
    arguments = (
        "--tenant",
        "demo",
        "--model",
        "assistant",
        "--label",
        "restricted",
        "--configured",
        "hosted",
    )
    result = run("explain", folder, *arguments)
    assert result.exit_code == 1
    assert result.stdout.startswith("deny: 403 no-destination (rule sensitive): ")
    assert "not configured in this deployment" in result.stdout


def test_explain_refuses_a_destination_that_the_policy_does_not_have(folder: Path) -> None:
    arguments = ("--tenant", "demo", "--model", "assistant", "--label", "public", "--configured", "elsewhere")
    result = run("explain", folder, *arguments)
    assert result.exit_code == 2
    assert "the policy has no destination elsewhere" in result.stderr
