"""Texts that are surely no secret: documentation, code and logs, out of Python's own library.

Read where the training runs and not kept: only the weights know that they were there.
"""

from __future__ import annotations

import importlib
import inspect
import pydoc_data.topics
from collections.abc import Iterator

_MODULES = (
    "argparse", "ast", "asyncio.base_events", "calendar", "collections", "concurrent.futures.thread",
    "configparser", "contextlib", "csv", "dataclasses", "datetime", "decimal", "difflib",
    "email.message", "enum", "fractions", "functools", "gettext", "gzip", "heapq", "html.parser",
    "http.client", "http.server", "imaplib", "inspect", "ipaddress", "json.decoder", "logging",
    "mailbox", "mimetypes", "optparse", "pathlib", "pdb", "pickle", "platform", "pprint", "queue",
    "random", "sched", "shutil", "smtplib", "socketserver", "sqlite3.dbapi2", "statistics", "string",
    "subprocess", "tarfile", "tempfile", "textwrap", "threading", "traceback", "types", "typing",
    "unittest.case", "unittest.mock", "urllib.parse", "urllib.request", "uuid", "warnings", "weakref",
    "xml.dom.minidom", "zipfile",
)  # fmt: skip
_CHARACTERS = 700


def stock_texts() -> list[str]:
    """Pieces of about 700 characters, in a fixed order: the language reference, then sources of modules."""
    return [piece for text in _sources() for piece in _pieces(text)]


def _sources() -> Iterator[str]:
    for _, text in sorted(pydoc_data.topics.topics.items()):
        yield text
    for name in _MODULES:
        yield inspect.getsource(importlib.import_module(name))


def _pieces(text: str) -> Iterator[str]:
    lines: list[str] = []
    size = 0
    for line in text.splitlines():
        lines.append(line)
        size += len(line) + 1
        if size >= _CHARACTERS:
            yield "\n".join(lines)
            lines, size = [], 0
