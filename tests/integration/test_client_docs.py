"""The examples of docs/clients.md, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from tests.fakes.chat_answers import SENTENCES
from tests.fakes.client_rig import ClientRig, running_client_rig
from tests.fakes.node_client import run_node_text

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "clients.md").read_text("utf-8")
FENCE = re.compile(r"```(\w+) (\S+)\n(.*?)```", re.S)
BLOCKS = {name: (language, code) for language, name, code in FENCE.findall(TEXT)}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientRig]:
    with running_client_rig(tmp_path_factory.mktemp("client-docs")) as running:
        yield running


@pytest.fixture
def environ(rig: ClientRig) -> dict[str, str]:
    """The variables, made by the document's own commands; only the places are this test's."""
    code = BLOCKS["setup"][1]
    for theirs, ours in (
        ("http://127.0.0.1:8080", rig.gateway.base_url),
        ("var/identity", str(rig.gateway.state.directory / "identity")),
        (".venv/bin/tidegate", f"{sys.executable} -m gateway.cli"),
    ):
        assert theirs in code
        code = code.replace(theirs, ours)
    names = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")
    told = "printf '%s ' " + " ".join(f'"${name}"' for name in names)
    out = run(["sh", "-ec", "\n".join((code, BLOCKS["anthropic-setup"][1], told))], {})
    return dict(zip(names, out.split(), strict=True))


def run(command: list[str], environ: dict[str, str]) -> str:
    """Standard output of a command, which must end well and say nothing else."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def example(name: str, environ: dict[str, str]) -> str:
    """What the example prints."""
    language, code = BLOCKS[name]
    match language:
        case "python":
            return run([sys.executable, "-c", code], environ)
        case "js":
            return run_node_text(code, environ=environ)
        case _:
            return run(["sh", "-ec", code], environ)


def test_python_plain(environ: dict[str, str]) -> None:
    place, label, request_id, text = example("plain", environ).splitlines()
    assert (place, label) == ("private-moe", "restricted")
    assert request_id.startswith("req_")
    assert text == SENTENCES[0]


def test_python_stream(environ: dict[str, str]) -> None:
    assert re.fullmatch(re.escape(SENTENCES[0]) + r"\n\d+ tokens\n", example("stream", environ))


def test_python_stream_that_is_cut(rig: ClientRig, environ: dict[str, str]) -> None:
    language, code = BLOCKS["stream"]
    assert language == "python"
    with rig.fault("die-after-text"):
        # Only the private upstream of the rig can fail, so the request is sent there.
        sent = code.replace("stream=True,", 'stream=True, extra_headers={"x-tidegate-label": "restricted"},')
        assert sent != code
        assert run([sys.executable, "-c", sent], environ).endswith("\nnot finished: upstream-truncated\n")


def test_python_tools(environ: dict[str, str]) -> None:
    assert example("tools", environ) == "read_gauge {'harbour': 'harbour'}\n"


def test_python_prompt(rig: ClientRig, environ: dict[str, str]) -> None:
    count = len(rig.hosted_bodies())
    assert example("prompt", environ) == SENTENCES[0] + "\n"
    assert "You help the service desk for parcels." in json.dumps(rig.private_bodies()[-1]["messages"])
    assert len(rig.hosted_bodies()) == count


def test_python_responses(environ: dict[str, str]) -> None:
    plain, streamed = example("responses", environ).splitlines()
    assert (plain, streamed) == (f"completed {SENTENCES[0]}", SENTENCES[0])


def test_python_anthropic(rig: ClientRig, environ: dict[str, str]) -> None:
    plain, streamed, error = example("anthropic", environ).splitlines()
    assert plain == f"end_turn {SENTENCES[0]}"
    assert streamed == SENTENCES[0]
    assert error == "400 unsupported-field"
    assert rig.hosted_bodies()[-1]["messages"] == [{"role": "user", "content": "Why do tides turn?"}]


def test_node(environ: dict[str, str]) -> None:
    plain, streamed, error = example("node", environ).splitlines()
    assert plain == f"hosted-openai {SENTENCES[0]}"
    assert streamed == SENTENCES[0]
    assert error.startswith("404 model-not-found: req_")


def test_curl(environ: dict[str, str]) -> None:
    assert json.loads(example("curl", environ))["choices"][0]["message"]["content"] == SENTENCES[0]
    events = [line for line in example("curl-stream", environ).splitlines() if line]
    assert all(line.startswith("data: ") for line in events)
    assert events[-1] == "data: [DONE]"


def test_every_example_of_the_document_is_run() -> None:
    python = {"setup", "plain", "stream", "tools", "prompt", "responses", "anthropic-setup", "anthropic"}
    assert set(BLOCKS) == python | {"node", "curl", "curl-stream"}
    assert TEXT.count("```") == 2 * len(BLOCKS)


def test_the_table_of_errors_names_the_classes_that_the_client_raises() -> None:
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", TEXT, re.M)
    assert [status for status, _ in rows] == [
        "400", "401", "403", "404", "409", "422", "429", "502", "503", "504",
    ]  # fmt: skip
    client = openai.OpenAI(api_key="x", base_url="http://127.0.0.1:9/v1")
    for status, name in rows:
        response = httpx.Response(int(status), request=httpx.Request("POST", "http://127.0.0.1:9/v1"))
        made = client._make_status_error("", body=None, response=response)  # type: ignore[arg-type]
        assert type(made).__name__ == name
