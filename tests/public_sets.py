"""Two public sets as rows for `tidegate evaluate sensitivity`: `python -m tests.public_sets NAME IN OUT`.

`presidio` (presidio-research, synth_dataset_v2.json): a message with a card, an IBAN, a social security
number or a licence is `restricted`; one with a telephone number, a mail or an IP address (and none of those)
is `confidential`. Messages whose only finding is a street, a post code or a date are left out: they place a
person, which is confidential here and not a regulated identifier there. All others are `internal`; names,
places, organisations, ages and nationalities alone regulate nothing.

`nannigalaxy` (PII-synthetic_dataset, pii_syn_nano_en.json): its own flag `has_pii` → `confidential` (what is
asked is whether the message is seen as sensitive at all), else `internal`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESTRICTED = {"CREDIT_CARD": "pci", "IBAN_CODE": "fin", "US_SSN": "pii", "US_DRIVER_LICENSE": "pii"}
CONTACT = {"PHONE_NUMBER": "pii", "EMAIL_ADDRESS": "pii", "IP_ADDRESS": "pii"}
LEFT_OUT = {"STREET_ADDRESS", "ZIP_CODE", "DATE_TIME"}


def presidio(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of the Presidio set."""
    for number, row in enumerate(rows):
        kinds = {span["entity_type"] for span in row["spans"]}
        high, contact = kinds & RESTRICTED.keys(), kinds & CONTACT.keys()
        if not high and not contact and kinds & LEFT_OUT:
            continue
        label = "restricted" if high else "confidential" if contact else "internal"
        categories = sorted({RESTRICTED[kind] for kind in high} | {CONTACT[kind] for kind in contact})
        yield {"id": f"p{number}", "text": row["full_text"], "label": label, "categories": categories}


def nannigalaxy(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of the Nannigalaxy set."""
    for number, row in enumerate(rows):
        label = "confidential" if row["has_pii"] else "internal"
        yield {"id": f"n{number}", "text": row["text"], "label": label, "categories": []}


def main(name: str, source: str, target: str) -> None:
    """Convert the file `source` into `target`."""
    convert = {"presidio": presidio, "nannigalaxy": nannigalaxy}[name]
    rows = convert(json.loads(Path(source).read_text(encoding="utf-8")))
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    Path(target).write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:4])
