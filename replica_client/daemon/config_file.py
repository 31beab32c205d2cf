"""Reads and checks a configuration file; errors name the file, the line and the key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from replica_client.daemon.configuration import (
    COMMON_SINK_KEYS,
    DaemonConfig,
    DaemonTable,
    RouteConfig,
    SinkTable,
    SourceTable,
    StoreTable,
)
from replica_client.daemon.table_checker import TableChecker
from replica_client.storage.toml_lines import KeyPath

_TABLES = ("daemon", "store", "source")
_REMOVED = dict.fromkeys(
    ("shared_connection", "spool_bytes"),
    "this key was removed: each sink has its own connection; delete the line (many sinks: use the relay)",
)


def read_config(
    path: str | os.PathLike[str], environment: Mapping[str, str] | None = None
) -> DaemonConfig:
    """Read a configuration file, apply the environment's overrides, and check every key.

    References (``${NAME}``, ``file:``) stay as they are; see
    :func:`~replica_client.daemon.external_values.resolved`.

    Args:
        path: the file.
        environment: instead of the process's.

    Raises:
        ConfigError: it is wrong; the message begins with file and line.
        OSError: it cannot be read.
    """
    checker = _Checker.read(path, environment)
    return checker.config(checker.file.document)


class _Checker(TableChecker):
    def config(self, document: dict[str, Any]) -> DaemonConfig:
        self.known((), document, _TABLES)
        daemon = self.table(("daemon",), document.get("daemon", {}), DaemonTable)
        store = self.table(("store",), document.get("store", {}), StoreTable)
        self._check_store(store)
        found = document.get("source", [])
        if not isinstance(found, list):
            raise self.wrong(("source",), "write [[source]], in double brackets")
        for at, one in enumerate(found):
            for key in one if isinstance(one, dict) else ():
                if key in _REMOVED:
                    raise self.wrong(("source", at, key), _REMOVED[key])
        sources = tuple(
            self.table(("source", at), one, SourceTable) for at, one in enumerate(found)
        )
        if not sources:
            raise self.wrong((), "there is no [[source]]: nothing to follow")
        self.distinct([("source", at) for at in range(len(sources))], [one.name for one in sources])
        routes = [
            route
            for at, source in enumerate(sources)
            for route in self._routes(("source", at), source)
        ]
        return DaemonConfig(self.file.path, daemon, store, sources, tuple(routes))

    def _check_store(self, store: StoreTable) -> None:
        if store.type == "mysql" and not store.url:
            raise self.wrong(("store", "url"), "missing; give mysql://user@host/database")
        unused = ("url", "password") if store.type != "mysql" else ("path",)
        for key in unused:
            if getattr(store, key):
                raise self.wrong(("store", key), f"a store of type {store.type} has none")

    def _routes(self, path: KeyPath, source: SourceTable) -> list[RouteConfig]:
        self.size((*path, "part_size"), source.part_size)
        if not source.sinks:
            raise self.wrong(path, f"source {source.name!r} has no [[source.sink]]")
        routes = []
        for index, table in enumerate(source.sinks):
            where = (*path, "sink", index)
            common = {key: value for key, value in table.items() if key in COMMON_SINK_KEYS}
            common.setdefault("name", common.get("type"))
            sink = self.table(where, common, SinkTable)
            self.size((*where, "batch_bytes"), sink.batch_bytes)
            options = {key: value for key, value in table.items() if key not in COMMON_SINK_KEYS}
            routes.append(RouteConfig(source, sink, options, index))
        self.distinct(
            [(*path, "sink", index) for index in range(len(routes))],
            [route.sink.name for route in routes],
        )
        return routes
