"""Starts a gateway from what a pod would see: the rendered ConfigMaps as Kubernetes mounts them, the init
container's own command, then the program, with every absolute path moved below one folder."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from gateway.cli.local import LocalState, prepare
from gateway.settings import Settings, load_settings
from private_node.path_guard import read_key
from tests.helm_check.manifests import Manifest, component, of_kind
from tests.helm_check.tools import CheckFailed

POD = "tg-tidegate-0"
START_SECONDS = 120
#: Folders of the pod that are moved.
PLACES = ("/etc/tidegate", "/run/tidegate", "/run/secrets/tidegate", "/var/lib/tidegate/audit")
REDIS_URL = 'rediss://tidegate:"quoted"\\word@redis.internal.example:6380/0'


def mount(folder: Path, content: Mapping[str, str]) -> None:
    """A ConfigMap or Secret volume as the kubelet makes it: links to `..data`, a link to a dated folder."""
    dated = folder / "..2026_12_01_00_00_00.1"
    dated.mkdir(parents=True)
    for name, text in content.items():
        (dated / name).write_text(text, encoding="utf-8")
        (folder / name).symlink_to(f"..data/{name}")
    (folder / "..data").symlink_to(dated.name)


def lay_out(manifests: list[Manifest], root: Path) -> Settings:
    """Mount what the gateway's pod mounts below `root`, run its init container, load the settings."""
    state = LocalState(root / "made")
    prepare(state)
    secrets = {
        "pepper": state.pepper.read_text(),
        "audit-signing-key.pem": state.audit_key.read_text(),
        "node.key": state.node_key.read_text(),
        "hosted-openai.key": "a stand-in",
        "redis-url": REDIS_URL + "\n",
    }
    maps = {each["metadata"]["name"]: each["data"] for each in of_kind(manifests, "ConfigMap")}
    gateway = component(manifests, "StatefulSet", "gateway")
    if gateway is None:
        raise CheckFailed("no gateway")
    pod = gateway["spec"]["template"]["spec"]
    for volume in pod["volumes"]:
        if "configMap" in volume and volume["name"] in ("settings", "policies", "prepare"):
            content = maps.get(volume["configMap"]["name"], {"routing.yaml": "# the company's own\n"})
            moved = {key: _moved(text, root) for key, text in content.items()}
            mount(root / "volumes" / volume["name"], moved)
    mount(root / "etc/tidegate/keys", {"jwks.json": state.key_set.read_text()})
    mount(root / "run/secrets/tidegate", secrets)
    (root / "run/tidegate").mkdir(parents=True)
    (root / "var/lib/tidegate/audit").mkdir(parents=True)
    for name in ("settings", "policies"):
        (root / "etc/tidegate" / name).symlink_to(root / "volumes" / name)
    run_init(pod, root)
    return load_settings(root / "run/tidegate/settings.toml")


def run_init(pod: Manifest, root: Path) -> None:
    """The init container's command, as the pod states it."""
    (container,) = pod["initContainers"]
    command = [sys.executable, "-I", str(root / "volumes/prepare/prepare.py")]
    command += [_moved(each, root) for each in container["args"]]
    done = subprocess.run(
        command, env={"POD_NAME": POD}, capture_output=True, text=True, timeout=30, check=False
    )
    if done.returncode != 0:
        raise CheckFailed(f"the init container refuses: {done.stderr}")


def start(root: Path, settings: Settings) -> str:
    """Run the gateway until it is ready, then stop it as the kubelet does. The origin of its audit log."""
    port = _free_port()
    file = root / "run/tidegate/settings.toml"
    file.write_text(file.read_text().replace(f"port = {settings.server.port}\n", f"port = {port}\n"))
    command = [sys.executable, "-m", "gateway.cli", "serve", str(file)]
    log = (root / "gateway.log").open("wb")
    with log, subprocess.Popen(command, stdout=log, stderr=log) as gateway:
        try:
            _until_ready(port, gateway, root / "gateway.log")
            gateway.send_signal(signal.SIGTERM)
            status = gateway.wait(settings.server.drain_seconds + 25)
        finally:
            gateway.kill()
    if status != 0:
        raise CheckFailed(f"the gateway ended with status {status}")
    checkpoint = (root / "var/lib/tidegate/audit/checkpoint").read_text()
    return checkpoint.splitlines()[0]


def node_key(manifests: list[Manifest], root: Path) -> None:
    """The node's own init container gives a key file that the node takes."""
    node = component(manifests, "StatefulSet", "private-node")
    if node is None:
        return
    pod = node["spec"]["template"]["spec"]
    mount(root / "run/secrets/node", {"node.key": "a-key-of-more-than-16-characters\n"})
    (container,) = pod["initContainers"]
    arguments = [
        each.replace("=/run/secrets/node", f"={root}/run/secrets/node") for each in container["args"]
    ]
    moved = {**container, "args": arguments}
    run_init({**pod, "initContainers": [moved]}, root)
    read_key(root / "run/tidegate/node.key")


def _moved(text: str, root: Path) -> str:
    """`text` with each of `PLACES` below `root`; what is already there stays."""
    places = "|".join(re.escape(place) for place in PLACES)
    return re.sub(rf"(?<![\w.-])(?:{places})(?![\w-])", lambda found: f"{root}{found[0]}", text)


def _until_ready(port: int, gateway: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    said = "no answer"
    while time.monotonic() < deadline and gateway.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2) as answer:
                state = json.load(answer)
            if state["status"] == "ready" and state["limits"] == "ok":
                return
            said = str(state)
        except urllib.error.HTTPError as error:
            said = f"status {error.code}"
        except OSError:
            pass
        time.sleep(0.1)
    raise CheckFailed(f"the gateway is not ready ({said}): {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
