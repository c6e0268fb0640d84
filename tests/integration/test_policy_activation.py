"""The policy watch over real folders: signatures, revisions, Kubernetes' link swap, shadow."""

from __future__ import annotations

import base64
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from gateway.activation import PolicyWatch
from gateway.audit.canonical import LogEvent
from gateway.audit.keys import PemKey
from gateway.cli.policy import policy as command
from gateway.domain.decision import Denial, Permit
from gateway.domain.label import Level
from gateway.domain.record import Receipt
from gateway.domain.secret import Secret
from gateway.errors import AuditUnavailable, ConfigurationError
from gateway.policy.signing import SIGNATURE_FILE, Active
from gateway.rollout.revision import STATE_NAME, read_active, write_active
from gateway.sensitivity.classify import FindingsCache
from gateway.settings import (
    AuditSettings,
    EndpointSettings,
    IdentitySettings,
    PolicySettings,
    SensitivitySettings,
    Settings,
    SignerSettings,
)
from gateway.snapshot import SnapshotHolder
from gateway.telemetry import Metrics
from tests.fakes.policy_pack import RULES, facts, pack

pytestmark = pytest.mark.integration
PRIVATE_ONLY = RULES.replace("[hosted, private]", "[private]")


def files(revision: int | None = None, rules: str = RULES) -> dict[str, str]:
    found = pack(rules, output='version: "1"\nprofiles:\n  default: {}\n')
    if revision is not None:
        found["routing.yaml"] = f"revision: {revision}\n" + found["routing.yaml"]
    return found


