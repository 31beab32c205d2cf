"""``run --check``: a check of a configuration before it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from replica_client.errors import ConfigError, ReplicaClientError, SinkError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaHistory
from replica_client.service.configuration import DaemonConfig, RouteConfig, SourceTable
from replica_client.service.external_values import otlp_endpoint, resolved
from replica_client.service.mirrors import check_mirror, check_target, is_mirror
from replica_client.service.pages import control_token, tls_of
from replica_client.service.route_memory import RouteMemory
from replica_client.service.source_access import (
    hosts_of,
    schema_of,
    selection_of,
    stream_options,
    transformer_of,
)
from replica_client.service.stores import store_options
from replica_client.sinks.protocol import ProbedSink, ReadSink
from replica_client.sinks.registry import make_sink
from replica_client.sinks.writing import check_writable
from replica_client.storage.location import location
from replica_client.storage.toml_file import KeyPath
from replica_client.stream.live.live_schema import list_columns, list_tables
from replica_client.stream.position.stores.ownership import OwnedSink
from replica_client.stream.transport.connect_options import listen_address
from replica_client.stream.transport.connection import SourceConnection

_SECONDS = 30
_DIRECTORIES: Final = ("file", "parquet")
_FILES: Final = ("sqlite", "duckdb")
_SHARED: Final = ("postgres", "mysql", "sqlite", "duckdb", "redis")
"""Sink types whose destination several services can share, each with its own tables."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the configuration: its place, and what is wrong."""

    where: str
    what: str


def _fault(config: DaemonConfig, about: str | SourceTable | RouteConfig, what: str) -> Fault:
    """Return a fault of a table: ``daemon``, ``store``, a source or a sink, with the line of the key that it names."""
    if isinstance(about, RouteConfig):
        at = config.sources.index(about.source)
        path: KeyPath = ("source", at, "sink", about.index)
        if what.startswith("start"):  # the source's
            path = ("source", at)
        name = f"sink {about.name}"
    elif isinstance(about, SourceTable):
        path, name = ("source", config.sources.index(about)), f"source {about.name}"
    else:
        path, name = (about,), about
    return Fault(f"{config.located(path, what)}: {name}", what)


def check(config: DaemonConfig) -> list[Fault]:
    """Return the faults found without a connection: references, options, patterns, packages."""
    return list(_offline(config))


def _offline(config: DaemonConfig) -> Iterator[Fault]:
    if config.daemon.listen:
        try:
            listen_address(config.daemon.listen)
        except ReplicaClientError as error:
            yield _fault(config, "daemon", str(error))
    try:
        if config.daemon.control_token:
            control_token(config)
        tls_of(config)
    except ReplicaClientError as error:
        yield _fault(config, "daemon", str(error))
    if config.daemon.otlp:
        try:
            otlp_endpoint(config)
        except ReplicaClientError as error:
            yield _fault(config, "daemon", str(error))
    if config.store.type == "mysql":
        try:
            store_options(config.store, config.directory)
        except ReplicaClientError as error:
            yield _fault(config, "store", str(error))
    for source in config.sources:
        try:
            hosts_of(source, config.directory)
            transformer_of(source, config.directory)
            schema_of(source, config.directory)
        except ReplicaClientError as error:
            yield _fault(config, source, str(error))
    yield from _unwritable(config, "daemon", {"state": config.state})
    if config.store.path and config.store.type != "mysql":
        found = location(config.store.path)
        if isinstance(found, Path):
            where = config.directory / found.expanduser()
            path = where.parent if config.store.type == "sqlite" else where
            yield from _unwritable(config, "store", {"path": path})
    for route in config.routes:
        try:
            given = resolved(route.options, config.directory)
            sink = make_sink(route.sink.type, given)
            options = stream_options(route, mirror=is_mirror(sink))
            check_mirror(route, sink)
        except (ReplicaClientError, OSError) as error:
            yield _fault(config, route, str(error))
            continue
        yield from _unwritable(config, route, _files_of(config, route, given))
        if isinstance(options.start, datetime) and options.start > datetime.now(UTC):
            yield _fault(
                config,
                route.source,
                f'start: {options.start} is in the future; give a time of the past, or "latest"',
            )


def _files_of(
    config: DaemonConfig, route: RouteConfig, given: Mapping[str, object]
) -> dict[str, Path]:
    """Return the directories that a sink writes to, by their configuration key."""
    found = {}
    path = given.get("path")
    if route.sink.type in _DIRECTORIES + _FILES and isinstance(path, str):
        where = config.directory / Path(path).expanduser()
        found["path"] = where.parent if route.sink.type in _FILES else where
    if route.sink.dead_letters:
        letters = config.directory / Path(route.sink.dead_letters).expanduser()
        found["dead_letters"] = letters.parent
    return found


def _unwritable(
    config: DaemonConfig, about: str | RouteConfig, directories: Mapping[str, Path]
) -> Iterator[Fault]:
    for key, directory in directories.items():
        try:
            check_writable(directory)
        except SinkError as error:
            yield _fault(config, about, f"{key}: {error}")


