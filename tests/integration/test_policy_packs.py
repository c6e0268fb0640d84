from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest

from gateway.domain.decision import Permit
from gateway.domain.label import Level
from gateway.policy.bundle import load_bundle, read_files
from gateway.policy.document import parse, plain
from gateway.policy.evaluate import evaluate
from gateway.policy.notes import notes
from gateway.rollout.candidate import output_profiles
from tests.fakes.policy_pack import facts

pytestmark = pytest.mark.integration
POLICIES = Path(__file__).parents[2] / "policies"
PACKS = sorted(path for path in (POLICIES / "packs").iterdir() if path.is_dir())
every_pack = pytest.mark.parametrize("pack", PACKS, ids=lambda path: path.name)


def test_there_are_packs() -> None:
    assert [pack.name for pack in PACKS] == ["finance", "healthcare", "public-sector"]


@every_pack
def test_a_pack_loads_with_its_cases_and_says_nothing_in_vain(pack: Path) -> None:
    policy = load_bundle(pack)
    assert len(policy.cases) >= 10
    assert policy.id == pack.name
    assert output_profiles(policy)
    assert notes(policy) == ()


@every_pack
def test_every_rule_of_a_pack_decides_a_case(pack: Path) -> None:
    policy = load_bundle(pack)
    everywhere = frozenset(policy.destinations)
    decisions = [evaluate(policy, case.facts, case.configured or everywhere) for case in policy.cases]
    decided = {rule for decision in decisions for rule in decision.rule_ids}
    assert {rule.id for rule in policy.rules} == decided


@every_pack
def test_nothing_restricted_of_a_pack_goes_to_a_hosted_place(pack: Path) -> None:
    policy = load_bundle(pack)
    for tenant in policy.tenants:
        for model in policy.models:
            asked = facts(Level.RESTRICTED, tenant=tenant, model=model)
            decision = evaluate(policy, asked, frozenset(policy.destinations))
            places = decision.destinations if isinstance(decision, Permit) else ()
            assert not any(place.hosted for place in places)


@every_pack
def test_every_file_of_a_pack_fits_its_schema_and_names_it(pack: Path) -> None:
    for name, text in read_files(pack).items():
        first = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
        schema = ((pack / name).parent / first).resolve()
        assert schema.parent == POLICIES / "schema", name
        validator = jsonschema_rs.Draft202012Validator(json.loads(schema.read_text("utf-8")))
        assert [error.message for error in validator.iter_errors(plain(parse(text, name)))] == []
