"""Configuration in TOML."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replica_client.errors import ConfigError

KeyPath = tuple[str | int, ...]
"""Names of keys and indexes of arrays: ``("source", 0, "sink", 1, "type")``."""

_NAME = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"
_NAMES = re.compile(_NAME)
_DOTTED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
# What may hide a bracket or the end of a value: strings of all four kinds, and comments.
_TOKEN = re.compile(r'"""|\'\'\'|"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*|[\[\]{}]')


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of each key and table of a valid TOML text, counted from 1.

    Keys inside inline tables are not listed: :func:`line_of` gives the line where the table begins.
    """
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    depth, quote = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if depth or quote:
            depth, quote = _rest(line, 0, depth, quote)
        elif header := _HEADER.match(line):
            table = _table(_parts(header[2]), header[1] == "[[", counts)
            for length in range(1, len(table) + 1):
                lines.setdefault(table[:length], number)
        elif key := _KEY.match(line):
            path = table
            for part in _parts(key[1]):
                path = (*path, part)
                lines.setdefault(path, number)
            depth, quote = _rest(line, key.end(), 0, "")
    return lines


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of a key, or of the nearest table around it."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _NAMES.findall(dotted)]


def _table(parts: list[str], is_array: bool, counts: dict[KeyPath, int]) -> KeyPath:
    path: KeyPath = ()
    for at, part in enumerate(parts):
        path = (*path, part)
        if is_array and at == len(parts) - 1:
            counts[path] = counts.get(path, 0) + 1
        if path in counts:
            path = (*path, counts[path] - 1)
    return path


def _rest(line: str, start: int, depth: int, quote: str) -> tuple[int, str]:
    """Return how a value continues in the next line: its depth in brackets, and its long string's quote."""
    at = start
    while True:
        if quote:
            end = line.find(quote, at)
            if end < 0:
                return depth, quote
            at, quote = end + 3, ""
        token = _TOKEN.search(line, at)
        if token is None:
            return depth, ""
        at = token.end()
        if token[0] in ('"""', "'''"):
            quote = token[0]
        elif token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1


class TomlFile:
    """A configuration file, read as a whole.

    Args:
        path: the file.

    Attributes:
        path: the file.
        document: what it says.

    Raises:
        ConfigError: it is not TOML.
        OSError: it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            text = self.path.read_text(encoding="utf-8")
            self.document: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{self.path}: not TOML: {error}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{self.path}: not TOML: not UTF-8 text") from None
        self._lines = key_lines(text)

    def where(self, key: KeyPath) -> str:
        """Return the file, with the line of a key if the file has the key."""
        line = line_of(self._lines, key)
        return f"{self.path}, line {line}" if line else str(self.path)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint at the known word nearest to a word."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
