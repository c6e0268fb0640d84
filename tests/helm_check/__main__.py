"""`python -m tests.helm_check`: everything about the chart that can be known without a cluster."""

from __future__ import annotations

import copy
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from private_node.profile import Profile, parse_profile
from tests.helm_check import boot, tools
from tests.helm_check.broken import BREAKS
from tests.helm_check.manifests import Manifest, component, faults, of_kind
from tests.helm_check.tools import CHART, ROOT, CheckFailed, helm

EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
RELEASE = ("tg", "--namespace", "llm", "--kube-version", "1.34.0")
#: What must not render: overrides of an example, and a part of the refusal.
REFUSALS = (
    ("laptop", {"gateway.replicas": "2"}, "replicas must share one Redis"),
    ("laptop", {"redis.embedded": "false"}, "networkPolicy.redis"),
    ("laptop", {"gateway.replica": "1"}, "replica"),
    ("laptop", {"identity.issuers": "[]"}, "issuers"),
    ("laptop", {"networkPolicy.clients": "[{}]"}, "clients"),
    ("laptop", {"networkPolicy.redis.cidrs": '["0.0.0.0/0"]'}, "cidrs"),
    ("laptop", {"redis.url": '"redis://:word@host"'}, "url"),
    ("laptop", {"audit.accessMode": '"ReadWriteMany"'}, "accessMode"),
    ("laptop", {"image.tag": '"latest"'}, "tag"),
    ("laptop", {"privateNode.enabled": "false"}, "destinations"),
    ("laptop", {"privateNode.profile": '"file"'}, "profileToml"),
    ("laptop", {"destinations": '{"hosted-openai":{"url":"https://api.openai.com/v1"}}'}, "Policy.egress"),
    ("laptop", {"destinations": '{"private-moe":{"url":"https://x.example/v1"}}',
                "networkPolicy.egress": '[{"name":"x","cidr":"192.0.2.0/24","ports":[443]}]'},
     "private node"),
    ("one-node", {"destinations": '{"hosted-openai":{"url":"http://api.openai.com/v1"}}'}, "url"),
    ("one-node", {"networkPolicy.egress": '[{"name":"all","cidr":"::/0","ports":[443]}]'}, "cidr"),
)  # fmt: skip


def render(major: str, example: Path, chart: Path = CHART) -> str:
    """The manifests of one example as Helm prints them."""
    return helm(major, "template", *RELEASE[:1], str(chart), *RELEASE[1:], "-f", str(example))


def parse(text: str) -> list[Manifest]:
    """The manifests in a text, empty documents left out."""
    return [each for each in yaml.safe_load_all(text) if each]


