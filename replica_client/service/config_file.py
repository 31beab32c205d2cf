"""Reading and checking of a configuration file; errors name the file, the line and the key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from replica_client.errors import ConfigError
from replica_client.service.configuration import (
    COMMON_SINK_KEYS,
    DaemonConfig,
    DaemonTable,
    RouteConfig,
    SinkTable,
    SourceTable,
    StoreTable,
)
from replica_client.service.mirrors import patterns
from replica_client.service.source_access import patterns_of
from replica_client.service.table_checker import TableChecker
from replica_client.storage.toml_file import KeyPath
from replica_client.stream.position.losses import loss_kinds
from replica_client.stream.position.stores.ownership import selections_meet
from replica_client.stream.transport.connect_options import is_loopback, listen_address

_TABLES = ("daemon", "store", "source")
# Sinks of these types keep positions and tables by owner, so several can share a destination.
_SHARED = frozenset(("postgres", "mysql", "sqlite", "duckdb", "redis"))
_TARGET_KEYS = (
    *("url", "path", "bootstrap_servers", "servers", "name", "stream", "subject", "topic_prefix"),
    *("schema_prefix", "database_prefix", "state_database", "position_topic"),
)
_REGULAR = re.compile(r"^\^|\\[.wds]|\.\.\*|\.\+|\([^)]*\|[^)]*\)|\[[^\]]*-[^\]]*\]")
_REMOVED = dict.fromkeys(
    ("shared_connection", "spool_bytes"),
    "this key was removed: each sink has its own connection; delete the line (many sinks: use the relay)",
)


def read_config(
    path: str | os.PathLike[str], environment: Mapping[str, str] | None = None
) -> DaemonConfig:
    """Read a configuration file, apply the environment's overrides, and check every key.

    References (``${NAME}``, ``file:``) stay as they are; see
    :func:`~replica_client.service.external_values.resolved`.

    Args:
        path: the file.
        environment: variables to use instead of the process's.

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
        self._check_control(daemon)
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
            self.table(("source", at), one, SourceTable, "service") for at, one in enumerate(found)
        )
        if not sources:
            raise self.wrong((), "there is no [[source]]: nothing to follow")
        self.distinct([("source", at) for at in range(len(sources))], [one.name for one in sources])
        routes = [
            route
            for at, source in enumerate(sources)
            for route in self._routes(("source", at), source)
        ]
        self._check_targets(sources, routes)
        return DaemonConfig(self.file.path, daemon, store, sources, tuple(routes), self.file.where)

    def _check_control(self, daemon: DaemonTable) -> None:
        """Refuse a token that would cross a network in clear, and half a certificate."""
        path = ("daemon",)
        for one, other in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
            if getattr(daemon, one) and not getattr(daemon, other):
                raise self.wrong((*path, one), f"{other} is missing")
        if not daemon.control_token:
            return
        if not daemon.listen:
            raise self.wrong((*path, "control_token"), "listen is empty: nothing takes the token")
        host, _ = listen_address(daemon.listen)
        if not daemon.tls_certificate and not is_loopback(host):
            raise self.wrong(
                (*path, "control_token"),
                f"the token would cross the network in clear: set tls_certificate and tls_key, or listen on "
                f"127.0.0.1 instead of {host}",
            )

    def _check_targets(self, sources: tuple[SourceTable, ...], routes: list[RouteConfig]) -> None:
        """Refuse two sinks with the same destination that cannot share it."""
        seen: dict[tuple[str, ...], list[RouteConfig]] = {}
        for route in routes:
            target = (route.sink.type, *(str(route.options.get(key, "")) for key in _TARGET_KEYS))
            if not any(target[1:]) or route.sink.type == "http":
                continue
            for other in seen.setdefault(target, []):
                where = ("source", sources.index(route.source), "sink", route.index)
                if route.sink.type not in _SHARED:
                    raise self.wrong(
                        where, f"writes to the same place as {other.name}; give each its own"
                    )
                if selections_meet(*patterns_of(route), *patterns_of(other)):
                    raise self.wrong(
                        where,
                        f"writes to the same place as {other.name}, and a table can be of both; let their tables and "
                        "exclude not meet, or give each its own place",
                    )
            seen[target].append(route)

    def _check_patterns(self, path: KeyPath, table: Mapping[str, Any]) -> None:
        """Refuse regular expressions, and patterns that match nothing."""
        for key, names in ((key, table[key]) for key in ("tables", "exclude")):
            where = (*path, key)
            if names is not None and not patterns(names) and key == "tables":
                raise self.wrong(
                    where, "the list is empty: it selects no table; leave it out for all"
                )
            for pattern in patterns(names):
                if _REGULAR.search(pattern):
                    raise self.wrong(
                        where,
                        f"{pattern!r} is a regular expression; write a pattern with * and ?, such as shop.*",
                    )
                if "." not in pattern or not all(pattern.split(".", 1)):
                    raise self.wrong(
                        where, f"{pattern!r} names no table; write DATABASE.TABLE, such as shop.*"
                    )
        for pattern in patterns(table["tables"]):
            for one in patterns(table["exclude"]):
                if not selections_meet((pattern,), (one,), (pattern,), ()):
                    raise self.wrong(
                        (*path, "tables"),
                        f"{pattern!r} matches nothing: {one!r} of exclude leaves all of it out",
                    )

    def _check_store(self, store: StoreTable) -> None:
        if store.type == "mysql" and not store.url:
            raise self.wrong(("store", "url"), "missing; give mysql://user@host/database")
        unused = ("url", "password") if store.type != "mysql" else ("path",)
        for key in unused:
            if getattr(store, key):
                raise self.wrong(("store", key), f"a store of type {store.type} has none")

    def _routes(self, path: KeyPath, source: SourceTable) -> list[RouteConfig]:
        self._check_patterns(path, source.options)
        if not isinstance(source.options["start"], str):
            raise self.wrong((*path, "start"), "give text in quotes")
        try:
            recorded = loss_kinds(source.options["record_losses"] or ())
        except ConfigError as error:
            raise self.wrong((*path, "record_losses"), str(error).partition(": ")[2]) from None
        if not source.sinks:
            raise self.wrong(path, f"source {source.name!r} has no [[source.sink]]")
        routes = []
        for index, table in enumerate(source.sinks):
            where = (*path, "sink", index)
            common = {key: value for key, value in table.items() if key in COMMON_SINK_KEYS}
            common.setdefault("name", common.get("type"))
            sink = self.table(where, common, SinkTable)
            self.size((*where, "batch_bytes"), sink.batch_bytes)
            self._check_patterns(where, structs.asdict(sink))
            options = {key: value for key, value in table.items() if key not in COMMON_SINK_KEYS}
            routes.append(RouteConfig(source, sink, options, index))
        self.distinct(
            [(*path, "sink", index) for index in range(len(routes))],
            [route.sink.name for route in routes],
        )
        if all(route.sink.snapshot for route in routes):
            # Each sink copies a table again whose rows it lost: such a table stops no other.
            source.options["record_losses"] = sorted({*recorded, "unknown_table"})
        return routes
