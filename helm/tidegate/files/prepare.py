"""Makes what a pod's program reads from what Kubernetes can mount. Runs once, before the program.

In: ConfigMap and Secret volumes. Out: plain files in an emptyDir that the program mounts read-only.

Why: a ConfigMap key holds no slash, so a folder's paths stand in it with "__", and the keys of your own
ConfigMap are not known when the chart is rendered (else the volume could map them to paths); the settings
hold the pod's name and the URL of Redis, and a secret has no place in a ConfigMap; the private node takes
only a key file of mode 600.

Invariants
1. No value is printed. A refusal names a file or a word and says what was expected.
2. Every output is a regular file of mode 600 in folders of mode 700, below the target and nowhere else.
3. A placeholder that has no word, and a word that has no placeholder, are refused.

Standard library only; `python -I`, so that nothing of the working directory is imported.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

SEPARATOR = "__"
_PLACEHOLDER = re.compile(r"@([A-Z][A-Z_]*)@")
_WORD = re.compile(r"[\x21-\x7e]{1,4096}")


class Refused(Exception):
    """An input that cannot be used; the sentence names it and never its value."""


def unpack(source: Path, target: Path) -> None:
    """Copies every key of a mounted ConfigMap to the path that it stands for, below `target`.

    Names that begin with two dots are the volume's own. What `target` held before is removed.
    """
    names = sorted(name for name in os.listdir(source) if not name.startswith(".."))
    if not names:
        raise Refused(f"{source}: expected the files of a policy folder, found none")
    if target.exists():
        shutil.rmtree(target)
    for name in names:
        parts = name.split(SEPARATOR)
        if any(part in ("", ".", "..") for part in parts):
            raise Refused(f'{source}/{name}: expected the parts of a path with "{SEPARATOR}" between them')
        place = target.joinpath(*parts)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(place, (source / name).read_bytes())


def fill(source: Path, target: Path, words: Mapping[str, str]) -> None:
    """Writes `source` to `target` with each @NAME@ replaced by its word, escaped for a TOML string."""
    text = source.read_text("utf-8")
    wanted = set(_PLACEHOLDER.findall(text))
    if wanted != set(words):
        raise Refused(f"{source}: expected the words {sorted(words)}, found places for {sorted(wanted)}")
    _write(target, _PLACEHOLDER.sub(lambda found: json.dumps(words[found[1]])[1:-1], text).encode())


def copy_private(source: Path, target: Path) -> None:
    """Copies one file of a Secret to a file that only its owner can read."""
    _write(target, source.read_bytes())


def read_word(reference: str) -> str:
    """The word behind `env:NAME` or `file:PATH`, trailing newlines cut: printable ASCII without space."""
    scheme, _, place = reference.partition(":")
    if scheme == "env":
        word = os.environ.get(place, "")
    elif scheme == "file":
        word = Path(place).read_text("utf-8").rstrip("\r\n")
    else:
        raise Refused(f"{reference}: expected env:NAME or file:PATH")
    if not _WORD.fullmatch(word):
        raise Refused(f"{reference}: expected 1 to 4096 printable characters without space")
    return word


def main(arguments: list[str] | None = None) -> int:
    """Does what the arguments ask for; 0 when all of it was done, else 2."""
    parser = argparse.ArgumentParser(description="Prepare the files of a pod.")
    for name in ("tree", "fill", "private"):
        parser.add_argument(f"--{name}", metavar="SOURCE:TARGET", action="append", default=[])
    parser.add_argument("--word", metavar="NAME=REFERENCE", action="append", default=[])
    options = parser.parse_args(arguments)
    os.umask(0o077)
    try:
        words = {name: read_word(value) for name, _, value in (each.partition("=") for each in options.word)}
        work: tuple[tuple[list[str], Callable[[Path, Path], None]], ...] = (
            (options.tree, unpack),
            (options.fill, lambda source, target: fill(source, target, words)),
            (options.private, copy_private),
        )
        for pairs, act in work:
            for pair in pairs:
                source, _, target = pair.partition(":")
                act(Path(source), Path(target))
    except OSError as fault:
        print(f"prepare: {fault.filename}: {fault.strerror}", file=sys.stderr)
        return 2
    except UnicodeDecodeError:
        print("prepare: expected UTF-8 in the settings and in every word", file=sys.stderr)
        return 2
    except Refused as refusal:
        print(f"prepare: {refusal}", file=sys.stderr)
        return 2
    return 0


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


if __name__ == "__main__":
    sys.exit(main())
