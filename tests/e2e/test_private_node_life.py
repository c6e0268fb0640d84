"""How a node ends, and that spreading experts changes nothing. These tests start nodes of their own."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import openai
import pytest

from private_node.process_group import group_members, shared_memory_of
from tests.e2e.conftest import NODE_PYTHON, ROOT, PrivateNode, start_private_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PROMPTS = (
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "My bank wants to know my IBAN. What should I ask first?",
)
NEW_TOKENS = 6
TOP = 5
PLACES = 3


def start_long_answer(node: PrivateNode) -> tuple[threading.Thread, dict[str, object]]:
    """A request of about five seconds that has begun when this returns."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=120)
    body = {
        "model": node.model,
        "messages": [{"role": "user", "content": "Tell a long story."}],
        "max_tokens": 120,
        "stream": True,
        "ignore_eos": True,
        "temperature": 0,
    }
    headers = {"authorization": f"Bearer {node.key}", "content-type": "application/json"}
    connection.request("POST", "/v1/chat/completions", body=json.dumps(body), headers=headers)
    response = connection.getresponse()
    response.readline()
    got: dict[str, object] = {"status": response.status}

    def read() -> None:
        got["text"] = response.read().decode()
        connection.close()

    thread = threading.Thread(target=read)
    thread.start()
    return thread, got


def test_drains_on_sigterm_and_leaves_no_process(tmp_path: Path) -> None:
    with start_private_node(tmp_path) as (launcher, node):
        thread, got = start_long_answer(node)
        launcher.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 5
        while "draining" not in node.progress_path.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        late = openai.OpenAI(base_url=node.base_url, api_key=node.key, max_retries=0, timeout=10)
        with pytest.raises(openai.APIError) as refused:
            late.chat.completions.create(model=node.model, messages=[{"role": "user", "content": "Hi"}])
        thread.join(60)
        assert launcher.wait(60) == 0
        assert group_members(node.child_pid) == []
    assert isinstance(refused.value, openai.InternalServerError)
    assert refused.value.status_code == 503
    assert refused.value.response.headers["retry-after"]
    text = str(got["text"])
    assert got["status"] == 200
    assert text.rstrip().endswith("data: [DONE]")
    assert '"finish_reason":"length"' in text
    assert "no process left" in node.progress_path.read_text()


def test_reports_the_death_of_a_rank_and_leaves_no_process(tmp_path: Path) -> None:
    with start_private_node(tmp_path) as (launcher, node):
        ranks = [
            pid
            for pid in group_members(node.child_pid)
            if "Worker_TP1" in Path(f"/proc/{pid}/cmdline").read_text()
        ]
        assert len(ranks) == 1
        held = shared_memory_of(node.child_pid)
        assert held
        subprocess.run(["kill", "-KILL", str(ranks[0])], check=True)
        assert launcher.wait(90) == 3
        assert group_members(node.child_pid) == []
    assert not [path for path in held if path.exists()]
    progress = node.progress_path.read_text()
    assert "vLLM died" in progress
    assert "  | " in progress


def test_ends_vllm_when_the_launcher_is_killed(tmp_path: Path) -> None:
    with start_private_node(tmp_path) as (launcher, node):
        assert group_members(node.child_pid)
        launcher.kill()
        launcher.wait()
        deadline = time.monotonic() + 60
        while group_members(node.child_pid) and time.monotonic() < deadline:
            time.sleep(0.25)
        assert group_members(node.child_pid) == []


def top_logprobs(node: PrivateNode) -> list[list[dict[str, float]]]:
    """For each prompt and new token, the log probabilities of the likeliest tokens."""
    client = openai.OpenAI(base_url=node.base_url, api_key=node.key, max_retries=0, timeout=120)
    found: list[list[dict[str, float]]] = []
    for prompt in PROMPTS:
        answer = client.chat.completions.create(
            model=node.model,
            messages=[{"role": "user", "content": prompt}],
            temperature=0,
            max_tokens=NEW_TOKENS,
            logprobs=True,
            top_logprobs=TOP,
        )
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None
        assert logprobs.content is not None
        found.append([{top.token: top.logprob for top in step.top_logprobs} for step in logprobs.content])
    return found


def test_gives_the_same_logprobs_with_experts_spread_and_on_one_rank(
    private_node: PrivateNode, tmp_path: Path
) -> None:
    """Both in float32, the profile's own choice."""
    assert "Expert parallelism is enabled" in private_node.log_path.read_text()
    assert "float32" in private_node.progress_path.read_text()
    spread = top_logprobs(private_node)
    options = ("--dtype", "float32", "--tensor-parallel-size", "1", "--no-expert-parallel")
    with start_private_node(tmp_path, *options) as (_, node):
        assert "Expert parallelism is enabled" not in node.log_path.read_text()
        single = top_logprobs(node)
    worst = 0.0
    for one, other in zip(spread, single, strict=True):
        assert len(one) == len(other) == NEW_TOKENS
        for step, reference in zip(one, other, strict=True):
            assert step.keys() == reference.keys()
            worst = max(worst, *(abs(step[token] - reference[token]) for token in step))
    print(f"largest difference of {len(PROMPTS)} x {NEW_TOKENS} x {TOP} logprobs: {worst:.2e}")
    assert worst < 0.5 * 10**-PLACES


PLACEMENT_CHECK = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder = sys.argv[1]
tokens = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
inputs = tokens.apply_chat_template([{"role": "user", "content": "What is the capital of France?"}],
                                    add_generation_prompt=True, return_tensors="pt", return_dict=True)
def likeliest():
    with torch.no_grad():
        return torch.log_softmax(model(**inputs).logits[0, -1], -1)
right = likeliest()
for name, weight in model.state_dict().items():
    if ".experts." in name:
        weight.copy_(weight.flip(0).clone())
top = right.topk(5).indices
print(float((likeliest()[top] - right[top]).abs().max()))
"""
LOCALISE_CHECK = """
import torch
from private_node.cpu_expert_parallel import localise
weights = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
ids = torch.tensor([[0, 3], [2, 1]], dtype=torch.int32)
total = torch.zeros(2, 4)
for owned in ((0, 1), (2, 3)):
    mapping = torch.full((4,), -1, dtype=torch.int32)
    for local, expert in enumerate(owned):
        mapping[expert] = local
    part, local = localise(weights, ids, mapping)
    assert local.dtype == ids.dtype and 0 <= int(local.min()) and int(local.max()) < 2
    for token in range(2):
        for slot in range(2):
            total[token, owned[int(local[token, slot])]] += part[token, slot]
assert total.tolist() == [[0.75, 0, 0, 0.25], [0, 0.5, 0.5, 0]], total
print("ok")
"""


def run_in_node(program: str, *arguments: str) -> str:
    if not NODE_PYTHON.exists():
        pytest.fail("the private node's environment .venv-node is absent: run make install-node")
    done = subprocess.run(
        [NODE_PYTHON, "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_would_notice_a_misplaced_expert() -> None:
    """The proof above can fail: swapped experts move logprobs by far more than its tolerance."""
    built = subprocess.run(
        [NODE_PYTHON, "-m", "private_node", "build-model"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    moved = float(run_in_node(PLACEMENT_CHECK, built.stdout.strip().splitlines()[-1]))
    assert moved > 10 * 10**-PLACES


def test_gives_each_token_expert_pair_to_exactly_one_rank() -> None:
    assert run_in_node(LOCALISE_CHECK) == "ok"
