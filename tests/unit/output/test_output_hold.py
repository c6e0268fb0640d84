"""Unit tests of `gateway.output.hold` and `gateway.output.pieces`."""

from __future__ import annotations

import json
import re
from itertools import count

import pytest

from gateway.domain.finding import Finding
from gateway.domain.label import Level
from gateway.output.hold import Hold
from gateway.output.judge import Find, Judge
from gateway.output.pieces import Piece
from gateway.output.rules import DEFAULT_PROFILE, HOLD_CHARS, Action, KindRule, OutputProfile
from tests.fakes.output_finder import SECRET, find

CARD = "4111 1111 1111 1111"
IBAN = "GB29 NWBK 6016 1331 9268 19"
KEY_LINES = (
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\nVJTUt9Us8cKjMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dV\n"
)
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINES}-----END RSA PRIVATE KEY-----"


def _hold(
    is_json: bool = False,
    profile: OutputProfile = DEFAULT_PROFILE,
    bound: int = HOLD_CHARS,
    finder: Find = find,
) -> Hold:
    ticks = count()
    return Hold(Judge(finder, profile, lambda: next(ticks), 1_000_000), bound, is_json)


def _text(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def _filtered(text: str, is_json: bool = False, bound: int = HOLD_CHARS) -> str:
    """What leaves of `text`, checked to be the same whole and character by character."""
    whole = _hold(is_json, bound=bound)
    pieces = whole.feed(text) + whole.flush()
    assert sum(piece.size for piece in pieces) == len(text)
    single = _hold(is_json, bound=bound)
    parts = []
    for character in text:
        if not single.passes(character):
            parts += single.feed(character)
            assert single.held_count <= bound
        else:
            parts.append(Piece(1, character))
    assert _text(parts + single.flush()) == _text(pieces)
    return _text(pieces)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Card {CARD}, thanks.", "Card [redacted:card], thanks."),
        (f"Pay {IBAN} now", "Pay GB[redacted:iban] now"),
        ("Pay gb29nwbk60161331926819.", "Pay gb[redacted:iban]."),
        ("Write to alice@corp.org!", "Write to alice[redacted:email]!"),
        ("john.smith@corp.org", "john.[redacted:email]"),
        ("bob (at) corp (dot) org is", "bob (at[redacted:email] is"),
        ("SSN 123-45-6789\n", "SSN [redacted:ssn]\n"),
        ("call +44 (0)20 7946 0958 today", "call [redacted:phone] today"),
        ("id AKIAIOSFODNN7EXAMPLE.", "id AKIA[redacted:aws-key]."),
        ("sk-abcdefghijklmnopqrstuvwxyz", "sk-[redacted:openai-key]"),
        ("the password is swordfish, ok", "the password is [redacted:password], ok"),
        ("password: swordfish", "password: [redacted:password]"),
        (f"{CARD} and {CARD}", "[redacted:card] and [redacted:card]"),
        ("123456789 is my member number.", "[redacted:member-id] is my member number."),
        ("123456789 is my lucky number.", "123456789 is my lucky number."),
        ("In 2024 there were 17 of them, 3.5 % more.", "In 2024 there were 17 of them, 3.5 % more."),
    ],
)
def test_masks_findings_from_the_first_held_character(text: str, expected: str) -> None:
    assert _filtered(text) == expected


@pytest.mark.parametrize(
    "text",
    ["Plain words, and more; nothing else!", "E.g. the U.S. (well-known) office.", "GitHub is here: look"],
)
def test_holds_nothing_of_prose_after_any_character(text: str) -> None:
    hold = _hold()
    for character in text:
        released = character if hold.passes(character) else _text(hold.feed(character))
        assert (released, hold.held_count) == (character, 0)


def test_holds_nothing_once_a_number_is_over() -> None:
    hold = _hold()
    assert _text(hold.feed("In 2024")) == "In "
    assert _text(hold.feed(" ")) == ""
    assert _text(hold.feed("t")) == "2024 t"
    assert hold.held_count == 0


def test_flush_scans_the_tail() -> None:
    hold = _hold()
    assert _text(hold.feed(f"card {CARD}")) == "card "
    assert _text(hold.flush()) == "[redacted:card]"
    assert hold.held_count == 0
    assert hold.flush() == []


def test_flush_filters_what_followed_a_long_number_too() -> None:
    text = f"123456789 or {CARD}"
    assert _filtered(text) == "123456789 or [redacted:card]"


