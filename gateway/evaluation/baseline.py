"""The peer on the same rows: Microsoft Presidio's analyzer, where it is installed. It is no dependency."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable
from typing import Any

from gateway.domain.label import Level
from gateway.errors import ConfigurationError
from gateway.evaluation.corpus import Row
from gateway.evaluation.score import Judged

#: Entities of the analyzer and the level that this project gives to the same thing. Names, places,
#: dates and nationalities alone are no identifier here.
LEVELS = {
    **dict.fromkeys(
        (
            "CREDIT_CARD", "CRYPTO", "IBAN_CODE", "US_SSN", "US_ITIN", "US_PASSPORT", "US_DRIVER_LICENSE",
            "US_BANK_NUMBER", "UK_NHS", "UK_NINO", "ES_NIF", "ES_NIE", "IT_FISCAL_CODE", "IT_PASSPORT",
            "IT_IDENTITY_CARD", "IT_DRIVER_LICENSE", "PL_PESEL", "SG_NRIC_FIN", "AU_TFN", "AU_MEDICARE",
            "IN_PAN", "IN_AADHAAR", "IN_PASSPORT", "IN_VOTER", "FI_PERSONAL_IDENTITY_CODE", "KR_RRN",
            "MEDICAL_LICENSE", "TH_TNIN", "DE_TAX_ID",
        ),
        Level.RESTRICTED,
    ),
    **dict.fromkeys(("EMAIL_ADDRESS", "PHONE_NUMBER", "IP_ADDRESS"), Level.CONFIDENTIAL),
}  # fmt: skip
#: The analyzer's score from which an entity counts.
THRESHOLD = 0.4
_MISSING = (
    "--baseline presidio: presidio-analyzer is not installed here. It is no dependency of Tidegate: install "
    "presidio-analyzer and the spaCy model en_core_web_sm in this environment, then run the command again."
)


def judge_with_presidio(rows: Iterable[Row]) -> list[Judged]:
    """Every row with the level of the peer's highest entity. Raises `ConfigurationError` when missing."""
    try:
        module = importlib.import_module("presidio_analyzer")
        nlp = importlib.import_module("presidio_analyzer.nlp_engine")
    except ImportError:
        raise ConfigurationError(_MISSING) from None
    settings = {"nlp_engine_name": "spacy", "models": [{"lang_code": "en", "model_name": "en_core_web_sm"}]}
    try:
        provider: Any = nlp.NlpEngineProvider(nlp_configuration=settings)
        analyzer: Any = module.AnalyzerEngine(nlp_engine=provider.create_engine())
    except (OSError, SystemExit, ValueError):
        raise ConfigurationError(_MISSING) from None
    judged = []
    for row in rows:
        started = time.perf_counter_ns()
        found = analyzer.analyze(text=row.text, language="en", score_threshold=THRESHOLD)
        elapsed_us = (time.perf_counter_ns() - started) / 1000
        levels = [LEVELS.get(entity.entity_type, Level.INTERNAL) for entity in found]
        judged.append(Judged(row, max(levels, default=Level.INTERNAL), elapsed_us))
    return judged
