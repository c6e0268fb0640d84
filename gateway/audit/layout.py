"""Names of the files of a log, as pure text. Paths are relative to the log's directory.

    lock                              held by the one writer
    checkpoint                        newest signed checkpoint (the place that C2SP tlog-tiles gives it)
    segments/<first seq, 20 digits>.seg
    checkpoints/<first ordinal, 20 digits>.ckp
    segments/spare.tmp                a prepared, empty file; never part of the log (nor is its draft)

`tile/` and `anchors/` are left free for tiles and for outside witnesses.
"""

from __future__ import annotations

LOCK = "lock"
CHECKPOINT = "checkpoint"
CHECKPOINT_DRAFT = "checkpoint.tmp"
SEGMENTS = "segments"
CHECKPOINTS = "checkpoints"
SPARE = "segments/spare.tmp"
SPARE_DRAFT = "segments/spare-draft.tmp"
JOURNAL_DRAFT = "checkpoints/draft.tmp"

_DIGITS = 20


def segment_name(first_seq: int) -> str:
    """File of the segment that starts with record `first_seq`."""
    return f"{SEGMENTS}/{first_seq:0{_DIGITS}d}.seg"


def journal_name(first_ordinal: int) -> str:
    """File of the checkpoints from `first_ordinal` on."""
    return f"{CHECKPOINTS}/{first_ordinal:0{_DIGITS}d}.ckp"


def segment_number(name: str) -> int | None:
    """The first sequence number in a bare file name of `segments/`, or None for another file."""
    return _number(name, ".seg")


def journal_number(name: str) -> int | None:
    """The first ordinal in a bare file name of `checkpoints/`, or None for another file."""
    return _number(name, ".ckp")


def _number(name: str, ending: str) -> int | None:
    digits = name.removesuffix(ending)
    if not name.endswith(ending) or len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)
