from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.policy import policy
from gateway.domain.label import Level
from gateway.policy.compile import compile_bundle
from tests.fakes.decided import record_of, stored
from tests.fakes.policy_pack import ALL, RULES, facts, pack

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
    sound = pack(output='version: "1"\nprofiles:\n  default: {}\n')
    for name, text in (sound | {"cases/a.yaml": CASE}).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(policy, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


def test_lint_says_what_a_sound_folder_holds(folder: Path) -> None:
    result = run("lint", folder)
    assert result.exit_code == 0
    assert "destination   hosted: hosted, clearance internal, us" in result.stdout
    assert "rules         2 permit, 0 deny" in result.stdout


def test_lint_says_what_does_nothing_and_ends_with_1_when_strict(folder: Path) -> None:
    result = run("lint", folder)
    assert "note          model embedder is served by no destination of a rule" in result.stdout
    assert run("lint", folder, "--strict").exit_code == 1


def test_lint_reads_output_profiles_and_prompts_too(folder: Path) -> None:
    (folder / "output.yaml").write_text('version: "1"\nprofiles:\n  default: {rules: []}\n')
    result = run("lint", folder)
    assert result.exit_code == 1
    assert "default: rules: expected a list with at least one rule" in result.stderr


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


@pytest.fixture
def candidate(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same policy, with ordinary requests kept private."""
    other = tmp_path_factory.mktemp("candidate")
    output = 'version: "1"\nprofiles:\n  default: {}\n'
    for name, text in pack(RULES.replace("[hosted, private]", "[private]"), output=output).items():
        (other / name).write_text(text, encoding="utf-8")
    return other


@pytest.fixture
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of two requests, in the form of an export."""
    place = tmp_path_factory.mktemp("export")
    policy_now = compile_bundle(pack())
    asked = [facts(), facts(Level.RESTRICTED)]
    lines = stored(record_of(policy_now, each, ALL, f"req_{at}") for at, each in enumerate(asked))
    rows = [b'{"seq":%d,"leaf":"","proof":[],"record":%b}\n' % (at, line) for at, line in enumerate(lines)]
    (place / "records.jsonl").write_bytes(b"".join(rows))
    return place


def test_diff_says_what_changes_and_ends_with_1(folder: Path, candidate: Path, export: Path) -> None:
    result = run("diff", folder, candidate, "--audit", export)
    assert result.exit_code == 1, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "rules: ~ ordinary" in lines
    assert "cases: 1 compared, 0 change, 0 same answer by another rule" in lines
    assert "recorded requests: 2 compared, 1 change, 0 same answer by another rule" in lines
    assert "by destination -hosted 1 req_0" in lines
    assert "req_0: hosted, private (rule ordinary)" in lines


def test_diff_of_equal_folders_ends_with_0_and_of_a_broken_one_with_2(folder: Path, candidate: Path) -> None:
    assert run("diff", folder, folder).exit_code == 0
    (candidate / "routing.yaml").write_text("id: x\n")
    assert run("diff", folder, candidate).exit_code == 2


def test_diff_as_json_names_parts_and_changes(folder: Path, candidate: Path, export: Path) -> None:
    tree = json.loads(run("diff", folder, candidate, "--audit", export, "--json").stdout)
    assert tree["parts"] == [{"part": "rules", "added": [], "removed": [], "changed": ["ordinary"]}]
    assert tree["recorded_requests"]["by_kind"] == {"narrowed": ["req_0"]}


def test_replay_counts_changes_by_rule_tenant_and_destination(candidate: Path, export: Path) -> None:
    result = run("replay", "--audit", export, "--candidate", candidate)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "recorded requests: 2 compared, 1 change, 0 same answer by another rule" in lines
    assert "by rule ordinary -> ordinary 1 req_0" in lines
    assert "by tenant demo 1 req_0" in lines
    assert "by destination -hosted 1 req_0" in lines


def test_replay_of_a_period_as_json(candidate: Path, export: Path) -> None:
    arguments = ("--from", "2026-12-01T09:00:01", "--to", "2026-12-02", "--json")
    tree = json.loads(run("replay", "--audit", export, "--candidate", candidate, *arguments).stdout)
    assert (tree["compared"], tree["changed"], tree["first"]) == (1, 0, "2026-12-01T09:00:01.000000Z")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "yesterday"), "expected a time such as"),
        (("--configured", "elsewhere"), "the policy has no destination elsewhere"),
    ],
)
def test_replay_refuses_what_it_does_not_know(
    candidate: Path, export: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = run("replay", "--audit", export, "--candidate", candidate, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_replay_refuses_a_folder_without_records(candidate: Path) -> None:
    result = run("replay", "--audit", candidate, "--candidate", candidate)
    assert result.exit_code == 1
    assert "expected an audit log" in result.stderr


def test_explain_takes_the_facts_of_a_recorded_request(candidate: Path, export: Path) -> None:
    result = run("explain", candidate, "--request", "req_0", "--audit", export)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].endswith(": hosted, private (rule ordinary)")
    assert lines[1] == "permit: private (rule ordinary)"


def test_explain_says_when_the_log_does_not_hold_the_request(candidate: Path, export: Path) -> None:
    result = run("explain", candidate, "--request", "req_7", "--audit", export)
    assert result.exit_code == 1
    assert "no record of this request" in result.stderr
    assert run("explain", candidate, "--request", "req_7").exit_code == 2
    assert "Missing option '--model'" in run("explain", candidate, "--tenant", "demo").stderr


def test_diff_names_prompts_that_differ(folder: Path, candidate: Path) -> None:
    place = candidate / "protocols"
    place.mkdir()
    (place / "channels.yaml").write_text("greet: {stable: 1.0.0}\n")
    result = run("diff", folder, candidate)
    assert "  protocols: + channels.yaml" in result.stdout.splitlines()
