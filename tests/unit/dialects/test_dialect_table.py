"""Which dialect is chosen, and that it fits the port of the walk."""

from __future__ import annotations

import pytest

from gateway.dialects.openai_answer import ChatPlainDecoder, ChatStreamDecoder
from gateway.dialects.openai_encoder import ChatStreamEncoder
from gateway.dialects.openai_plain import ChatPlainEncoder
from gateway.dialects.table import WireFormats
from gateway.errors import ConfigurationError, UpstreamFailed
from gateway.pipeline.ports import Dialects
from tests.unit.dialects.chat_bodies import asked, place


def test_fits_the_port_of_the_walk() -> None:
    fitted: Dialects = WireFormats()
    assert fitted.decoder(place(), asked()) is not None


@pytest.mark.parametrize("kind", ["openai", "vllm"])
def test_chooses_by_whether_the_client_streams(kind: str) -> None:
    table = WireFormats()
    assert isinstance(table.decoder(place(kind), asked(stream=True)), ChatStreamDecoder)
    assert isinstance(table.decoder(place(kind), asked(stream=False)), ChatPlainDecoder)
    assert isinstance(table.encoder(asked(stream=True), "r", 1), ChatStreamEncoder)
    assert isinstance(table.encoder(asked(stream=False), "r", 1), ChatPlainEncoder)


def test_reads_no_other_kind() -> None:
    with pytest.raises(ConfigurationError):
        WireFormats().decoder(place("telegraph"), asked())


@pytest.mark.parametrize("stream", [True, False])
def test_hands_its_bound_to_the_decoder(stream: bool) -> None:
    decoder = WireFormats(max_answer_bytes=3).decoder(place(), asked(stream=stream))
    with pytest.raises(UpstreamFailed) as caught:
        decoder.feed(b"data")
    assert caught.value.code == "upstream-oversized"
