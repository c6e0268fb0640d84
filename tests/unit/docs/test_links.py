"""What the pages name exists, and what operators must know is named."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from private_node.arguments import CPU_PLUGIN
from tests.unit.docs import source

RUNBOOK = (source.ROOT / "docs/runbook.md").read_text("utf-8")
#: Words with the prefix of metrics that are none.
NO_METRICS = {CPU_PLUGIN}
every_page = pytest.mark.parametrize("page", source.PAGES, ids=source.name)


def test_reads_the_pages() -> None:
    found = {source.name(page) for page in source.PAGES}
    assert {"SECURITY.md", "CHANGELOG.md", "docs/runbook.md", "docs/compliance/README.md"} <= found


@every_page
def test_every_relative_link_resolves(page: Path) -> None:
    text = page.read_text("utf-8")
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", source.without_fences(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        is_there = other.exists() and other.is_relative_to(source.ROOT)
        if not is_there or (anchor and anchor not in source.anchors(other.read_text("utf-8"))):
            missing.append(target)
    assert missing == []


@every_page
def test_every_command_and_option_exists(page: Path) -> None:
    wrong = []
    for span in source.spans(page.read_text("utf-8")):
        match = re.match(r"(?:\$ )?(?:\S*/bin/)?tidegate (?=[a-z-])([^|;)]*)", span)
        if match is None:
            continue
        try:
            command, rest = source.command_of(match[1].split())
        except KeyError as error:
            wrong.append(f"{span}: {error}")
            continue
        options = [[*parameter.opts, *parameter.secondary_opts] for parameter in command.params]
        known = {option for each in options for option in each}
        used = {word.split("=")[0] for word in rest if word.startswith("--")} - {"--help", "--version"}
        wrong.extend(f"{span}: {option}" for option in used - known)
    assert wrong == []


def test_a_command_that_nobody_has_would_be_noticed() -> None:
    assert source.command_of(["audit", "verify", "DIR"])[1] == ["DIR"]
    with pytest.raises(KeyError):
        source.command_of(["audit", "repair"])


@every_page
def test_every_make_target_exists(page: Path) -> None:
    makefile = (source.ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    spans = source.spans(page.read_text("utf-8"))
    named = {match[1] for span in spans if (match := re.match(r"(?:\$ )?make ([a-z-]+)", span))}
    assert named <= targets


@every_page
def test_every_metric_on_a_page_exists(page: Path) -> None:
    named = set(re.findall(r"\btidegate_[a-z_]+", page.read_text("utf-8")))
    assert named - NO_METRICS <= set().union(*source.metric_families().values())


def test_the_runbook_names_every_metric_once() -> None:
    rows = [row[0].strip("`") for row in source.table(RUNBOOK, "## Metrics")]
    assert sorted(rows) == sorted(source.metric_families())


def test_the_runbook_names_every_log_event_and_no_other() -> None:
    cells = [row[0] for row in source.table(RUNBOOK, "## Log events")]
    assert {event for cell in cells for event in re.findall(r"`([^`]+)`", cell)} == source.log_events()


def test_every_error_code_of_the_runbook_is_in_the_code() -> None:
    rows = [row[0].strip("`") for row in source.table(RUNBOOK, "## Error codes")]
    assert len(rows) == len(set(rows))
    assert [code for code in rows if not source.is_text_of_the_code(code)] == []


def test_every_class_of_refusal_has_its_row_in_the_runbook() -> None:
    rows = {row[0].strip("`") for row in source.table(RUNBOOK, "## Error codes")}
    assert source.base_codes() <= rows


def test_a_code_that_nobody_has_would_be_noticed() -> None:
    assert source.is_text_of_the_code("upstream-idle-timeout")
    assert source.is_text_of_the_code("requests-limit-exceeded")
    assert not source.is_text_of_the_code("upstream-purple")


@every_page
def test_every_test_on_a_page_exists(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text("utf-8")))
    assert named <= source.test_names()


@every_page
def test_no_page_names_a_place_of_one_machine(page: Path) -> None:
    assert re.findall(r"/(?:work|root|home|tmp)/\S*", page.read_text("utf-8")) == []


def test_every_fragment_of_the_changelog_has_a_known_type() -> None:
    paths = [path for path in (source.ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    pattern = re.compile(r"[a-z0-9-]+\.(feature|fix|decision|security)\.md")
    assert [path.name for path in paths if not pattern.fullmatch(path.name)] == []
    assert [path.name for path in paths if not path.read_text("utf-8").strip()] == []


def test_the_architecture_names_the_rooms_and_rows_of_the_build() -> None:
    with (source.ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["id"] == "layers")
    text = (source.ROOT / "docs/architecture.md").read_text("utf-8")
    rows = source.table(text, "## The rooms, and who may import whom")
    assert [set(re.findall(r"`(\w+)`", row[1])) for row in rows] == [
        set(re.findall(r"\w+", row)) for row in layers
    ]
