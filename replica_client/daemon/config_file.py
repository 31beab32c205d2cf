"""Reads and checks a configuration file; errors name the file, the line and the key."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from replica_client.daemon.configuration import (
    COMMON_SINK_KEYS,
    DaemonConfig,
    DaemonTable,
    RouteConfig,
    SinkTable,
    SourceTable,
    StoreTable,
    bytes_of,
)
from replica_client.daemon.overrides import override
from replica_client.errors import ConfigError
from replica_client.storage.toml_file import TomlFile, nearest
from replica_client.storage.toml_lines import KeyPath

_TABLES = ("daemon", "store", "source")
_Table = TypeVar("_Table", bound=msgspec.Struct)


def read_config(
    path: str | os.PathLike[str], environment: Mapping[str, str] | None = None
) -> DaemonConfig:
    """Read a configuration file, apply the environment's overrides, and check every key.

    References (``${NAME}``, ``file:``) stay as they are; see
    :func:`~replica_client.daemon.references.resolved`.

    Args:
        path: the file.
        environment: instead of the process's.

    Raises:
        ConfigError: it is wrong; the message begins with file and line.
        OSError: it cannot be read.
    """
    file = TomlFile(Path(path).absolute())
    override(file.document, os.environ if environment is None else environment)
    return _Checker(file).config(file.document)


class _Checker:
    def __init__(self, file: TomlFile) -> None:
        self._file = file

    def wrong(self, path: KeyPath, what: str) -> ConfigError:
        place = self._file.where(path)
        key = ".".join(str(part) for part in path if isinstance(part, str))
        return ConfigError(f"{place}: {key}: {what}" if key else f"{place}: {what}")

    def config(self, document: dict[str, Any]) -> DaemonConfig:
        self._known((), document, _TABLES)
        daemon = self._table(("daemon",), document.get("daemon", {}), DaemonTable)
        store = self._table(("store",), document.get("store", {}), StoreTable)
        self._check_store(store)
        found = document.get("source", [])
        if not isinstance(found, list):
            raise self.wrong(("source",), "write [[source]], in double brackets")
        sources = tuple(
            self._table(("source", at), one, SourceTable) for at, one in enumerate(found)
        )
        if not sources:
            raise self.wrong((), "there is no [[source]]: nothing to follow")
        self._distinct(
            [("source", at) for at in range(len(sources))], [one.name for one in sources]
        )
        routes = [
            route
            for at, source in enumerate(sources)
            for route in self._routes(("source", at), source)
        ]
        return DaemonConfig(self._file.path, daemon, store, sources, tuple(routes))

    def _check_store(self, store: StoreTable) -> None:
        if store.type == "mysql" and not store.url:
            raise self.wrong(("store", "url"), "missing; give mysql://user@host/database")
        unused = ("url", "password") if store.type != "mysql" else ("path",)
        for key in unused:
            if getattr(store, key):
                raise self.wrong(("store", key), f"a store of type {store.type} has none")

    def _routes(self, path: KeyPath, source: SourceTable) -> list[RouteConfig]:
        self._size((*path, "part_size"), source.part_size)
        if not source.sinks:
            raise self.wrong(path, f"source {source.name!r} has no [[source.sink]]")
        routes = []
        for index, table in enumerate(source.sinks):
            place = (*path, "sink", index)
            common = {key: value for key, value in table.items() if key in COMMON_SINK_KEYS}
            common.setdefault("name", common.get("type"))
            sink = self._table(place, common, SinkTable)
            self._size((*place, "batch_bytes"), sink.batch_bytes)
            options = {key: value for key, value in table.items() if key not in COMMON_SINK_KEYS}
            routes.append(RouteConfig(source, sink, options, index))
        self._distinct(
            [(*path, "sink", index) for index in range(len(routes))],
            [route.sink.name for route in routes],
        )
        return routes

    def _size(self, path: KeyPath, value: int | str) -> None:
        try:
            bytes_of(str(path[-1]), value)
        except ConfigError as error:
            raise self.wrong(path, str(error).partition(": ")[2]) from None

    def _distinct(self, paths: list[KeyPath], names: list[str]) -> None:
        for at, name in enumerate(names):
            if name in names[:at]:
                raise self.wrong(
                    (*paths[at], "name"), f"{name!r} is there twice; give each its own"
                )

    def _table(self, path: KeyPath, values: Any, kind: type[_Table]) -> _Table:
        if not isinstance(values, dict):
            raise self.wrong(path, "this is a table: write it in brackets")
        names = [field.encode_name for field in msgspec.structs.fields(kind)]
        self._known(path, values, names)
        try:
            return msgspec.convert(values, kind)
        except msgspec.ValidationError as error:
            text, _, place = str(error).partition(" - at `$.")
            inside = tuple(part for part in place.rstrip("`").split("[")[0].split(".") if part)
            raise self.wrong((*path, *inside), _plain(text)) from None

    def _known(self, path: KeyPath, values: Mapping[str, Any], names: Iterable[str]) -> None:
        for key in values:
            if key not in names:
                raise self.wrong((*path, key), f"no such key; {nearest(key, names)}")


def _plain(text: str) -> str:
    """Msgspec's message in words of TOML's users."""
    text = text.replace("Object missing required field", "missing the key")
    for python, plain in (("`str`", "text"), ("`int`", "a whole number"), ("`float`", "a number")):
        text = text.replace(python, plain)
    return text[:1].lower() + text[1:]
