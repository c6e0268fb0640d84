"""The official OpenAI client's `completions`, unmodified, against a running gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.fakes.chat_answers import SENTENCES
from tests.fakes.messages_rig import MessagesRig, running_messages_rig

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagesRig]:
    with running_messages_rig(tmp_path_factory.mktemp("completions")) as running:
        yield running


@pytest.fixture
def client(rig: MessagesRig) -> Iterator[openai.OpenAI]:
    with rig.openai_client() as made:
        yield made


def test_continues_a_text(rig: MessagesRig, client: openai.OpenAI) -> None:
    answer = client.completions.create(model="assistant", prompt="Once upon a tide", n=2)
    assert [choice.text for choice in answer.choices] == list(SENTENCES[:2])
    assert (answer.model, answer.object) == ("assistant", "text_completion")
    assert answer.usage is not None
    assert answer.usage.total_tokens == 12
    assert rig.sent("hosted-openai")[-1]["prompt"] == "Once upon a tide"


def test_streams(client: openai.OpenAI) -> None:
    chunks = list(client.completions.create(model="assistant", prompt="Once upon a tide", stream=True))
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == SENTENCES[0]
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("prompt", ["My IBAN is DE89 3704 0044 0532 0130 00.", [15339, 1917]])
def test_what_is_sensitive_or_unreadable_stays_in_the_house(
    rig: MessagesRig, client: openai.OpenAI, prompt: Any
) -> None:
    count = len(rig.sent("hosted-openai"))
    raw = client.completions.with_raw_response.create(model="assistant", prompt=prompt)
    assert raw.headers["x-tidegate-destination"] == "private-moe"
    assert len(rig.sent("hosted-openai")) == count


def test_a_model_that_only_chats_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="claude-hosted", prompt="Once")
    assert (caught.value.code, caught.value.param) == ("endpoint-not-served", "model")
