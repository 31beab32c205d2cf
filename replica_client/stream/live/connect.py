"""Opening of a live source by its URL and options."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from replica_client.errors import ConfigError
from replica_client.options import checked_arguments, fields_of, only_tables
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaHistory
from replica_client.stream.live.source_stream import SourceStream
from replica_client.stream.live.stream_options import ReconnectPolicy, StreamOptions
from replica_client.stream.position.stores.base import SAVE_INTERVAL, PositionStore
from replica_client.stream.position.stores.object import position_file
from replica_client.stream.transactions.arguments import assembly_of, decode_of, parse_start
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transforms.transformer import Transformer
from replica_client.stream.transport.connect_options import (
    ConnectOptions,
    TlsOptions,
    parse_hosts,
    with_options,
)
from replica_client.stream.transport.connection import DEFAULT_HEARTBEAT_PERIOD


@checked_arguments(
    options=(DecodeOptions, "rc.DecodeOptions(…)"),
    assembly=(AssemblyOptions, "rc.AssemblyOptions(…)"),
    schema=(SchemaHistory, "a rc.SchemaHistory, as stream.history is"),
    tls=((str, TlsOptions), 'a mode such as "verify-identity", or TlsOptions(…)'),
)
def connect(
    url: str | ConnectOptions | Sequence[str | ConnectOptions],
    *,
    tables: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    start: Position | GtidSet | MariadbGtidSet | str | datetime.datetime | None = None,
    stop_at_end: bool = False,
    server_id: int | None = None,
    heartbeat_period: float = DEFAULT_HEARTBEAT_PERIOD,
    read_timeout: float | None = None,
    tls: TlsOptions | str | None = None,
    compression: str | None = None,
    semi_sync: bool = False,
    position_store: PositionStore | str | Path | None = None,
    save_interval: float = SAVE_INTERVAL,
    reconnect: ReconnectPolicy | None = None,
    attempts: int | None = None,
    options: DecodeOptions | None = None,
    assembly: AssemblyOptions | None = None,
    schema: SchemaHistory | None = None,
    full_rows: bool = False,
    record_losses: Collection[str] | str = (),
    allow_empty: bool = False,
    on_statement: Literal["error", "deliver"] | None = None,
    on_unknown_table: Literal["error", "positional"] | None = None,
    invalid_text: Literal["strict", "replace", "bytes"] | None = None,
    temporals: Literal["lossless", "python"] | None = None,
    transform: Sequence[Mapping[str, Any]] = (),
) -> SourceStream:
    """Follow a live source; use the result in an ``async with`` block.

    Args:
        url: ``mysql://user:password@host:port/`` or ``mariadb://…``, or the options themselves; several
            hosts (``mysql://user:password@host1,host2:3307/``), or a list, are a source and replicas that
            may take its place.
        tables: patterns ``database.table`` (``*``, ``?``) of the wanted tables; None takes all
            except those of the server's own databases ``mysql`` and ``sys``, which must be named
            (``mysql.*``).
        exclude: patterns of unwanted tables.
        columns: names of the wanted columns, for all tables or by table pattern.
        start: a position, a GTID set, ``"earliest"``, ``"latest"`` (the default) or a time; a
            position in ``position_store`` has precedence.
        stop_at_end: end at the end of the source's binlog instead of waiting.
        server_id: ours, unique among the source's replicas; None: a random one.
        heartbeat_period: seconds of silence after which the source sends a heartbeat.
        read_timeout: seconds without a byte after which the connection is dead; None: three heartbeats.
        tls: a mode (``disabled``, ``preferred``, ``required``, ``verify-ca``, ``verify-identity``) or
            :class:`~replica_client.stream.transport.connect_options.TlsOptions`; None: as the URL says.
        compression: of the protocol, ``zlib`` or ``zstd``.
        semi_sync: ask for semi-synchronous replication.
        position_store: where :meth:`SourceStream.acknowledge` saves positions; a path is a file.
            The start is saved before anything is delivered: a later run continues there.
        save_interval: seconds that an acknowledged position may wait to be saved; positions that
            are acknowledged meanwhile are saved together. 0: save at once, or when the previous
            save ends.
        reconnect: when and how often to reconnect; None: without end, each try logged as a warning.
        attempts: tries before giving up, of the first connection and after each loss; None: as ``reconnect`` says.
        options: how values are decoded.
        assembly: how transactions are put together, instead of ``tables``, ``exclude``, ``columns``,
            ``full_rows`` and ``record_losses``.
        schema: definitions of the tables at the start; None: those saved in ``position_store``,
            else what the source and its binlog prove.
        full_rows: refuse row images that lack wanted columns.
        record_losses: kinds of losses that are counted with the position instead of stopping the
            stream (``statement``, ``undecodable``, ``incomplete_row``, ``gtid_gap``, ``unknown_table``,
            ``xa_prepare``, or ``all``); see :class:`~replica_client.stream.transactions.assembler.AssemblyOptions`.
        allow_empty: accept a pattern of ``tables`` that matches no table. Otherwise it is an error at the
            end of a new run with ``stop_at_end``, and a warning at a start at ``"latest"``.
        on_statement: handling of a row change that was logged as text: ``error`` stops with
            ``DataLossError``, ``deliver`` delivers it as a statement of its transaction; None:
            ``error``.
        on_unknown_table: handling of a table whose column names are not proven: ``error`` stops
            with ``UnknownTableError``, ``positional`` names its columns ``col_1``, ``col_2`` …;
            None: ``error``.
        invalid_text: handling of bytes that are not text of their character set: ``strict`` stops,
            ``replace`` inserts U+FFFD, ``bytes`` returns the bytes; None: ``strict``.
        temporals: ``lossless`` returns :class:`~replica_client.DateTime` and its kin, ``python``
            the types of :mod:`datetime`, which have no zero dates; None: ``lossless``.
        transform: transforms of rows, definitions and statements before delivery: columns hidden,
            rows chosen, tables renamed; each a mapping with the keys of ``[[source.transform]]``.

    Raises:
        ConfigError: an option is wrong.
    """
    return _source_stream(locals())


def _source_stream(given: Mapping[str, Any]) -> SourceStream:
    """Return the stream of the arguments of :func:`connect`."""
    hosts = []
    for host in parse_hosts(given["url"]):
        if host.database and given["tables"] is None and given["assembly"] is None:
            raise ConfigError(
                f"the URL names the database {host.database!r}, and a stream has all of them: "
                + only_tables(f"{host.database}.*")
            )
        hosts.append(with_options(host, given))
    store = given["position_store"]
    if isinstance(store, (str, Path)):
        store = position_file(store)
    options = StreamOptions(
        parse_start(given["start"], "latest"),
        reconnect=_policy(given["reconnect"], given["attempts"]),
        assembly=assembly_of(given),
        decode=decode_of(given),
        transform=_transformer(given["transform"]),
        **fields_of(given, "stream"),
    )
    return SourceStream(hosts, options, store, given["save_interval"])


def _policy(reconnect: ReconnectPolicy | None, attempts: int | None) -> ReconnectPolicy:
    policy = ReconnectPolicy() if reconnect is None else reconnect
    if not isinstance(policy, ReconnectPolicy):
        raise ConfigError(
            f"reconnect={policy!r}: give rc.ReconnectPolicy(…), or attempts=N for N tries"
        )
    if attempts is None:
        return policy
    return replace(policy, attempts=attempts, first_attempts=max(attempts, 1))


def _transformer(transforms: Sequence[Mapping[str, Any]]) -> Transformer | None:
    """Return the transformer for a stream's output; None without transforms.

    Raises:
        ConfigError: a transform is wrong, or only a sink can do it.
    """
    found = Transformer.of(transforms)
    if found is not None and found.has_outbox:
        raise ConfigError("transform: outbox makes messages for sinks; a stream gives rows")
    return found
