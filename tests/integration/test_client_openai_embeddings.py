"""The official OpenAI client's `embeddings`, unmodified, against a running gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.fakes.messages_rig import MessagesRig, running_messages_rig

pytestmark = pytest.mark.integration

IBAN = "DE89 3704 0044 0532 0130 00"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagesRig]:
    with running_messages_rig(tmp_path_factory.mktemp("embeddings")) as running:
        yield running


@pytest.fixture
def client(rig: MessagesRig) -> Iterator[openai.OpenAI]:
    with rig.openai_client() as made:
        yield made


def test_gives_a_vector_for_each_input(rig: MessagesRig, client: openai.OpenAI) -> None:
    answer = client.embeddings.create(
        model="vectors", input=["Why do tides turn?", "And when?"], dimensions=2
    )
    assert [each.embedding for each in answer.data] == [[0.5, 0.5], [1.5, 1.5]]
    assert (answer.model, answer.usage.total_tokens) == ("vectors", 8)
    assert rig.sent("hosted-openai")[-1] == {
        "model": "text-embedding-3-small",
        "input": ["Why do tides turn?", "And when?"],
        "encoding_format": "float",
        "dimensions": 2,
    }
    plain = client.embeddings.create(model="vectors", input="Why?", encoding_format="float")
    assert plain.data[0].embedding == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("given", [f"My IBAN is {IBAN}.", ["Hello", f"{IBAN}"], [15339, 1917], [[15339]]])
def test_what_is_sensitive_or_unreadable_stays_in_the_house(
    rig: MessagesRig, client: openai.OpenAI, given: Any
) -> None:
    count = len(rig.sent("hosted-openai"))
    raw = client.embeddings.with_raw_response.create(model="vectors", input=given)
    assert raw.headers["x-tidegate-destination"] == "private-moe"
    assert raw.headers["x-tidegate-label"] == "restricted"
    assert len(rig.sent("hosted-openai")) == count
    assert len(raw.parse().data) == (2 if given[0] == "Hello" else 1)


def test_a_model_whose_destinations_do_not_embed_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model="claude-hosted", input="Why?")
    assert (caught.value.code, caught.value.param) == ("endpoint-not-served", "model")
