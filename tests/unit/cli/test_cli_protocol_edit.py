"""`tidegate protocol` new, promote, import-mcp, test and diff on real folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli.protocol import protocol
from tests.fakes.protocol_files import good_files


def run(*arguments: object) -> Result:
    return CliRunner().invoke(protocol, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good registry, locked."""
    for path, content in good_files().items():
        target = tmp_path / "protocols" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    assert run("lock", tmp_path / "protocols").exit_code == 0
    return tmp_path / "protocols"


def here(folder: Path, *arguments: object) -> Result:
    return run(*arguments, "--directory", folder)


@pytest.mark.parametrize("kind", ["prompt", "tools"])
def test_a_new_document_passes_its_own_cases_and_can_be_locked(folder: Path, kind: str) -> None:
    made = here(folder, "new", "fresh@0.1.0", "--kind", kind)
    assert made.exit_code == 0, made.stderr
    assert "next: edit" in made.stdout
    tested = here(folder, "test", "fresh@0.1.0")
    assert (tested.exit_code, tested.stdout) == (0, "fresh@0.1.0: 2 of 2 cases hold\n")
    assert "fresh@0.1.0: added" in run("lock", folder).stdout
    assert run("lint", folder).exit_code == 0


def test_a_new_version_begins_as_a_copy_and_never_over_one_that_is_there(folder: Path) -> None:
    assert here(folder, "new", "greeting@2.0.0", "--from", "1.10.0").exit_code == 0
    copied = (folder / "greeting/2.0.0/manifest.yaml").read_text("utf-8")
    assert "version: 2.0.0" in copied
    again = here(folder, "new", "greeting@2.0.0", "--from", "1.10.0")
    assert again.exit_code == 2
    assert "is there already" in again.stderr
    assert here(folder, "new", "greeting@3.0.0", "--from", "9.9.9").exit_code == 2
    assert here(folder, "new", "greeting").exit_code == 2


def test_promotes_and_says_the_way_back_which_then_works(folder: Path) -> None:
    before = (folder / "channels.yaml").read_text("utf-8")
    promoted = here(folder, "promote", "greeting@1.10.0")
    assert promoted.exit_code == 0, promoted.stderr
    assert promoted.stdout.splitlines() == [
        "greeting: stable is 1.10.0 (was 1.0.0)",
        "back: tidegate protocol promote greeting@1.0.0",
    ]
    assert (folder / "channels.yaml").read_text("utf-8") == "greeting:\n  stable: 1.10.0\n  previous: 1.0.0\n"
    assert here(folder, "promote", "greeting@1.0.0").exit_code == 0
    after = (folder / "channels.yaml").read_text("utf-8")
    assert "stable: 1.0.0" in before
    assert after == "greeting:\n  stable: 1.0.0\n  previous: 1.10.0\n"


def test_a_canary_leaves_stable_and_comments_and_dates_where_they_are(folder: Path) -> None:
    (folder / "channels.yaml").write_text(
        "# Reviewed by two.\ngreeting:\n  # since spring\n  stable: 1.0.0\n  retire:\n"
        "    1.0.0: {deprecated: 2026-12-01, removed: 2027-03-01}\n"
    )
    assert here(folder, "promote", "greeting@1.10.0", "--canary", "2.5").exit_code == 0
    assert (folder / "channels.yaml").read_text("utf-8") == (
        "# Reviewed by two.\ngreeting:\n  stable: 1.0.0\n  canary: {version: 1.10.0, percent: 2.5}\n"
        "  # since spring\n  retire:\n    1.0.0: {deprecated: 2026-12-01, removed: 2027-03-01}\n"
    )
    assert here(folder, "promote", "greeting@1.10.0").exit_code == 0
    assert "canary" not in (folder / "channels.yaml").read_text("utf-8")


def test_the_first_channel_of_a_name_is_added_below_the_others(folder: Path) -> None:
    assert here(folder, "new", "fresh@0.1.0").exit_code == 0
    run("lock", folder)
    assert here(folder, "promote", "fresh@0.1.0", "--canary", "5").exit_code == 2
    assert here(folder, "promote", "fresh@0.1.0").exit_code == 0
    text = (folder / "channels.yaml").read_text("utf-8")
    assert text == "greeting:\n  stable: 1.0.0\nfresh:\n  stable: 0.1.0\n"


def test_does_not_promote_what_is_not_locked_not_there_or_fails_its_cases(folder: Path) -> None:
    before = (folder / "channels.yaml").read_bytes()
    assert here(folder, "promote", "greeting@9.0.0").exit_code == 2
    assert here(folder, "promote", "search@1.0.0").exit_code == 2
    here(folder, "new", "fresh@0.1.0")
    assert "expected an entry fresh@0.1.0" in here(folder, "promote", "fresh@0.1.0").stderr
    cases = folder / "fresh/0.1.0/tests/cases.yaml"
    cases.write_text(cases.read_text().replace("Write about tide tables.", "Write of tide tables."))
    run("lock", folder)
    failed = here(folder, "promote", "fresh@0.1.0")
    assert failed.exit_code == 2
    assert "not promoted" in failed.stderr
    assert "line 1 to be" in failed.stderr
    assert (folder / "channels.yaml").read_bytes() == before


