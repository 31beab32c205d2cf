"""Connection, selection and stream options of a configured source."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from replica_client.binlog.options import DecodeOptions
from replica_client.daemon.configuration import RouteConfig, SourceTable, bytes_of
from replica_client.daemon.external_values import resolve, resolved
from replica_client.daemon.mirrors import patterns, without_servers_own
from replica_client.daemon.relay_configuration import RelaySourceTable
from replica_client.errors import ConfigError
from replica_client.readers.assembler import AssemblyOptions
from replica_client.readers.live.reconnect import ReconnectPolicy
from replica_client.readers.live.stream_options import StreamOptions
from replica_client.readers.start_position import parse_start
from replica_client.readers.transforms.transformer import Transformer
from replica_client.rows.selection import Selection
from replica_client.tables.table_copy import TableName
from replica_client.transport.connect_options import ConnectOptions, TlsMode
from replica_client.transport.hosts import parse_hosts

_RECONNECT = ReconnectPolicy(first_delay=0.1, max_delay=5.0, attempts=8, first_attempts=1)
"""Retries of one stream; afterwards the route opens a new one."""


def hosts_of(source: SourceTable | RelaySourceTable, directory: Path) -> list[ConnectOptions]:
    """Return the hosts of a source; passwords are resolved again at each login.

    Raises:
        ConfigError: the URL is malformed, or a reference leads nowhere.
    """

    def provider(at: int) -> Callable[[], Awaitable[str]]:
        async def password() -> str:
            # A file on a network file system may be slow.
            return (await asyncio.to_thread(_hosts, source, directory))[at].password

        return password

    hosts = _hosts(source, directory)
    return [replace(host, password_provider=provider(at)) for at, host in enumerate(hosts)]


def _hosts(source: SourceTable | RelaySourceTable, directory: Path) -> list[ConnectOptions]:
    hosts = parse_hosts(resolve("url", source.url, directory, os.environ))
    if source.password:
        password = resolve("password", source.password, directory, os.environ)
        hosts = [replace(host, password=password) for host in hosts]
    if source.tls:
        hosts = [replace(host, tls=replace(host.tls, mode=TlsMode(source.tls))) for host in hosts]
    if source.tls_fingerprint:
        hosts = [
            replace(host, tls=replace(host.tls, fingerprint=source.tls_fingerprint))
            for host in hosts
        ]
    if source.compression:
        hosts = [replace(host, compression=source.compression) for host in hosts]
    return hosts


def selection_of(route: RouteConfig, *, mirror: bool) -> Selection:
    """Return the tables and columns that a route wants.

    Args:
        route: the route.
        mirror: whether its sink holds tables, which leaves out system databases.

    Raises:
        ConfigError: a pattern is wrong.
    """
    source, sink = route.source, route.sink
    tables = source.tables if sink.tables is None else sink.tables
    exclude = source.exclude if sink.exclude is None else sink.exclude
    return Selection(
        tables,
        without_servers_own(tables, exclude) if mirror else exclude,
        source.columns if sink.columns is None else sink.columns,
    )


def transformer_of(source: SourceTable, directory: Path) -> Transformer | None:
    """Return the transformer of everything that a source delivers; None without transforms.

    Raises:
        ConfigError: a transform is wrong, or a reference leads nowhere.
    """
    return Transformer.of([resolved(one, directory) for one in source.transforms])


def patterns_of(route: RouteConfig) -> tuple[list[str] | None, list[str]]:
    """Return the patterns of wanted tables, None for all, and of unwanted ones."""
    source, sink = route.source, route.sink
    tables = source.tables if sink.tables is None else sink.tables
    exclude = source.exclude if sink.exclude is None else sink.exclude
    return (None if tables is None else patterns(tables)), patterns(exclude)


def address_of(source: SourceTable, directory: Path) -> str:
    """Return the hosts of a source, without user and password.

    Raises:
        ConfigError: the URL is malformed, or a reference leads nowhere.
    """
    return ",".join(host.address for host in _hosts(source, directory))


def signal_table(source: SourceTable) -> TableName | None:
    """Return the table whose rows are signals; None if there is none."""
    database, _, table = source.signals.partition(".")
    return (database, table) if table else None


def stream_options(
    route: RouteConfig,
    *,
    mirror: bool,
    transform: Transformer | None = None,
    signals: bool = False,
) -> StreamOptions:
    """Return the options of a route's stream.

    Args:
        route: the route.
        mirror: see :func:`selection_of`.
        transform: see :func:`transformer_of`.
        signals: whether to deliver the table of signals, too.

    Raises:
        ConfigError: a pattern or the start is wrong.
    """
    source = route.source
    if source.server_id is not None and source.server_id + route.index >= 1 << 32:
        raise ConfigError(f"server_id: {source.server_id} is too large for the sink {route.name}")
    selection, table = selection_of(route, mirror=mirror), signal_table(source)
    if signals and table is not None:
        selection = selection.including(*table)
    return StreamOptions(
        start=parse_start(source.start, "latest"),
        server_id=None if source.server_id is None else source.server_id + route.index,
        heartbeat_period=source.heartbeat,
        read_timeout=source.read_timeout or None,
        semi_sync=source.semi_sync,
        reconnect=_RECONNECT,
        assembly=AssemblyOptions(
            selection,
            part_size=bytes_of("part_size", source.part_size),
            on_statement=source.on_statement,
            on_unknown_table=source.on_unknown_table,
            full_rows=source.full_rows,
            record_losses=source.record_losses,
        ),
        transform=transform,
        decode=DecodeOptions(invalid_text=source.invalid_text),
    )