def test_private_key_is_swallowed_from_its_body_to_its_end_marker() -> None:
    expected = "Key:\n-----BEGIN RSA PRIVATE KEY-----\n[redacted:private-key]\nThat is all."
    assert _filtered(f"Key:\n{PEM}\nThat is all.") == expected


def test_private_key_without_an_end_is_swallowed_to_the_end_of_the_answer() -> None:
    text = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINES * 40}and then prose"
    assert _filtered(text) == "-----BEGIN PRIVATE KEY-----\n[redacted:private-key]"


def test_private_key_on_one_line_is_swallowed() -> None:
    text = "-----BEGIN PRIVATE KEY-----" + "MIIEvQIBADANBg" * 40 + "-----END PRIVATE KEY----- done"
    assert _filtered(text) == "-----[redacted:private-key] done"


def test_private_key_with_headers_before_its_body_is_swallowed() -> None:
    text = PEM.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: DES-EDE3-CBC,00\n\n", 1)
    assert "8cKjMzEfYyjiWA4R4" not in _filtered(text)
    assert _filtered(text).endswith("[redacted:private-key]")


def test_private_key_of_putty_is_swallowed_to_its_mac() -> None:
    head = "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nComment: x\nPrivate-Lines: 2\n"
    text = f"{head}{KEY_LINES}Private-MAC: none. Done."
    assert _filtered(text) == f"{head}[redacted:private-key] none. Done."


_BY_WHAT_IS_BEHIND = re.compile(r"://[^:]*:([^@]+)@\w|'(a1b2)'")


def _find_by_what_is_behind(text: str) -> tuple[Finding, ...]:
    return tuple(
        Finding("value", "fake@1", SECRET, *match.span(match.lastindex or 0))
        for match in _BY_WHAT_IS_BEHIND.finditer(text)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://:h4rd-To-Gue55", "redis://:[redacted:value]"),
        ("redis://u:a(b1)c,d", "redis://u:[redacted:value]"),
        ("redis://u:a(b1)c,d@host", "redis://u:[redacted:value]@host"),
        ("the word 'a1b2", "the word 'a[redacted:value]"),
        ("the word 'a1b2' is", "the word 'a[redacted:value]' is"),
        ("at http://localhost:8080", "at http://localhost:8080"),
    ],
)
def test_value_that_a_quote_or_host_behind_it_tells_is_masked_before_they_come(
    text: str, expected: str
) -> None:
    hold = _hold(finder=_find_by_what_is_behind)
    assert _text(hold.feed(text) + hold.flush()) == expected


def test_marker_alone_swallows_nothing() -> None:
    text = (
        "A file begins with `-----BEGIN PRIVATE KEY-----` and ends with `-----END PRIVATE KEY-----`. "
        + "Words " * 90
    )
    assert _filtered(text) == text


def test_certificate_passes() -> None:
    text = PEM.replace("RSA PRIVATE KEY", "CERTIFICATE")
    assert _filtered(text) == text


def test_long_token_that_begins_like_a_key_is_swallowed_at_the_bound() -> None:
    token = "eyJhbGciOiJIUzI1NiJ9." + "abcDEF123_" * 90
    assert _filtered(f"x {token} y") == "x ey[redacted:long-key] y"


def test_long_unknown_token_is_released_from_its_old_end() -> None:
    token = "abc123" * 300
    assert _filtered(f"x {token} y") == f"x {token} y"
    hold = _hold(bound=128)
    assert _text(hold.feed(token[:200])) == token[: 3 + 128]
    assert hold.held_count <= 128


def test_finding_across_the_middle_at_the_bound_is_masked_whole() -> None:
    text = "1/" * 54 + "123-45-6789" + "/1" * 60
    assert "6789" not in _filtered(text, bound=128)
    assert "[redacted:ssn]" in _filtered(text, bound=128)


def test_finding_that_reaches_the_bound_is_swallowed_to_the_tokens_end() -> None:
    text = "sk-" + "ab-" * 200 + "cd and prose"
    assert _filtered(text, bound=128) == "sk-[redacted:openai-key] and prose"


def test_list_of_numbers_is_released_in_bounded_steps() -> None:
    text = " ".join(str(number % 10) for number in range(400)) + " end"
    hold = _hold(finder=lambda _text: ())
    most = 0
    out = ""
    for character in text:
        out += _text(hold.feed(character))
        most = max(most, hold.held_count)
    assert out + _text(hold.flush()) == text
    assert most < HOLD_CHARS


def test_look_back_lets_a_word_before_explain_a_number() -> None:
    seen: list[str] = []

    def noting(text: str) -> tuple[()]:
        seen.append(text)
        return ()

    hold = _hold(finder=noting)
    hold.feed("your ssn is ")
    hold.feed("123456 ok")
    assert seen == ["your ssn is 123456 "]


