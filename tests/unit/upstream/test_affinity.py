from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.chat import ChatRequest, JsonText, Message, OpaquePart, Role, TextPart, ToolDefinition
from gateway.upstream.affinity import MAX_PREFIXES, Placements, prefixes, rendezvous

SEED = b"tenant"
TURNS = st.lists(
    st.builds(
        lambda role, text: Message(role, (TextPart(text),)),
        st.sampled_from([Role.SYSTEM, Role.USER, Role.ASSISTANT]),
        st.text(max_size=8),
    ),
    max_size=12,
)


def said(*texts: str) -> ChatRequest:
    roles = [Role.SYSTEM, *[Role.USER, Role.ASSISTANT] * 200]
    return ChatRequest(
        "m", tuple(Message(role, (TextPart(text),)) for role, text in zip(roles, texts, strict=False))
    )


def test_a_next_turn_keeps_the_hashes_of_the_turn_before() -> None:
    first = prefixes(SEED, said("rules", "hello"))
    second = prefixes(SEED, said("rules", "hello", "hi", "and now?"))
    assert second[: len(first)] == first
    assert len(second) == len(first) + 2


def test_instructions_alone_do_not_make_two_conversations_one() -> None:
    assert not set(prefixes(SEED, said("rules", "hello"))) & set(prefixes(SEED, said("rules", "bye")))


def test_two_tenants_share_no_hash() -> None:
    chat = said("rules", "hello", "hi", "more")
    assert not set(prefixes(b"a", chat)) & set(prefixes(b"b", chat))


def test_tools_stand_before_the_messages() -> None:
    chat = said("rules", "hello")
    tooled = ChatRequest("m", chat.messages, tools=(ToolDefinition("look"),))
    assert not set(prefixes(SEED, chat)) & set(prefixes(SEED, tooled))


def test_no_message_and_instructions_alone_have_a_place_too() -> None:
    assert len(prefixes(SEED, ChatRequest("m", ()))) == 1
    assert len(prefixes(SEED, said("rules"))) == 1


def test_a_long_conversation_keeps_its_start_and_its_last_prefixes() -> None:
    short, long = said(*["x"] * 50), said(*["x"] * 300)
    found = prefixes(SEED, long)
    assert len(found) == MAX_PREFIXES
    assert found[0] == prefixes(SEED, short)[0]
    grown = prefixes(SEED, ChatRequest("m", (*long.messages, Message(Role.USER, (TextPart("y"),)))))
    assert set(found[2:]) <= set(grown)


@given(TURNS, TURNS)
def test_prefixes_are_shared_exactly_as_far_as_the_messages_are(
    left: list[Message], right: list[Message]
) -> None:
    ours, theirs = (prefixes(SEED, ChatRequest("m", tuple(each))) for each in (left, right))
    shared = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        shared += 1
    begun = [at for at, each in enumerate(left[:shared]) if each.role is not Role.SYSTEM]
    wanted = shared - begun[0] if begun else 0
    assert len([1 for a, b in zip(ours, theirs, strict=False) if a == b]) >= wanted
    if begun:
        assert ours[:wanted] == theirs[:wanted]
        assert not set(ours[wanted:]) & set(theirs[wanted:])


@given(st.lists(st.text(max_size=4), min_size=2, max_size=2), st.lists(st.text(max_size=4), max_size=3))
def test_parts_are_not_run_together(first: list[str], second: list[str]) -> None:
    def hashed(texts: list[str]) -> tuple[int, ...]:
        return prefixes(SEED, ChatRequest("m", (Message(Role.USER, tuple(map(TextPart, texts))),)))

    assert (hashed(first) == hashed(second)) is (first == second)


def test_an_attachment_counts() -> None:
    def shown(payload: str) -> tuple[int, ...]:
        part = OpaquePart("image_url", JsonText(payload))
        return prefixes(SEED, ChatRequest("m", (Message(Role.USER, (part,)),)))

    assert shown("1") != shown("2")


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_a_ranking_names_each_replica_once(start: int, weights: list[int]) -> None:
    assert sorted(rendezvous(start, weights)) == list(range(len(weights)))


@given(st.integers(0, 2**64 - 1), st.lists(st.integers(1, 9), min_size=2, max_size=8))
def test_a_replica_that_goes_moves_only_what_it_had(start: int, weights: list[int]) -> None:
    whole = rendezvous(start, weights)
    last = len(weights) - 1
    assert rendezvous(start, weights[:-1]) == [each for each in whole if each != last]


def test_shares_follow_the_weights() -> None:
    firsts = Counter(rendezvous(start * 0x9E3779B97F4A7C15 % 2**64, [1, 2, 1])[0] for start in range(4000))
    assert 0.44 < firsts[1] / 4000 < 0.56
    assert 0.19 < firsts[0] / 4000 < 0.31


@given(st.lists(st.tuples(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(0, 3))))
def test_placements_remember_the_longest_prefix_and_are_bounded(steps: list[tuple[list[int], int]]) -> None:
    placements = Placements(capacity=10)
    for hashes, place in steps:
        placements.note(hashes, place)
        assert placements.find(hashes) == place
        assert len(placements) <= 10


def test_an_unknown_conversation_has_no_place() -> None:
    placements = Placements()
    placements.note([1, 2], 0)
    placements.note([1, 2, 3], 1)
    assert placements.find([9]) is None
    assert placements.find([1, 2]) == 1, "the last to get it holds it"
    assert placements.find([1, 2, 3, 4]) == 1
