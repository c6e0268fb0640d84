"""The set as a whole: views, merging, identity, and both engines alike."""

from __future__ import annotations

import base64
import json

import pytest

from gateway.domain.finding import Finding
from gateway.domain.label import Label, Level, Tag
from gateway.errors import ConfigurationError
from gateway.sensitivity.detectors import MAX_DEPTH, RULES, DetectorSet, build_detectors, merge
from tests.unit.sensitivity import vectors

HYPERSCAN = build_detectors("hyperscan")
RE2 = build_detectors("re2")
CARD = vectors.card("4539", 16, 1)
IBAN = vectors.iban("DE", "370400440532013999")
SSN = vectors.ssn(3)


def _finding(kind: str, level: Level, start: int, end: int, *tags: Tag) -> Finding:
    return Finding(kind, f"{kind}@1", Label(level, frozenset(tags)), start, end)


def test_merge_keeps_order_and_separate_findings() -> None:
    first = _finding("a", Level.RESTRICTED, 0, 4)
    second = _finding("b", Level.CONFIDENTIAL, 2, 8)
    assert merge([second, first]) == (first, second)
    assert merge([]) == ()


def test_merge_takes_a_nested_finding_into_the_outer_one_with_both_labels() -> None:
    outer = _finding("email", Level.CONFIDENTIAL, 0, 20, Tag.PII)
    inner = _finding("url-password", Level.RESTRICTED, 0, 8, Tag.SECRET)
    (merged,) = merge([outer, inner])
    assert (merged.kind, merged.start, merged.end) == ("url-password", 0, 20)
    assert merged.label == Label(Level.RESTRICTED, frozenset({Tag.PII, Tag.SECRET}))


@pytest.mark.parametrize(
    "hidden",
    [
        base64.b64encode(f"account {IBAN}".encode()).decode(),
        base64.urlsafe_b64encode(f"pan:{CARD}".encode()).decode().rstrip("="),
        f"ssn={SSN}".encode().hex(),
        "".join(f"%{ord(letter):02X}" for letter in IBAN),
        "".join(f"\\u{ord(letter):04x}" for letter in SSN),
        "".join(f"&#{ord(letter)};" for letter in CARD),
        "\u200b".join(CARD),
        CARD.translate({48 + digit: 0xFF10 + digit for digit in range(10)}),
        "\x00".join(SSN),
        json.dumps({"a": json.dumps({"key": f"card\t{CARD}"})}),
        base64.b64encode("".join(f"\\u{ord(letter):04x}" for letter in SSN).encode()).decode(),
        "".join(chr(0xE0000 + ord(letter)) for letter in f"ssn {SSN}"),
        IBAN.replace("DE", "D\u0415"),
    ],
)
def test_finds_what_is_written_so_that_people_do_not_see_it(hidden: str) -> None:
    text = f"args={hidden} end"
    findings = HYPERSCAN.find(text)
    assert [finding.label.level for finding in findings] == [Level.RESTRICTED]
    assert hidden.startswith(text[findings[0].start]) or text[findings[0].start : findings[0].end] in hidden
    assert findings == RE2.find(text)


def test_what_has_more_layers_than_are_taken_off_is_opaque() -> None:
    text = SSN
    for _ in range(MAX_DEPTH):
        text = base64.b64encode(text.encode()).decode()
    assert [finding.kind for finding in HYPERSCAN.find(text)] == ["us-ssn"]
    deeper = base64.b64encode(text.encode()).decode()
    for detectors in (HYPERSCAN, RE2):
        (finding,) = detectors.find(deeper)
        assert (finding.kind, finding.start, finding.end) == ("opaque-blob", 0, len(deeper))
        assert finding.label == Label(Level.RESTRICTED, frozenset({Tag.OPAQUE}))
    escaped = "".join(f"%252525{ord(digit):02x}" for digit in SSN)
    assert [finding.kind for finding in HYPERSCAN.find(escaped)] == ["opaque-blob"]