def write(directory: Path, content: dict[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in content.items():
        (directory / name).write_text(text, encoding="utf-8")


@dataclass
class Office:
    """A folder, a watch over it, the people who sign, and the events that were recorded."""

    root: Path
    required: int = 0
    people: dict[str, str] = field(default_factory=dict)
    events: list[LogEvent] = field(default_factory=list)
    audit_is_down: bool = False
    shadow: str = ""

    @property
    def folder(self) -> Path:
        return self.root / "policies"

    def hire(self, *names: str) -> None:
        for name in names:
            result = self.run("new-key", "--key", self.root / f"{name}.pem", "--name", name)
            assert result.exit_code == 0, result.output
            pem = Secret((self.root / f"{name}.pem").read_text())
            self.people[name] = base64.b64encode(PemKey(pem).public_key).decode()
            assert self.people[name] in result.stdout

    def run(self, *arguments: object) -> Result:
        return CliRunner().invoke(command, [str(each) for each in arguments])

    def sign(self, *names: str, rollback_from: int | None = None) -> None:
        for name in names:
            more = [] if rollback_from is None else ["--rollback-from", rollback_from]
            result = self.run("sign", self.folder, "--key", self.root / f"{name}.pem", "--name", name, *more)
            assert result.exit_code == 0, result.output

    def open(self) -> PolicyWatch:
        settings = Settings(
            identity=IdentitySettings(issuers=()),
            sensitivity=SensitivitySettings(contextual_model="none"),
            audit=AuditSettings(directory=str(self.root / "audit"), signing_key=""),
            pepper="",
            policy=PolicySettings(
                directory=str(self.folder),
                required_signers=self.required,  # type: ignore[arg-type]
                signers=tuple(SignerSettings(name, key) for name, key in self.people.items()),
                shadow_directory=self.shadow,
            ),
            destinations={
                "private": EndpointSettings(url="http://127.0.0.1:1/v1"),
                "hosted": EndpointSettings(url="https://api.example.com/v1"),
            },
        )
        self.holder, self.metrics = SnapshotHolder(), Metrics()
        return PolicyWatch(settings, self.holder, self.metrics, FindingsCache(b"k" * 32), ())

    async def start(self) -> PolicyWatch:
        watch = self.open()
        watch.load()
        await watch.announce(self.record)
        return watch

    async def record(self, event: LogEvent) -> Receipt:
        if self.audit_is_down:
            raise AuditUnavailable("down")
        self.events.append(event)
        return Receipt("", "o", len(self.events), "0")

    async def look(self, watch: PolicyWatch) -> tuple[str, str]:
        """One look at the folder; type and reason of the last event."""
        await watch._look(self.record)
        await watch._look_shadow(self.record)
        return self.events[-1].event_type, self.events[-1].reason_code

    def places(self) -> list[str]:
        decision = self.holder.current.decide(facts())
        return [place.name for place in decision.destinations] if isinstance(decision, Permit) else []

    def fact(self, name: str) -> str | int:
        return dict(self.events[-1].facts)[name]


@pytest.fixture
def office(tmp_path: Path) -> Office:
    one = Office(tmp_path)
    write(one.folder, files(5))
    return one


@pytest.fixture
def bank(office: Office) -> Office:
    """Two signers are demanded, and both have signed revision 5."""
    office.required = 2
    office.hire("maker", "checker")
    office.sign("maker", "checker")
    return office


async def test_a_signed_policy_acts_and_the_event_names_revision_and_signers(bank: Office) -> None:
    await bank.start()
    assert bank.places() == ["hosted", "private"]
    assert (bank.events[-1].event_type, bank.fact("revision"), bank.fact("signers")) == (
        "policy-activated",
        5,
        "checker maker",
    )
    assert bank.fact("configured") == "hosted private"


async def test_a_change_acts_only_when_both_have_signed(bank: Office) -> None:
    watch = await bank.start()
    write(bank.folder, files(6, PRIVATE_ONLY))
    assert await bank.look(watch) == ("policy-rejected", "bad-signature")
    bank.sign("maker")
    assert await bank.look(watch) == ("policy-rejected", "unsigned")
    assert (bank.places(), watch.is_rejected) == (["hosted", "private"], True)
    bank.sign("checker")
    assert await bank.look(watch) == ("policy-activated", "ok")
    assert (bank.places(), watch.is_rejected) == (["private"], False)


async def test_a_prompt_or_its_lock_that_changes_after_signing_is_refused(bank: Office) -> None:
    watch = await bank.start()
    (bank.folder / "protocols.lock").write_text("# another\n")
    assert await bank.look(watch) == ("policy-rejected", "bad-signature")


async def test_the_maker_cannot_be_the_checker(bank: Office) -> None:
    watch = await bank.start()
    write(bank.folder, files(6))
    bank.sign("maker")
    result = bank.run("sign", bank.folder, "--key", bank.root / "maker.pem", "--name", "checker")
    assert "maker and checker are two persons" in result.output
    # Written by hand, the gateway refuses it too.
    path = bank.folder / SIGNATURE_FILE
    tree = msgspec.json.decode(path.read_bytes())
    tree["signatures"] = tree["signatures"] * 2
    path.write_bytes(msgspec.json.encode(tree))
    assert await bank.look(watch) == ("policy-rejected", "maker-is-checker")
    assert bank.fact("active_revision") == 5


@pytest.mark.parametrize("cut", [0, 1, 40, -2])
async def test_a_half_written_signature_never_acts(bank: Office, cut: int) -> None:
    watch = await bank.start()
    write(bank.folder, files(6, PRIVATE_ONLY))
    bank.sign("maker", "checker")
    path = bank.folder / SIGNATURE_FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    assert await bank.look(watch) == ("policy-rejected", "bad-signature")
    assert bank.places() == ["hosted", "private"]
    path.write_bytes(whole)
    assert await bank.look(watch) == ("policy-activated", "ok")


async def test_without_its_signatures_the_gateway_does_not_start(bank: Office) -> None:
    (bank.folder / SIGNATURE_FILE).unlink()
    with pytest.raises(ConfigurationError, match="expected 2 signatures"):
        await bank.start()
    assert bank.events == []


async def test_an_older_revision_stays_out_also_after_a_restart(bank: Office) -> None:
    old = bank.root / "old"
    shutil.copytree(bank.folder, old)
    watch = await bank.start()
    write(bank.folder, files(6, PRIVATE_ONLY))
    bank.sign("maker", "checker")
    assert await bank.look(watch) == ("policy-activated", "ok")
    shutil.rmtree(bank.folder)
    shutil.copytree(old, bank.folder)
    assert await bank.look(watch) == ("policy-rejected", "older-revision")
    assert bank.places() == ["private"]
    with pytest.raises(ConfigurationError, match="expected revision 6 or a later one, found 5"):
        bank.open().load()


async def test_a_signed_rollback_brings_an_older_revision_back(bank: Office) -> None:
    watch = await bank.start()
    write(bank.folder, files(6, PRIVATE_ONLY))
    bank.sign("maker", "checker")
    await bank.look(watch)
    write(bank.folder, files(5))
    bank.sign("maker", "checker", rollback_from=6)
    assert await bank.look(watch) == ("policy-rolled-back", "ok")
    assert (bank.fact("revision"), bank.fact("replaced_revision")) == (5, 6)
    assert bank.places() == ["hosted", "private"]
    # A restart finds what acts.
    again = bank.open()
    again.load()
    assert again.active_version == "1"


async def test_without_signers_an_older_revision_is_refused_and_an_equal_one_is_not(office: Office) -> None:
    watch = await office.start()
    write(office.folder, files(4))
    assert await office.look(watch) == ("policy-rejected", "older-revision")
    write(office.folder, files(5, PRIVATE_ONLY))
    assert await office.look(watch) == ("policy-activated", "ok")
    assert office.places() == ["private"]


async def test_what_cannot_be_recorded_does_not_act(office: Office) -> None:
    watch = await office.start()
    write(office.folder, files(6, PRIVATE_ONLY))
    office.audit_is_down = True
    with pytest.raises(AuditUnavailable):
        await office.look(watch)
    assert office.places() == ["hosted", "private"]
    active = read_active(office.root / "audit" / STATE_NAME)
    assert active is not None
    assert active.revision == 5


async def test_a_revision_that_cannot_be_kept_does_not_act(office: Office) -> None:
    watch = await office.start()
    write(office.folder, files(6, PRIVATE_ONLY))
    draft = office.root / "audit" / f"{STATE_NAME}.tmp"
    draft.mkdir()
    assert await office.look(watch) == ("policy-rejected", "revision-not-kept")
    assert office.places() == ["hosted", "private"]


@pytest.mark.parametrize("content", ["", "{", '{"revision":1}', '{"revision":1,"sha256":"x","more":1}'])
def test_a_state_file_that_cannot_be_read_stops_the_start(office: Office, content: str) -> None:
    path = office.root / "audit" / STATE_NAME
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(ConfigurationError, match="the revision that acted last"):
        office.open().load()


def test_the_state_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / STATE_NAME
    assert read_active(path) is None
    for revision in (1, 2):
        write_active(path, Active(revision, "a"))
        assert read_active(path) == Active(revision, "a")
    assert [each.name for each in path.parent.iterdir()] == [STATE_NAME]


def test_signatures_says_who_signed_and_ends_with_1_when_it_is_not_enough(bank: Office) -> None:
    people = [f"--signer={name}={key}" for name, key in bank.people.items()]
    result = bank.run("signatures", bank.folder, *people, "--required", 2)
    assert result.exit_code == 0, result.output
    assert "signed by checker, maker" in result.stdout
    result = bank.run("signatures", bank.folder, people[0], "--required", 2)
    assert result.exit_code == 1
    assert "expected 2 signatures of trusted signers, found 1" in result.output
    write(bank.folder, files(6))
    assert "sign this folder again" in bank.run("signatures", bank.folder, *people).output


def test_an_unsound_folder_cannot_be_signed(bank: Office) -> None:
    write(bank.folder, {"routing.yaml": "id: broken\n"})
    result = bank.run("sign", bank.folder, "--key", bank.root / "maker.pem", "--name", "maker")
    assert result.exit_code == 1
    assert "routing.yaml:1:1" in result.output


# -- Kubernetes ------------------------------------------------------------------------------------


class Volume:
    """A ConfigMap volume as kubelet makes it: a folder per revision, one link that is swapped."""

    def __init__(self, mount: Path) -> None:
        self.mount = mount
        self.count = 0

    def publish(self, content: dict[str, str]) -> None:
        self.count += 1
        name = f"..2026_12_01_{self.count}"
        for path, text in content.items():
            place = self.mount / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        old = (self.mount / "..data").resolve() if (self.mount / "..data").exists() else None
        draft = self.mount / "..data_tmp"
        draft.symlink_to(name)
        draft.replace(self.mount / "..data")
        for top in {path.split("/")[0] for path in content}:
            link = self.mount / top
            if not link.is_symlink():
                link.symlink_to(f"..data/{top}")
        if old is not None:
            shutil.rmtree(old)


async def test_a_config_map_is_read_through_its_link_and_swapped_whole(tmp_path: Path) -> None:
    office = Office(tmp_path)
    volume = Volume(office.folder)
    lock = {"protocols.lock": "# tidegate protocols.lock, format 1\n"}
    case = {"cases/a.yaml": "cases: []\n"}
    volume.publish(files(1) | lock | case)
    watch = await office.start()
    assert office.places() == ["hosted", "private"]
    volume.publish(files(2, PRIVATE_ONLY) | lock | case)
    assert await office.look(watch) == ("policy-activated", "ok")
    assert office.places() == ["private"]
    volume.publish({**files(3), "routing.yaml": "id: broken\n"} | lock | case)
    assert await office.look(watch) == ("policy-rejected", "invalid")


@pytest.mark.parametrize("name", ["routing.yaml", "cases/a.yaml", SIGNATURE_FILE, "protocols.lock"])
async def test_a_link_that_leaves_the_folder_is_refused(office: Office, name: str) -> None:
    office.hire("maker")
    (office.folder / "cases").mkdir()
    watch = await office.start()
    outside = office.root / "outside.yaml"
    inside = office.folder / name
    outside.write_text(inside.read_text() if inside.exists() else "cases: []\n")
    inside.unlink(missing_ok=True)
    inside.symlink_to(outside)
    assert (await office.look(watch))[0] == "policy-rejected"


async def test_a_folder_of_cases_that_leaves_the_folder_is_refused(office: Office) -> None:
    watch = await office.start()
    (office.root / "elsewhere").mkdir()
    (office.folder / "cases").symlink_to(office.root / "elsewhere")
    assert await office.look(watch) == ("policy-rejected", "invalid")


@pytest.mark.parametrize("target", ["../elsewhere", "..", "plain"])
async def test_a_volume_link_that_leads_elsewhere_is_refused(office: Office, target: str) -> None:
    watch = await office.start()
    write(office.root / "elsewhere", files(6))
    write(office.folder / "plain", files(6))
    (office.folder / "..data").symlink_to(target)
    assert await office.look(watch) == ("policy-rejected", "invalid")


async def test_a_file_beside_the_volume_is_refused_and_not_ignored(tmp_path: Path) -> None:
    office = Office(tmp_path)
    volume = Volume(office.folder)
    volume.publish(files(1))
    watch = await office.start()
    (office.folder / "extra.yaml").write_text("id: x\n")
    volume.publish(files(2))
    assert await office.look(watch) == ("policy-rejected", "invalid")


# -- the shadow ------------------------------------------------------------------------------------


async def test_a_shadow_says_what_it_would_have_decided_and_decides_nothing(office: Office) -> None:
    office.shadow = str(office.root / "candidate")
    write(Path(office.shadow), files(9, PRIVATE_ONLY))
    await office.start()
    assert office.events[-1].event_type == "policy-shadowed"
    snapshot = office.holder.current
    assert snapshot.shadow is not None
    decision = snapshot.decide(facts())
    assert isinstance(decision, Permit)
    difference = snapshot.shadow(facts(), decision)
    assert difference is not None
    assert (difference.destinations, difference.denied, difference.rule_ids) == (
        ("private",),
        None,
        ("ordinary",),
    )
    assert snapshot.shadow(facts(Level.RESTRICTED), snapshot.decide(facts(Level.RESTRICTED))) is None
    text = office.metrics.render().decode()
    assert 'tidegate_policy_shadow_decisions_total{outcome="differs"} 1.0' in text
    assert 'tidegate_policy_shadow_decisions_total{outcome="same"} 1.0' in text


async def test_a_fault_of_the_shadow_ends_in_the_shadow(office: Office) -> None:
    office.shadow = str(office.root / "candidate")
    write(Path(office.shadow), files(9))
    await office.start()
    snapshot = office.holder.current
    assert snapshot.shadow is not None
    broken = replace(facts(), label=None)  # type: ignore[arg-type]
    assert snapshot.shadow(broken, Denial("no-rule", "", (), "", "", "")) is None
    assert 'shadow_decisions_total{outcome="fault"} 1.0' in office.metrics.render().decode()


async def test_a_broken_shadow_is_compared_no_more_and_the_active_policy_stays(office: Office) -> None:
    office.shadow = str(office.root / "candidate")
    write(Path(office.shadow), files(9, PRIVATE_ONLY))
    watch = await office.start()
    (Path(office.shadow) / "routing.yaml").write_text("id: broken\n")
    await office.look(watch)
    assert office.holder.current.shadow is None
    assert (office.places(), watch.is_rejected) == (["hosted", "private"], False)


async def test_the_shadow_outlives_an_activation(office: Office) -> None:
    office.shadow = str(office.root / "candidate")
    write(Path(office.shadow), files(9, PRIVATE_ONLY))
    watch = await office.start()
    write(office.folder, files(6))
    await office.look(watch)
    assert office.holder.current.shadow is not None
