"""The registry as a whole: its lock, its channels, its references, its digest."""

from __future__ import annotations

import pytest

from gateway.errors import ConfigurationError
from gateway.protocols.registry import build_registry, format_lock, parse_lock, split_documents
from tests.fakes.protocol_files import good_files, lock_of, parse_yaml, prompt_manifest, registry_of


def test_holds_every_document_by_name_and_version() -> None:
    registry = registry_of(good_files())
    assert set(registry.prompts) == {("greeting", "1.0.0"), ("greeting", "1.10.0")}
    assert set(registry.tool_sets) == {("search", "1.0.0")}
    assert registry.channels["greeting"].stable == (1, 0, 0)
    assert registry.versions == {"greeting": ((1, 0, 0), (1, 10, 0))}
    assert len(registry.sha256) == 64


def test_is_empty_for_no_files() -> None:
    registry = build_registry({}, b"", parse_yaml)
    assert not registry.prompts
    assert not registry.tool_sets


def test_changes_its_digest_with_any_document_and_with_the_channels() -> None:
    files = good_files()
    other_text = files | {"greeting/1.0.0/prompt.md": b"Hi {{who}}"}
    other_channel = files | {"channels.yaml": b"greeting: {stable: 1.10.0}\n"}
    fewer = {path: content for path, content in files.items() if path != "channels.yaml"}
    digests = {registry_of(item).sha256 for item in (files, other_text, other_channel, fewer)}
    assert len(digests) == 4
    assert registry_of(good_files()).sha256 == registry_of(dict(reversed(good_files().items()))).sha256


def test_refuses_a_document_that_was_changed_after_it_was_locked() -> None:
    files = good_files()
    lock = lock_of(files)
    files["greeting/1.0.0/prompt.md"] += b"x"
    with pytest.raises(
        ConfigurationError, match=r"^greeting/1\.0\.0: expected sha256 .*, found [0-9a-f]{64}"
    ):
        build_registry(files, lock, parse_yaml)


def test_refuses_a_document_that_the_lock_does_not_know() -> None:
    lock = lock_of(good_files())
    files = good_files() | {
        "new/1.0.0/manifest.yaml": prompt_manifest("new"),
        "new/1.0.0/prompt.md": b"{{who}}",
    }
    with pytest.raises(ConfigurationError, match=r"^new/1\.0\.0: expected an entry new@1\.0\.0"):
        build_registry(files, lock, parse_yaml)


def test_refuses_a_lock_with_an_entry_whose_document_is_gone() -> None:
    files = {path: content for path, content in good_files().items() if not path.startswith("greeting/1.0.0")}
    with pytest.raises(ConfigurationError, match=r"greeting@1\.0\.0: expected the folder"):
        build_registry(files, lock_of(good_files()), parse_yaml)


@pytest.mark.parametrize(
    "line",
    [
        b"greeting sha256:" + b"0" * 64,
        b"greeting@1.0.0 sha256:" + b"0" * 63,
        b"greeting@1.0.0 sha256:" + b"A" * 64,
        b"greeting@1.0.0 md5:" + b"0" * 64,
        b"greeting@1.0.0  sha256:" + b"0" * 64,
        b"../x@1.0.0 sha256:" + b"0" * 64,
        b"greeting@1.0.0 sha256:" + b"0" * 64 + b" ",
        b"greeting@1.0.0 sha256:" + b"0" * 64 + b"\r",
        "grüezi@1.0.0".encode(),
        b"<<<<<<< ours",
    ],
    ids=range(10),
)
def test_names_the_line_of_the_lock_that_is_wrong(line: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"^protocols\.lock(:2)?: expected"):
        parse_lock(b"# a comment\n" + line + b"\n")


def test_refuses_a_lock_that_names_a_document_twice() -> None:
    line = b"greeting@1.0.0 sha256:" + b"0" * 64 + b"\n"
    with pytest.raises(ConfigurationError, match=r"^protocols\.lock:2: .*found it twice"):
        parse_lock(line + line)


def test_writes_a_lock_that_it_reads_back_in_a_fixed_order() -> None:
    digests = {("b", "1.0.0"): "0" * 64, ("a", "2.0.0"): "1" * 64, ("a", "1.0.0"): "2" * 64}
    assert parse_lock(format_lock(digests)) == digests
    assert format_lock(digests) == format_lock(dict(reversed(digests.items())))
    assert format_lock(digests).splitlines()[1].startswith(b"a@1.0.0 ")


@pytest.mark.parametrize(
    "path",
    [
        "notes.txt",
        "greeting/manifest.yaml",
        "greeting/1.0/manifest.yaml",
        "greeting/1.0.0/sub/manifest.yaml",
        "greeting/1.0.0/",
        "Greeting/1.0.0/manifest.yaml",
        "../1.0.0/manifest.yaml",
        "/1.0.0/manifest.yaml",
        "greeting/latest/manifest.yaml",
        ".git/1.0.0/config",
    ],
)
def test_refuses_a_file_at_a_place_of_no_document(path: str) -> None:
    with pytest.raises(ConfigurationError):
        split_documents({path: b""})


@pytest.mark.parametrize(
    ("channels", "words"),
    [
        (b"greeting: {stable: 9.9.9}", "greeting.stable: no prompt greeting@9.9.9"),
        (b"search: {stable: 1.0.0}", "search.stable: no prompt search@1.0.0"),
        (b"greeting: {stable: 1.0.0, newest: 1.10.0}", "unknown field `newest`"),
        (b"greeting: {}", "greeting: expected stable"),
        (b"greeting: 1.0.0", "Expected `object`, got `str`"),
        (b"- greeting", "Expected `object`"),
        (b"\xff", "expected UTF-8"),
    ],
)
def test_names_what_is_wrong_in_the_channels(channels: bytes, words: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^channels\.yaml: ") as caught:
        registry_of(good_files() | {"channels.yaml": channels})
    assert words in str(caught.value)


def test_refuses_a_prompt_whose_tool_set_is_not_there() -> None:
    files = {path: content for path, content in good_files().items() if not path.startswith("search")}
    with pytest.raises(
        ConfigurationError, match=r"greeting/1\.10\.0/manifest\.yaml: tools: no tool set search@1"
    ):
        registry_of(files)


def test_cannot_be_changed_after_it_was_built() -> None:
    registry = registry_of(good_files())
    with pytest.raises(TypeError):
        registry.prompts["x", "1.0.0"] = registry.prompts["greeting", "1.0.0"]  # type: ignore[index]
