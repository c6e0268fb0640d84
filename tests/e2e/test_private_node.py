"""The private node as a client and an operator meet it: the real vLLM, two ranks, experts spread."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import openai
import pytest

from private_node.process_group import group_members
from tests.e2e.conftest import NODE_PYTHON, ROOT, PrivateNode

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

QUESTION = "What is the capital of France?"


def client_of(node: PrivateNode) -> openai.OpenAI:
    return openai.OpenAI(base_url=node.base_url, api_key=node.key, max_retries=0, timeout=120)


def status_of(
    node: PrivateNode, method: str, path: str, key: str | None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Status and JSON body, with the path sent exactly as given."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=30)
    sent = {"content-type": "application/json"} | (headers or {})
    if key is not None:
        sent["authorization"] = f"Bearer {key}"
    try:
        connection.request(method, path, body=b"{}" if method == "POST" else None, headers=sent)
        response = connection.getresponse()
        body = response.read()
        is_json = "json" in (response.getheader("content-type") or "")
        return response.status, json.loads(body) if body and is_json else {}
    finally:
        connection.close()


def test_is_ready_only_after_a_real_completion(private_node: PrivateNode) -> None:
    assert re.search(r"first_token_seconds=\d+\.\d+ ", private_node.ready_line)
    probe = [str(NODE_PYTHON), "-m", "private_node", "probe", "--port", str(private_node.port)]
    key_file = str(private_node.log_path.with_name("node.key"))
    done = subprocess.run(
        [*probe, "--key-file", key_file], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert private_node.key not in done.stderr


def test_answers_a_question_with_sense(private_node: PrivateNode) -> None:
    answer = client_of(private_node).chat.completions.create(
        model=private_node.model,
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=30,
    )
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None


def test_names_expert_parallelism_in_the_fingerprint_and_the_log(private_node: PrivateNode) -> None:
    answer = client_of(private_node).chat.completions.create(
        model=private_node.model, messages=[{"role": "user", "content": "Hi"}], max_tokens=1
    )
    assert re.fullmatch(r"vllm-0\.32\.0-tp2-ep-[0-9a-f]+", answer.system_fingerprint or "")
    log = private_node.log_path.read_text()
    assert "TP rank 0, ETP rank 0, EP rank 0" in log
    assert "Worker_TP1_EP1" in log
    assert "Expert parallelism is enabled" in log
    assert "Local/global number of experts: 2/4" in log
    assert "development and tests only" in log


def test_keeps_prompts_and_the_key_out_of_its_logs(private_node: PrivateNode) -> None:
    """The refused requests matter as much: validators like to print what they refuse."""
    marker = "The password of the vault is TIDE-4711-GATE."
    client = client_of(private_node)
    client.chat.completions.create(
        model=private_node.model, messages=[{"role": "user", "content": marker}], max_tokens=4
    )
    faulty: tuple[dict[str, Any], ...] = (
        {"messages": [{"role": "user", "content": {"text": marker}}]},
        {"messages": [{"role": "nobody", "content": marker}]},
        {"messages": [{"role": "user", "content": marker * 2000}]},
        {"messages": [{"role": "user", "content": marker}], "max_tokens": -1},
        {"messages": [{"role": "user", "content": marker}], "temperature": marker},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": marker}}]}]},
        {"messages": [{"role": "user", "content": marker}], "structured_outputs": {"json": marker}},
        {"messages": [{"role": "user", "content": marker}], "structured_outputs": {"regex": "(" + marker}},
    )
    refused = 0
    for body in faulty:
        try:
            client.post(
                "/chat/completions",
                body={"model": private_node.model, "max_tokens": 1} | body,
                cast_to=object,
            )
        except openai.APIStatusError:
            refused += 1
    assert refused >= len(faulty) - 1  # the chat template takes a role of any name
    written = private_node.log_path.read_text() + private_node.progress_path.read_text()
    assert "TIDE-4711-GATE" not in written
    assert private_node.key not in written


def test_keeps_the_key_out_of_command_lines_and_environments(private_node: PrivateNode) -> None:
    members = group_members(private_node.child_pid)
    assert len(members) >= 4  # the server, the engine and two ranks
    for pid in members:
        for name in ("cmdline", "environ"):
            assert private_node.key.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_streams_with_usage_and_the_same_text(private_node: PrivateNode) -> None:
    client = client_of(private_node)
    chunks = list(
        client.chat.completions.create(
            model=private_node.model,
            messages=[{"role": "user", "content": QUESTION}],
            temperature=0,
            max_tokens=30,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "Paris" in text
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None


def test_calls_a_tool_when_one_is_required(private_node: PrivateNode) -> None:
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
        "additionalProperties": False,
    }
    answer = client_of(private_node).chat.completions.create(
        model=private_node.model,
        messages=[{"role": "user", "content": "What is the weather in Paris?"}],
        tools=[
            {
                "type": "function",
                "function": {"name": "get_weather", "strict": True, "parameters": parameters},
            }
        ],
        tool_choice="required",
        temperature=0,
        max_tokens=80,
    )
    calls = answer.choices[0].message.tool_calls
    assert calls
    assert calls[0].type == "function"
    assert calls[0].function.name == "get_weather"
    assert set(json.loads(calls[0].function.arguments)) == {"city"}


def test_holds_a_json_schema(private_node: PrivateNode) -> None:
    schema = {
        "type": "object",
        "properties": {"label": {"enum": ["finance", "sport"]}, "score": {"type": "integer", "maximum": 10}},
        "required": ["label", "score"],
        "additionalProperties": False,
    }
    answer = client_of(private_node).chat.completions.create(
        model=private_node.model,
        messages=[{"role": "user", "content": "Label this text: the bank raised its rates."}],
        response_format={"type": "json_schema", "json_schema": {"name": "label", "schema": schema}},
        temperature=0,
        max_tokens=40,
    )
    assert set(json.loads(answer.choices[0].message.content or "")) == {"label", "score"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/invocations"),
        ("POST", "/tokenize"),
        ("POST", "/detokenize"),
        ("POST", "/v1/completions"),
        ("POST", "/v1/responses"),
        ("POST", "/v1/messages"),
        ("GET", "/load"),
        ("GET", "/version"),
        ("GET", "/ping"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "//v1/models"),
        ("GET", "/v1/models/"),
        ("GET", "/v1/%6dodels"),
        ("GET", "/v1/models?a=1"),
        ("GET", "/tokenize/../v1/models"),
    ],
)
def test_refuses_every_route_that_the_gateway_does_not_need(
    private_node: PrivateNode, method: str, path: str
) -> None:
    for key in (private_node.key, None):
        status, body = status_of(private_node, method, path, key)
        assert status == 404
        assert body["error"]["code"] == "path-not-served"


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/health"), ("GET", "/metrics")],
)
def test_asks_for_the_key_on_each_route(private_node: PrivateNode, method: str, path: str) -> None:
    for key in (None, "", private_node.key + "x"):
        status, body = status_of(private_node, method, path, key)
        assert status == 401
        assert body["error"]["code"] == "invalid-api-key"
    if method == "GET":
        assert status_of(private_node, method, path, private_node.key)[0] == 200


def test_answers_no_preflight_and_no_websocket(private_node: PrivateNode) -> None:
    origin = {"origin": "http://elsewhere", "access-control-request-method": "POST"}
    assert status_of(private_node, "OPTIONS", "/v1/chat/completions", None, origin)[0] == 405
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    assert status_of(private_node, "GET", "/v1/realtime", private_node.key, upgrade)[0] in (403, 404)


def test_maps_a_wrong_key_to_the_clients_own_exception(private_node: PrivateNode) -> None:
    stranger = openai.OpenAI(base_url=private_node.base_url, api_key="wrong-key-0123456789", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.models.list()
    names = [model.id for model in client_of(private_node).models.list()]
    assert names == [private_node.model]


def test_listens_on_loopback_only(private_node: PrivateNode) -> None:
    """Every listening socket of the process group, the ranks' own included."""
    members = group_members(private_node.child_pid)
    inodes: set[str] = set()
    for pid in members:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(descriptor.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found: list[str] = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.append(fields[1].partition(":")[0])
    assert found
    assert set(found) <= {"0100007F", "00000000000000000000000001000000"}


def test_serves_several_requests_at_once(private_node: PrivateNode) -> None:
    client, answers = client_of(private_node), list[str]()

    def ask() -> None:
        answer = client.chat.completions.create(
            model=private_node.model,
            messages=[{"role": "user", "content": QUESTION}],
            temperature=0,
            max_tokens=20,
        )
        answers.append(answer.choices[0].message.content or "")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert all("Paris" in answer for answer in answers)