class Check:
    """Runs steps, prints a line each, keeps what failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.passed = 0

    def step(self, name: str, act: Callable[[], object]) -> None:
        """One step; what it raises is printed and counted."""
        started = time.monotonic()
        try:
            act()
        except Exception as fault:  # a fault of any kind fails this step and no other
            self.failed.append(name)
            print(f"FAIL  {name}\n      {type(fault).__name__}: {fault}", flush=True)
        else:
            self.passed += 1
            print(f"ok    {name} ({time.monotonic() - started:.1f} s)", flush=True)


def expect_refusal(major: str, example: Path, overrides: dict[str, str], part: str) -> None:
    """Helm refuses the overrides with a message that says why."""
    words = [word for key, value in overrides.items() for word in ("--set-json", f"{key}={value}")]
    try:
        helm(major, "template", "tg", str(CHART), "-f", str(example), *words)
    except CheckFailed as refusal:
        if part not in str(refusal):
            raise CheckFailed(f'expected a refusal with "{part}", found: {refusal}') from None
    else:
        raise CheckFailed("rendered")


def expect_promises(manifests: list[Manifest]) -> None:
    """No promise of the chart is broken."""
    found = faults(manifests)
    if found:
        raise CheckFailed("; ".join(found))


def expect_times(manifests: list[Manifest], values: dict[str, Any]) -> None:
    """The pods' times and names fit what their programs are told."""
    gateway = component(manifests, "StatefulSet", "gateway")
    settings = tomllib.loads(_data(manifests, "settings.toml"))
    pod = gateway["spec"]["template"]["spec"] if gateway else {}
    leave = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    if pod["terminationGracePeriodSeconds"] < leave + settings["server"]["drain_seconds"] + 15:
        raise CheckFailed("the gateway is killed before its drain and its audit log end")
    node = component(manifests, "StatefulSet", "private-node")
    if node is None:
        return
    stated = values["privateNode"]
    is_file = stated["profile"] == "file"
    built_in = ROOT / "private_node" / "profiles" / f"{stated['profile']}.toml"
    profile = parse_profile(_data(manifests, "profile.toml") if is_file else built_in.read_text(), "profile")
    if not isinstance(profile, Profile):
        raise CheckFailed(str(profile))
    probe = node["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    grace = node["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    if f"--model={profile.served_name}" not in probe["exec"]["command"]:
        raise CheckFailed(f"the probe does not ask for {profile.served_name}")
    if probe["periodSeconds"] * probe["failureThreshold"] < profile.start_seconds:
        raise CheckFailed("the node is killed before its start_seconds are over")
    if grace < profile.shutdown_seconds + 20:
        raise CheckFailed("the node is killed before its shutdown_seconds are over")


def expect_boot(manifests: list[Manifest], is_whole: bool) -> None:
    """The settings load as the gateway loads them; with a policy of the chart's own, the gateway starts."""
    with tempfile.TemporaryDirectory(prefix="tidegate-helm-") as folder:
        root = Path(folder)
        settings = boot.lay_out(manifests, root)
        boot.node_key(manifests, root)
        if settings.limits.redis_url not in ("", boot.REDIS_URL):
            raise CheckFailed("the Redis URL is not the Secret's")
        origin = boot.start(root, settings) if is_whole else settings.audit.origin
        if not origin.endswith(f"/{boot.POD}/0"):
            raise CheckFailed(f"expected an origin of {boot.POD}, found {origin}")


def expect_seen(manifests: list[Manifest]) -> None:
    """Each way to break a promise is seen, so that the promises are not merely silent."""
    unseen = []
    for name, act in BREAKS.items():
        changed = copy.deepcopy(manifests)
        act(changed)
        if not faults(changed):
            unseen.append(name)
    if unseen:
        raise CheckFailed(f"not seen: {', '.join(unseen)}")


def expect_same_package(major: str) -> None:
    """A packaged chart renders as its folder does, so the links to policies/ are followed."""
    with tempfile.TemporaryDirectory(prefix="tidegate-helm-") as folder:
        helm(major, "package", str(CHART), "--destination", folder)
        (package,) = Path(folder).glob("*.tgz")
        for example in EXAMPLES:
            if parse(render(major, example, package)) != parse(render(major, example)):
                raise CheckFailed(f"{example.name} renders otherwise from the package")


def check_example(check: Check, example: Path) -> None:
    """All that is asked of one example."""
    values = _values(example)
    rendered: dict[str, list[Manifest]] = {}

    def template(major: str) -> None:
        rendered[major] = parse(render(major, example))

    for major in tools.HELM_PACKAGES:
        lint = partial(helm, major, "lint", "--strict", str(CHART), "-f", str(example))
        check.step(f"helm {major} lint --strict {example.name}", lint)
        check.step(f"helm {major} template {example.name}", partial(template, major))
    manifests = rendered.get("4", [])
    is_whole = not values["policies"]["existingConfigMap"]
    steps: tuple[tuple[str, Callable[[], object]], ...] = (
        ("the same from helm 3 and 4", partial(_same, rendered)),
        ("schemas of Kubernetes", partial(_validate, manifests)),
        ("promises", partial(expect_promises, manifests)),
        ("a broken promise is seen", partial(expect_seen, manifests)),
        ("times and names", partial(expect_times, manifests, values)),
        ("a gateway starts" if is_whole else "settings load", partial(expect_boot, manifests, is_whole)),
    )
    for name, act in steps:
        check.step(f"{name}: {example.name}", act)


def main() -> int:
    """All steps; 0 when each passed."""
    started = time.monotonic()
    tools.install()
    check = Check()
    for example in EXAMPLES:
        check_example(check, example)
    for major in tools.HELM_PACKAGES:
        check.step(f"helm {major} package", partial(expect_same_package, major))
    for example_name, overrides, part in REFUSALS:
        path = CHART / "examples" / f"{example_name}.yaml"
        for major in tools.HELM_PACKAGES:
            name = f"helm {major} refuses {' '.join(overrides)} in {example_name}"
            check.step(name, partial(expect_refusal, major, path, overrides, part))
    seconds = time.monotonic() - started
    print(f"helm-check: {check.passed} passed, {len(check.failed)} failed ({seconds:.0f} s)")
    return 1 if check.failed else 0


def _same(rendered: dict[str, list[Manifest]]) -> None:
    if rendered["3"] != rendered["4"]:
        raise CheckFailed("they differ")


def _validate(manifests: list[Manifest]) -> None:
    if len(manifests) < 8:
        raise CheckFailed(f"expected the whole chart, found {len(manifests)} manifests")
    with tempfile.TemporaryDirectory(prefix="tidegate-helm-") as folder:
        file = Path(folder) / "manifests.yaml"
        file.write_text(yaml.safe_dump_all(manifests))
        tools.validate(file)


def _values(example: Path) -> dict[str, Any]:
    """The chart's values with those of an example over them."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return _merged(values, yaml.safe_load(example.read_text()))


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _data(manifests: list[Manifest], key: str) -> str:
    (found,) = [each["data"][key] for each in of_kind(manifests, "ConfigMap") if key in each["data"]]
    return str(found)


if __name__ == "__main__":
    sys.exit(main())
