from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import ConfigurationError, Conflict, NotReady
from gateway.rollout.ledger import KEEP_SECONDS, LEDGER_NAME, MAX_ANSWER_BYTES, Done, Ledger


def call(key: str = "k", request: str = "r", at: int = 1000, actor: str = "a") -> Done:
    return Done(actor, key, request, at)


def test_a_call_acts_once_and_its_answer_is_kept_over_a_restart(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert ledger.begin(call(), "", 0) is None
    ledger.end(call(), "", 200, "done")
    for one in (ledger, Ledger(tmp_path)):
        known = one.begin(call(at=1001), "", 0)
        assert known is not None
        assert (known.status, known.body) == (200, "done")


def test_a_call_whose_end_is_unknown_is_not_repeated(tmp_path: Path) -> None:
    assert Ledger(tmp_path).begin(call(), "", 0) is None
    with pytest.raises(Conflict, match="not known") as caught:
        Ledger(tmp_path).begin(call(), "", 0)
    assert caught.value.code == "outcome-unknown"


def test_the_same_key_for_another_request_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.begin(call(), "", 0)
    with pytest.raises(Conflict) as caught:
        ledger.begin(call(request="other"), "", 0)
    assert caught.value.code == "idempotency-key-reused"
    assert ledger.begin(call(request="other", actor="b"), "", 0) is None


def test_a_one_time_token_is_spent_before_its_change_acts(tmp_path: Path) -> None:
    Ledger(tmp_path).begin(call("one"), "token", 5000)
    with pytest.raises(Conflict) as caught:
        Ledger(tmp_path).begin(call("two"), "token", 5000)
    assert caught.value.code == "token-spent"


def test_a_call_that_could_not_start_may_come_again_with_its_token(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.begin(call(), "token", 5000)
    ledger.end(call(), "token", 503, "")
    assert ledger.begin(call(), "token", 5000) is None


def test_what_is_old_is_forgotten_but_no_token_before_it_expires(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.begin(call("one", at=0), "token", 10 * KEEP_SECONDS)
    late = KEEP_SECONDS + 1
    assert ledger.begin(call("one", at=late), "", 0) is None
    with pytest.raises(Conflict):
        ledger.begin(call("two", at=late), "token", 0)
    assert ledger.begin(call("three", at=12 * KEEP_SECONDS), "token", 0) is None


def test_nothing_starts_without_room_or_disk(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, max_calls=1)
    ledger.begin(call("one"), "", 0)
    with pytest.raises(NotReady) as caught:
        ledger.begin(call("two"), "", 0)
    assert caught.value.code == "admin-ledger-full"
    with pytest.raises(NotReady) as caught:
        Ledger(tmp_path / "missing").begin(call(), "", 0)
    assert caught.value.code == "admin-ledger-unwritable"


def test_a_long_answer_is_not_kept_but_its_status_is(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.begin(call(), "", 0)
    ledger.end(call(), "", 200, "x" * (MAX_ANSWER_BYTES + 1))
    known = ledger.begin(call(), "", 0)
    assert known is not None
    assert (known.status, known.body) == (200, "")


def test_a_damaged_file_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / LEDGER_NAME).write_text("{")
    with pytest.raises(ConfigurationError):
        Ledger(tmp_path)


@dataclass(frozen=True)
class Step:
    key: str
    request: str
    token: str
    fails: bool


_STEPS = st.builds(
    Step, st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from(["", "t", "u"]), st.booleans()
)


@given(st.lists(_STEPS, max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_comes_no_key_and_no_token_acts_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    place = tmp_path_factory.mktemp("ledger")
    acted: list[Step] = []
    for number, step in enumerate(steps):
        ledger = Ledger(place)
        one = call(step.key, step.request, 1000 + number)
        try:
            if ledger.begin(one, step.token, 9000) is not None:
                continue
        except Conflict:
            continue
        acted.append(step)
        if not step.fails:
            ledger.end(one, step.token, 200, "ok")
    keys = [step.key for step in acted]
    tokens = [step.token for step in acted if step.token]
    assert len(keys) == len(set(keys))
    assert len(tokens) == len(set(tokens))


def test_what_is_written_holds_no_more_than_digests_and_answers(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.begin(call(), "issuer jti", 5000)
    book = msgspec.json.decode((tmp_path / LEDGER_NAME).read_bytes())
    assert set(book) == {"calls", "tokens"}
    assert (tmp_path / LEDGER_NAME).stat().st_mode & 0o077 == 0