async def _probe(config: DaemonConfig, route: RouteConfig) -> list[Fault]:
    """Return the faults of a sink that cannot be used now; skip sinks that have no check."""
    sink = make_sink(route.sink.type, resolved(route.options, config.directory))
    try:
        if isinstance(sink, ProbedSink):
            async with asyncio.timeout(_SECONDS):
                await sink.probe()
                await check_target(sink, hosts_of(route.source, config.directory))
        if isinstance(sink, OwnedSink) and isinstance(sink, ReadSink):
            claim = RouteMemory(config, route, read_only=True).claim()
            sink.claim(claim)
            async with asyncio.timeout(_SECONDS):
                owners = await sink.owners()
            mine = claim.resolve(owners)
            return [
                _fault(config, route, str(claim.foreign("what it is to write", other)))
                for other in owners
                if other.id not in (mine.id, claim.takes_over)
                and (mine.meets(other) or route.sink.type not in _SHARED)
            ]
    except (ReplicaClientError, OSError) as error:
        text = str(error) or f"no answer within {_SECONDS} s"
        return [_fault(config, route, text)]
    finally:
        await sink.close()
    return []


async def _check_start(config: DaemonConfig, route: RouteConfig) -> list[Fault]:
    """Return a fault if the source does not have the configured start position."""
    sink = make_sink(route.sink.type, resolved(route.options, config.directory))
    start = stream_options(route, mirror=is_mirror(sink)).start
    await sink.close()
    if not isinstance(start, Position) or not start.file:
        return []
    try:
        async with asyncio.timeout(_SECONDS):
            async with await SourceConnection.open(
                hosts_of(route.source, config.directory)[0]
            ) as one:
                sizes = dict(await one.binary_logs())
    except (ReplicaClientError, TimeoutError):
        return []  # the source's own check says so
    if start.file not in sizes:
        first, last = next(iter(sizes), ""), next(reversed(sizes), "")
        return [
            _fault(
                config,
                route.source,
                f"start: the source has no {start.file}; it has {first} to {last}",
            )
        ]
    if start.offset > sizes[start.file]:
        size = sizes[start.file]
        return [
            _fault(
                config,
                route.source,
                f"start: {start.file} of the source ends at {size}, before {start}",
            )
        ]
    return []


async def _check_tables(config: DaemonConfig, route: RouteConfig) -> list[Fault]:
    """Return faults of patterns and conditions that fit no table which the source lists."""
    sink = make_sink(route.sink.type, resolved(route.options, config.directory))
    selection = selection_of(route, mirror=is_mirror(sink))
    await sink.close()
    host = hosts_of(route.source, config.directory)[0]
    try:
        async with asyncio.timeout(_SECONDS):
            async with await SourceConnection.open(host) as connection:
                names = await list_tables(connection)
                casefolds = connection.server.casefolds_names
    except (ReplicaClientError, TimeoutError):
        return []  # the source's own check says so; a relay has no tables
    try:
        known = SchemaHistory(lower_case_names=casefolds)
        selection.check_matched(known, names, found="is on the source")
    except ConfigError as error:
        return [_fault(config, route, f"tables: {error}")]
    return []


async def _check_conditions(config: DaemonConfig, source: SourceTable) -> list[Fault]:
    """Return a fault if a transform's condition has a column that none of its tables has."""
    transformer = transformer_of(source, config.directory)
    if transformer is None or not transformer.has_conditions:
        return []
    try:
        async with asyncio.timeout(_SECONDS):
            async with await SourceConnection.open(
                hosts_of(source, config.directory)[0]
            ) as connection:
                columns = await list_columns(connection)
    except (ReplicaClientError, TimeoutError):
        return []  # the source's own check says so; a relay has no tables
    try:
        transformer.check_conditions(columns)
    except ConfigError as error:
        return [_fault(config, source, str(error))]
    return []


async def check_connected(config: DaemonConfig) -> list[Fault]:
    """Return the faults found by connecting to sources, sinks and the store."""
    # Imported only for the check, to keep the start of the service quick.
    from replica_client.service.doctor.source_facts import Severity
    from replica_client.service.doctor.standing import diagnose

    faults = []
    for source in config.sources:
        for host in hosts_of(source, config.directory):
            try:
                findings = await diagnose(host, server_id=source.options["server_id"])
            except ReplicaClientError as error:
                faults.append(_fault(config, source, str(error)))
                continue
            faults += [
                _fault(config, source, f"{finding.text}; {finding.remedy}")
                for finding in findings
                if finding.severity is Severity.PROBLEM
            ]
        faults += await _check_conditions(config, source)
    for route in config.routes:
        faults += await _check_start(config, route)
        faults += await _check_tables(config, route)
        faults += await _probe(config, route)
    if config.store.type == "mysql":
        try:
            async with asyncio.timeout(_SECONDS):
                options = store_options(config.store, config.directory)
                async with await SourceConnection.open(options):
                    pass
        except (ReplicaClientError, TimeoutError) as error:
            faults.append(_fault(config, "store", str(error) or f"no answer within {_SECONDS} s"))
    return faults