def test_what_was_masked_is_not_scanned_again() -> None:
    seen: list[str] = []

    def noting(text: str) -> tuple[object, ...]:
        seen.append(text)
        return find(text)

    _hold(finder=noting).feed(f"{CARD}, and to alice@corp.org, in any case at all. ")  # type: ignore[arg-type]
    assert seen[-1] == "[redacted:card], and to alice@corp.org,"


def test_numbers_further_away_lend_only_their_words() -> None:
    seen: list[str] = []

    def noting(text: str) -> tuple[()]:
        seen.append(text)
        return ()

    hold = _hold(finder=noting)
    hold.feed("patient 123456789 was seen on the ward, see 987654321 (ward 7)")
    hold.flush()
    assert seen[1] == "patient ~~~~~~~~~ was seen on the ward, see 987654321 (ward ~)"


# --- JSON ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'{{"card":"{CARD}"}}', {"card": "[redacted:card]"}),
        (r'{"card":"\u0034111 1111 1111 1111"}', {"card": "[redacted:card]"}),
        ('{"card":4111111111111111}', {"card": "[redacted:card]"}),
        ('{"card": -4111111111111111 , "n": -7}', {"card": "[redacted:card]", "n": -7}),
        ('{"n":[1,2.5e3,true,null],"s":"a\\nb"}', {"n": [1, 2500.0, True, None], "s": "a\nb"}),
        (r'{"t":"x\njoe@corp.org\"y"}', {"t": 'x[redacted:email]"y'}),
        (json.dumps({"k": f"{PEM}\nafter", "z": 1}), {"k": "-----[redacted:private-key]\nafter", "z": 1}),
        (
            json.dumps({"k": f"-----BEGIN PRIVATE KEY-----\n{KEY_LINES * 9}", "z": 1}),
            {"k": "-----[redacted:private-key]", "z": 1},
        ),
        (
            json.dumps({"k": "".join(f"\\u{ord(letter):04x}" for letter in "abcDEF123_" * 9)}).replace(
                "\\\\", "\\"
            ),
            {"k": "[redacted:escaped-text]"},
        ),
        (json.dumps({"k": "eyJhbGciOiJIUzI1NiJ9." + "abcDEF123_" * 90}), {"k": "ey[redacted:long-key]"}),
        ('{"n":' + "4" * 300 + "}", {"n": int("4" * 300)}),
    ],
)
def test_masked_json_is_still_json(text: str, expected: object) -> None:
    assert json.loads(_filtered(text, is_json=True)) == expected


def test_masked_number_longer_than_the_bound_is_one_string() -> None:
    text = '{"n":' + "-".join(["123", "45", "6789"]) + "/1" * 300 + "}"
    assert json.loads(_filtered(text, is_json=True)) == {"n": "[redacted:ssn]"}


def test_escape_is_not_cut_at_the_bound() -> None:
    text = json.dumps({"t": "é" * 300 + CARD})
    assert json.loads(_filtered(text, is_json=True)) == {"t": "é" * 300 + "[redacted:card]"}


def test_escaped_quote_does_not_end_a_swallowed_token() -> None:
    text = '{"k":"sk-' + "ab-" * 200 + '\\"more\\\\","z":1}'
    assert json.loads(_filtered(text, is_json=True)) == {"k": "sk-[redacted:openai-key]", "z": 1}


# --- stop ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_json", "text", "expected"), [(False, f"a {CARD}. b", "a "), (True, "[41111111111111110, 5]", "[")]
)
def test_stop_releases_what_stands_before_and_nothing_after(is_json: bool, text: str, expected: str) -> None:
    profile = OutputProfile("p", (KindRule("all@1", ("*",), Level.PUBLIC, Action.STOP),))
    text = text.replace("41111111111111110", "4111111111111111")
    hold = _hold(is_json, profile)
    pieces = hold.feed(text) + hold.flush()
    assert _text(pieces) == expected
    assert [piece.stops for piece in pieces].count(True) == 1
    assert _text(hold.feed("more")) == ""
    assert hold.flush() == []


def test_profile_without_a_rule_for_keys_lets_them_pass() -> None:
    profile = OutputProfile("p", (KindRule("cards@1", ("card",), Level.PUBLIC, Action.REDACT),))
    hold = _hold(profile=profile)
    text = PEM + " eyJ" + "abcDEF123_" * 90
    assert _text(hold.feed(text) + hold.flush()) == text
