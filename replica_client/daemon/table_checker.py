"""Checking of a configuration file's tables; errors name the file, the line and the key."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from replica_client.daemon.configuration import bytes_of
from replica_client.daemon.overrides import override
from replica_client.errors import ConfigError
from replica_client.storage.toml_file import TomlFile, nearest
from replica_client.storage.toml_lines import KeyPath

_Table = TypeVar("_Table", bound=msgspec.Struct)


class TableChecker:
    """A checker of the tables of one file.

    Args:
        file: with the overrides of the environment.
    """

    def __init__(self, file: TomlFile) -> None:
        self.file = file

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], environment: Mapping[str, str] | None = None
    ) -> Self:
        """Read a file and apply the overrides of the environment.

        Args:
            path: the file.
            environment: variables to use instead of the process's.

        Raises:
            ConfigError: the file is not TOML; the message begins with file and line.
            OSError: the file cannot be read.
        """
        file = TomlFile(Path(path).absolute())
        override(file.document, os.environ if environment is None else environment)
        return cls(file)

    def wrong(self, path: KeyPath, what: str) -> ConfigError:
        """Return the error for a key."""
        where = self.file.where(path)
        key = ".".join(str(part) for part in path if isinstance(part, str))
        return ConfigError(f"{where}: {key}: {what}" if key else f"{where}: {what}")

    def size(self, path: KeyPath, value: int | str) -> None:
        """Refuse a value that is no size."""
        try:
            bytes_of(str(path[-1]), value)
        except ConfigError as error:
            raise self.wrong(path, str(error).partition(": ")[2]) from None

    def distinct(self, paths: list[KeyPath], names: list[str]) -> None:
        """Refuse duplicate names."""
        for at, name in enumerate(names):
            if name in names[:at]:
                raise self.wrong(
                    (*paths[at], "name"), f"{name!r} is there twice; give each its own"
                )

    def table(self, path: KeyPath, values: Any, kind: type[_Table]) -> _Table:
        """Convert a table to a struct; refuse unknown keys and wrong types."""
        if not isinstance(values, dict):
            raise self.wrong(path, "this is a table: write it in brackets")
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        self.known(path, values, names)
        try:
            return msgspec.convert(values, kind)
        except msgspec.ValidationError as error:
            text, _, where = str(error).partition(" - at `$.")
            inside = tuple(part for part in where.rstrip("`").split("[")[0].split(".") if part)
            raise self.wrong((*path, *inside), _plain(text)) from None

    def known(self, path: KeyPath, values: Mapping[str, Any], names: Iterable[str]) -> None:
        """Refuse unknown keys."""
        for key in values:
            if key not in names:
                raise self.wrong((*path, key), f"no such key; {nearest(key, names)}")


def _plain(text: str) -> str:
    """Translate a message of msgspec to TOML's terms."""
    text = text.replace("Object missing required field", "missing the key")
    for python, plain in (("`str`", "text"), ("`int`", "a whole number"), ("`float`", "a number")):
        text = text.replace(python, plain)
    return text[:1].lower() + text[1:]
