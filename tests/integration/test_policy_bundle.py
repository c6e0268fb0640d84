from __future__ import annotations

from pathlib import Path

import pytest

from gateway.domain.decision import Permit
from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.policy.bundle import (
    MAX_FILES,
    Loaded,
    Rejected,
    fingerprint,
    load_bundle,
    read_files,
    run_cases,
    try_load,
)
from gateway.policy.document import MAX_BYTES
from gateway.policy.evaluate import evaluate
from tests.fakes.policy_pack import ALL, LIMITS, RULES, facts, pack

pytestmark = pytest.mark.integration
DEFAULT_PACK = Path(__file__).parents[2] / "policies"
CASES = """\
cases:
  - name: sensitive stays
    facts: {tenant: demo, model: assistant, label: restricted}
    expect: {destinations: [private]}
"""


def write(directory: Path, files: dict[str, str]) -> Path:
    (directory / "cases").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory


def test_loads_a_folder_whose_cases_hold(tmp_path: Path) -> None:
    policy = load_bundle(write(tmp_path, pack() | {"cases/a.yaml": CASES}))
    assert [result.difference for result in run_cases(policy)] == [None]
    assert isinstance(evaluate(policy, facts(Level.RESTRICTED), ALL), Permit)


def test_loads_a_folder_without_cases(tmp_path: Path) -> None:
    write(tmp_path, pack())
    (tmp_path / "cases").rmdir()
    assert load_bundle(tmp_path).cases == ()


def test_refuses_a_folder_whose_case_fails_and_names_each_case(tmp_path: Path) -> None:
    wrong = CASES.replace("[private]", "[hosted]") + CASES.replace("cases:\n", "").replace(
        "restricted", "public"
    )
    with pytest.raises(ConfigurationError) as caught:
        load_bundle(write(tmp_path, pack() | {"cases/a.yaml": wrong}))
    first, second = str(caught.value).splitlines()
    assert first.startswith("cases/a.yaml:2: case 'sensitive stays': ")
    assert first.endswith("expected permit for hosted, found permit for private by rule sensitive")
    assert second.startswith("cases/a.yaml:5: case 'sensitive stays': ")
    assert second.endswith("expected permit for private, found permit for hosted, private by rule ordinary")


def test_default_pack_loads_and_sends_nothing_sensitive_to_a_hosted_place() -> None:
    policy = load_bundle(DEFAULT_PACK)
    assert len(policy.cases) >= 8
    everywhere = frozenset(policy.destinations)
    for tenant in policy.tenants:
        for model in policy.models:
            for level in (Level.CONFIDENTIAL, Level.RESTRICTED):
                decision = evaluate(policy, facts(level, tenant=tenant, model=model), everywhere)
                places = decision.destinations if isinstance(decision, Permit) else ()
                assert not any(place.hosted for place in places)


@pytest.mark.parametrize(
    "broken",
    [
        "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
        "id: !!python/object/apply:os.system [id]\n",
        "id: a\nid: b\n",
        "[" * 100_000,
        "{" * 100_000,
        "id: test\nversion: no\nrules: no\n",
        "",
        "id: test\nversion: '1'\nmodels:\n  assistant: {descr",
    ],
    ids=["alias-bomb", "python-tag", "duplicate", "deep-list", "deep-map", "no", "empty", "half-written"],
)
def test_keeps_the_last_good_policy_when_a_file_breaks(tmp_path: Path, broken: str) -> None:
    first = try_load(None, write(tmp_path, pack()))
    assert isinstance(first, Loaded)
    (tmp_path / "routing.yaml").write_text(broken, encoding="utf-8")
    second = try_load(first.policy, tmp_path)
    assert isinstance(second, Rejected)
    assert second.kept is first.policy
    assert second.fingerprint != first.fingerprint
    assert second.reason.startswith("routing.yaml:")
    write(tmp_path, pack())
    third = try_load(second.kept, tmp_path)
    assert isinstance(third, Loaded)
    assert third.policy == first.policy


def test_keeps_the_last_good_policy_when_a_case_fails(tmp_path: Path) -> None:
    first = try_load(None, write(tmp_path, pack() | {"cases/a.yaml": CASES}))
    assert isinstance(first, Loaded)
    write(tmp_path, pack(RULES.replace("destinations: [private]\n", "deny: Closed.\n", 1)))
    second = try_load(first.policy, tmp_path)
    assert isinstance(second, Rejected)
    assert second.kept is first.policy
    assert "case 'sensitive stays'" in second.reason


def test_has_nothing_to_keep_before_the_first_good_policy(tmp_path: Path) -> None:
    outcome = try_load(None, tmp_path / "absent")
    assert isinstance(outcome, Rejected)
    assert outcome.kept is None
    assert "the policy folder cannot be read" in outcome.reason


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("limits.yaml", LIMITS.encode("utf-16"), "limits.yaml: expected UTF-8"),
        ("limits.yaml", b"#" * (MAX_BYTES + 1), f"limits.yaml: expected at most {MAX_BYTES} bytes"),
        ("routing.yml", b"id: x\n", "routing.yml: expected one of routing.yaml"),
    ],
)
def test_refuses_file_that_cannot_be_read_as_policy(
    tmp_path: Path, name: str, raw: bytes, message: str
) -> None:
    write(tmp_path, pack())
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(ConfigurationError) as caught:
        load_bundle(tmp_path)
    assert str(caught.value).startswith(message)


def test_refuses_more_files_than_the_bound(tmp_path: Path) -> None:
    write(tmp_path, {f"cases/{index}.yaml": "cases: []\n" for index in range(MAX_FILES + 1)})
    with pytest.raises(ConfigurationError, match=f"at most {MAX_FILES} files"):
        read_files(tmp_path)


def test_leaves_out_hidden_files_and_other_kinds(tmp_path: Path) -> None:
    write(tmp_path, pack())
    (tmp_path / ".routing.yaml.swp").write_text("x")
    (tmp_path / ".hidden.yaml").write_text("x")
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "schema").mkdir()
    assert set(read_files(tmp_path)) == set(pack())


def test_fingerprint_changes_with_any_byte_and_with_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, pack() | {"cases/a.yaml": CASES})
    first = fingerprint(tmp_path)
    write(tmp_path, pack())
    assert fingerprint(tmp_path) == first
    (tmp_path / "cases/a.yaml").write_text(CASES + "\n", encoding="utf-8")
    second = fingerprint(tmp_path)
    (tmp_path / "cases/a.yaml").rename(tmp_path / "cases/b.yaml")
    assert len({first, second, fingerprint(tmp_path), fingerprint(tmp_path / "absent")}) == 4


def test_follows_a_swapped_link_to_another_revision(tmp_path: Path) -> None:
    write(tmp_path / "one", pack())
    write(tmp_path / "two", pack(RULES.replace("[hosted, private]", "[private]")))
    link = tmp_path / "active"
    link.symlink_to("one")
    first = try_load(None, link)
    fresh = tmp_path / "fresh"
    fresh.symlink_to("two")
    fresh.replace(link)
    second = try_load(None, link)
    assert isinstance(first, Loaded)
    assert isinstance(second, Loaded)
    assert first.fingerprint != second.fingerprint
    assert first.policy.sha256 != second.policy.sha256
