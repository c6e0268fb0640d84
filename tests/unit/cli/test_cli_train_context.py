"""`tidegate evaluate train-context` says what is missing before it starts to work."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from gateway.cli.evaluate import evaluate


def test_refuses_a_folder_without_corpora(tmp_path: Path) -> None:
    out = tmp_path / "context.bin"
    result = CliRunner().invoke(evaluate, ["train-context", "--out", str(out), "--corpora", str(tmp_path)])
    assert result.exit_code == 2
    assert "expected at least one .jsonl file" in result.output
    assert not out.exists()


def test_refuses_a_broken_row_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "en-9.jsonl").write_text('{"text": "a", "label": "public"}\n{"text": 1}\n')
    out = tmp_path / "context.bin"
    result = CliRunner().invoke(evaluate, ["train-context", "--out", str(out), "--corpora", str(tmp_path)])
    assert result.exit_code == 2
    assert "en-9.jsonl:2" in result.output