def test_a_long_blob_that_is_no_text_is_opaque() -> None:
    noise = bytes((number * 167 + number // 7 * 31) % 256 for number in range(600))
    text = f"see {base64.b64encode(noise).decode()} there"
    (finding,) = HYPERSCAN.find(text)
    assert (finding.kind, finding.label) == ("opaque-blob", Label(Level.RESTRICTED, frozenset({Tag.OPAQUE})))
    assert finding.detector in HYPERSCAN.versions


def test_sha256_tells_engines_and_tables_apart_and_is_stable() -> None:
    assert HYPERSCAN.sha256 == build_detectors("hyperscan").sha256
    assert len({HYPERSCAN.sha256, RE2.sha256, DetectorSet(RULES[1:], "re2").sha256}) == 3


def test_versions_name_every_row_once() -> None:
    assert set(HYPERSCAN.versions) == {rule.identity for rule in RULES} | {"opaque-blob@1", "dense-text@1"}
    assert len(HYPERSCAN.versions) == len(set(HYPERSCAN.versions))


class _Shouting:
    identity = "shouting@2"

    def find(self, text: str) -> tuple[Finding, ...]:
        place = text.find("HUSH")
        return () if place < 0 else (_finding("codename", Level.RESTRICTED, place, place + 4, Tag.MNPI),)


def test_further_detectors_add_their_findings_and_their_identity() -> None:
    detectors = build_detectors("hyperscan", (_Shouting(),))
    assert [finding.kind for finding in detectors.find("project HUSH")] == ["codename"]
    assert [finding.kind for finding in detectors.find(f"é HUSH {SSN}")] == ["codename", "us-ssn"]
    assert detectors.versions[-1] == "shouting@2"
    assert detectors.sha256 != HYPERSCAN.sha256


def test_refuses_two_detectors_of_one_identity() -> None:
    with pytest.raises(ConfigurationError, match="distinct name@version"):
        build_detectors("re2", (_Shouting(), _Shouting()))


def test_check_is_called_while_candidates_are_examined() -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1

    HYPERSCAN.find("a@b.co " * 200, check)
    assert calls >= 3
    HYPERSCAN.find("nothing here", check)


def _corpus() -> list[str]:
    rows = list(vectors.BENIGN)
    for seed in range(40):
        card = vectors.card("5" + "12345"[seed % 5], 16, seed)
        number = vectors.nhs_number(seed)
        rows += [
            f"pay {card[:4]} {card[4:8]} {card[8:12]} {card[12:]} or call +44 20 7946 {seed:04d}",
            f'{{"ssn":"{vectors.ssn(seed)}","mail":"kim{seed}@vestfjord.no"}}',
            f"NHS {number[:3]} {number[3:6]} {number[6:]}; token ghp_{vectors.token(36, seed)}",
            f"IBAN {vectors.iban('GB', f'WEST{10**13 + seed * 7919}'[:18])} vs {seed * 997:09d}",
            base64.b64encode(f"row {seed}: {vectors.ssn(seed)}".encode()).decode(),
            f"\\u00e9 %41 password={vectors.token(12, seed)} {'٣' * (seed % 20)} é{seed * 31337}",
        ]
    return rows


@pytest.mark.parametrize("whole", [False, True])
def test_both_engines_find_the_same_in_the_whole_corpus(whole: bool) -> None:
    corpus = _corpus()
    texts = ["\n".join(corpus)] if whole else corpus
    found = [HYPERSCAN.find(text) for text in texts]
    assert found == [RE2.find(text) for text in texts]
    assert sum(map(len, found)) > 250


@pytest.mark.parametrize("pad", range(20, 36))
def test_base64_in_lines_is_read_to_its_end(pad: int) -> None:
    text = base64.encodebytes(f"customer note{'x' * pad} card {CARD}".encode()).decode()
    for behind in ("", "Thanks\n", "and then\n"):
        assert "payment-card" in {finding.kind for finding in HYPERSCAN.find(text + behind)}


@pytest.mark.parametrize("width", [5, 8, 12, 14])
def test_base64_in_short_lines_is_read(width: int) -> None:
    blob = base64.b64encode(CARD.encode()).decode()
    lines = "\n".join(blob[place : place + width] for place in range(0, len(blob), width))
    for text in (lines, lines.replace("\n", "\r\n"), f"see\n\n{lines}\n\nbye"):
        assert [finding.kind for finding in HYPERSCAN.find(text)] == ["payment-card"]
    assert HYPERSCAN.find("\n".join(["apple", "Pear", "plum9", "Cherry", "fig2"])) == ()


def test_a_long_hexadecimal_run_that_is_no_text_is_opaque() -> None:
    raw = bytes((number * 197 + number * number * 31 + 7) % 256 for number in range(256))
    for text in (raw.hex(), raw.hex(":"), raw.hex(" ")):
        for detectors in (HYPERSCAN, RE2):
            found = detectors.find(f"the file: {text}")
            assert "opaque-blob" in {finding.kind for finding in found}
    assert HYPERSCAN.find(f"the hash: {raw[:64].hex()}") == ()


@pytest.mark.parametrize(
    "text",
    [
        "".join("⓿❶❷❸❹❺❻❼❽❾"[int(digit)] for digit in CARD),
        "".join("⓪➀➁➂➃➄➅➆➇➈"[int(digit)] for digit in CARD),
        "".join("⓪⓵⓶⓷⓸⓹⓺⓻⓼⓽"[int(digit)] for digit in CARD),
        "    ".join(CARD[place : place + 4] for place in range(0, 16, 4)),
        "\t\t\t\t\t\t".join(CARD[place : place + 4] for place in range(0, 16, 4)),
        f'{{"const":{CARD}.0}}',
        f'{{"const":{CARD}.000}}',
        f'{{"const":{CARD[0]}.{CARD[1:]}e15}}',
        f'{{"const":{CARD[:6]}.{CARD[6:]}E+10}}',
        f'{{"const":{CARD}00e-2}}',
        base64.b64encode("".join(chr(0xE0000 + ord(sign)) for sign in f"card {CARD}").encode()).decode(),
        base64.b64encode(
            ("see" + "".join(chr(0xE0000 + ord(sign)) for sign in f"card {CARD}")).encode()
        ).decode(),
    ],
)
def test_reads_odd_spellings_of_a_number(text: str) -> None:
    assert "payment-card" in {finding.kind for finding in HYPERSCAN.find(text)}


@pytest.mark.parametrize("text", [f"0.{CARD}", f"{CARD}.25", f"{CARD}.01", f"x{CARD[0]}.{CARD[1:]}e15"])
def test_a_fraction_is_no_number_of_a_card(text: str) -> None:
    assert "payment-card" not in {finding.kind for finding in HYPERSCAN.find(text)}


@pytest.mark.parametrize("blank", "\u115f\u1160\u180e\u2800\u3164\uffa0")
def test_reads_a_key_with_a_blank_inside_that_nobody_sees(blank: str) -> None:
    key = "ghp_" + vectors.token(36, 5)
    text = f"é {key[:9]}{blank}{key[9:20]}{blank}{key[20:]} é"
    (finding,) = HYPERSCAN.find(text)
    assert (finding.kind, finding.start, finding.end) == ("github-token", 2, 44)
