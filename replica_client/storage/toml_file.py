"""Configuration in TOML: a file as a mapping, and errors that name the file, the line and the key."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from replica_client.errors import ConfigError
from replica_client.storage.toml_lines import KeyPath, key_lines, line_of


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