def test_a_case_that_does_not_hold_is_exit_status_1(folder: Path) -> None:
    here(folder, "new", "fresh@0.1.0", "--kind", "tools")
    cases = folder / "fresh/0.1.0/tests/cases.yaml"
    cases.write_text(cases.read_text().replace("expect: valid", "expect: arguments-not-json"))
    result = here(folder, "test")
    assert result.exit_code == 1
    assert "fresh@0.1.0: 1 of 2 cases hold" in result.stdout
    assert "a reference is enough: expected arguments-not-json, found valid" in result.stdout
    assert here(folder, "test", "greeting@1.0.0").exit_code == 0


def test_diff_says_what_changes_and_asks_for_a_major_version(folder: Path) -> None:
    same = here(folder, "diff", "greeting@1.0.0", "greeting@1.0.0")
    assert (same.exit_code, same.stdout) == (0, "no difference for callers\n")
    differs = here(folder, "diff", "greeting@1.0.0", "greeting@1.10.0", "--text")
    assert differs.exit_code == 1
    assert "wider: tools: none → search@1.0.0" in differs.stdout
    assert "-Greet {{who}}. Only {{who}}." in differs.stdout
    here(folder, "new", "search@1.1.0", "--from", "1.0.0")
    tools = folder / "search/1.1.0/tools.json"
    tools.write_text(tools.read_text().replace("look_up", "find"))
    broken = here(folder, "diff", "search@1.0.0", "search@1.1.0")
    assert broken.exit_code == 1
    assert "breaking: tool look_up: removed" in broken.stdout
    assert "new major version" in broken.stderr
    assert here(folder, "diff", "search@1.0.0", "search@9.0.0").exit_code == 2


def test_lint_compares_with_what_was_released(folder: Path, tmp_path: Path) -> None:
    released = tmp_path / "released.lock"
    released.write_bytes((folder.parent / "protocols.lock").read_bytes())
    assert run("lint", folder, "--released", released).exit_code == 0
    # The document and its entry in the lock are changed together; only the released lock can tell.
    (folder / "greeting/1.0.0/prompt.md").write_bytes(b"Hi {{who}}")
    run("lock", folder, "--replace")
    assert run("lint", folder).exit_code == 0
    caught = run("lint", folder, "--released", released)
    assert caught.exit_code == 2
    assert "greeting@1.0.0: changed since it was released" in caught.stderr


def test_lint_warns_of_tools_for_nobody_of_dates_that_are_past_and_of_missing_cases(folder: Path) -> None:
    (folder / "channels.yaml").write_text(
        "greeting:\n  stable: 1.10.0\n  retire:\n    1.0.0: {deprecated: 2020-01-01, removed: 2020-02-01}\n"
    )
    here(folder, "new", "fresh@0.1.0", "--kind", "tools")
    run("lock", folder)
    result = run("lint", folder)
    assert result.exit_code == 0
    assert "warning: fresh@0.1.0: tool look_up: no role may use it" in result.stderr
    assert "warning: greeting@1.0.0: its removal date is past" in result.stderr
    assert "warning: greeting@1.0.0: has no test cases" in result.stderr


LISTED = {
    "tools": [
        {
            "name": "get_weather",
            "title": "Weather",
            "description": "Weather of a city.",
            "inputSchema": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }
    ]
}


def test_imports_a_saved_list_that_can_then_be_locked(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "list.json"
    saved.write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "result": LISTED}))
    result = here(folder, "import-mcp", saved, "--to", "weather@1.0.0", "--role", "clerk", "--role", "user")
    assert result.exit_code == 0, result.stderr
    assert "left out, only for display: get_weather: title" in result.stdout
    assert "tool get_weather: side effects read, results restricted, for clerk, user" in result.stdout
    assert "weather@1.0.0: added" in run("lock", folder).stdout
    assert run("lint", folder).exit_code == 0


def test_says_every_reason_and_writes_nothing_when_a_list_cannot_come_over(
    folder: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "list.json"
    saved.write_text(
        json.dumps({"tools": [LISTED["tools"][0] | {"name": "a.b", "price": 1}], "nextCursor": "x"})
    )
    result = here(folder, "import-mcp", saved, "--to", "weather@1.0.0")
    assert result.exit_code == 2
    assert result.stderr.count("tidegate: list.json: ") == 3
    assert not (folder / "weather").exists()
    saved.write_text("{")
    assert here(folder, "import-mcp", saved, "--to", "weather@1.0.0").exit_code == 2
    assert here(folder, "import-mcp", saved, "--to", "../weather@1.0.0").exit_code == 2
