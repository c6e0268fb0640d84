"""Marks of confidence, counsel and inside information, and the same words where they mark nothing."""

from __future__ import annotations

import pytest

from gateway.domain.label import Level, Tag
from gateway.sensitivity.detectors import build_detectors

ENGINES = [build_detectors("hyperscan"), build_detectors("re2")]
KINDS = {"inside-information", "legal-counsel", "confidence-mark"}


def _found(text: str) -> dict[str, Level]:
    """Kinds and levels of the marks in the text; the same with either engine."""
    found = [
        {
            finding.kind: finding.label.level
            for finding in engine.find(text, None, 16)
            if finding.kind in KINDS
        }
        for engine in ENGINES
    ]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    "text",
    [
        "Please treat this as inside information until Friday.", "You are now an insider.",
        "Strictly embargoed", "under embargo until Monday", "Ihr seid ab sofort Insider.",
        "bitte als Insiderinformation behandeln", "à traiter comme une information privilégiée",
        "vous êtes désormais initié", "tratar como información privilegiada",
        "da trattare come informazione privilegiata", "tratar como informação privilegiada",
        "behandel dit als voorwetenschap", "それまでインサイダー情報として扱ってください",
        "公告前任何人不得买卖公司股票",
    ],
)  # fmt: skip
def test_a_mark_of_inside_information_is_restricted(text: str) -> None:
    assert _found(text).get("inside-information") == Level.RESTRICTED


@pytest.mark.parametrize(
    "text",
    [
        "As your solicitor, I recommend settling before disclosure.", "PRIVILEGED AND CONFIDENTIAL",
        "Als Ihre Anwältin rate ich Ihnen zum Vergleich.", "en tant que votre avocate, je vous déconseille",
        "en ma qualité de votre avocat je vous recommande de transiger",
        "como su abogada le aconsejo no declarar",
        "in qualità di Suo legale sconsiglio", "como seu advogado recomendo", "als uw advocaat adviseer ik",
        "我是您的律师", "弁護士として助言します",
    ],
)  # fmt: skip
def test_advice_of_counsel_is_restricted(text: str) -> None:
    found = _found(text)
    assert found.get("legal-counsel", found.get("inside-information")) == Level.RESTRICTED


@pytest.mark.parametrize(
    "text",
    [
        "please do not circulate.", "keep this between us", "the unpatented coating", "for your eyes only",
        "Streng vertraulich", "bitte nicht weitergeben", "das bleibt unter uns", "merci de ne rien ébruiter",
        "ne pas diffuser", "à garder entre nous", "no difundir", "que quede entre nosotros",
        "strettamente riservato", "acqua in bocca", "não divulgar", "fica entre nós", "niet verspreiden",
        "blijft onder ons", "社外秘です", "请勿外传此文件",
    ],
)  # fmt: skip
def test_a_mark_of_confidence_is_confidential(text: str) -> None:
    assert _found(text) == {"confidence-mark": Level.CONFIDENTIAL}


@pytest.mark.parametrize(
    "text",
    [
        "What is inside information under MAR?", "Do not share your password with anyone.",
        "How do I mark a letter as attorney-client privileged?", "Was ist eine Insiderinformation?",
        "Qu'est-ce qu'une information privilégiée ?", "act as a lawyer and explain this statute",
        "we keep the temperature between 20 and 22 degrees", "インサイダー情報とは何ですか。",
        "什么是内幕信息？",
        "the circular saw", "donotcirculate.txt",
    ],
)  # fmt: skip
def test_a_question_about_marks_is_no_mark(text: str) -> None:
    assert _found(text) == {}


def test_marks_are_nothing_to_be_masked() -> None:
    assert ENGINES[0].find("Streng vertraulich") == ()
    (finding,) = ENGINES[0].find("You are now an insider.", None, 16)
    assert finding.label.tags == frozenset({Tag.MNPI})
