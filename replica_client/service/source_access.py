"""Access to a source: retries, and watching it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from replica_client.errors import (
    AccessDeniedError,
    BinlogReadError,
    ConfigError,
    PositionFormatError,
    PositionStoreError,
    ReplicaClientError,
    SchemaError,
    ServerError,
    SinkError,
    TlsError,
    TransportError,
)
from replica_client.options import fields_of
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position, split_file_name
from replica_client.protocol.wire.server_errors import TRANSIENT_ERRORS
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.service.configuration import Positive, RouteConfig, Seconds, SourceTable
from replica_client.service.external_values import resolve, resolved
from replica_client.service.mirrors import patterns, without_servers_own
from replica_client.stream.live.source_identity import missing_gtids
from replica_client.stream.live.stream_options import ReconnectPolicy, StreamOptions
from replica_client.stream.tables.net_changes import TableName
from replica_client.stream.transactions.arguments import parse_start, read_schema_file
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transforms.transformer import Transformer
from replica_client.stream.transport.connect_options import (
    ConnectOptions,
    parse_hosts,
    with_options,
)
from replica_client.stream.transport.connection import SourceConnection

# The tables and keys of the relay's configuration file.
#
# Each class is a table of the file; ``EXAMPLE`` in :mod:`replica_client.service.examples` shows all.


Days = Annotated[float, Meta(gt=0)]


class RelayTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[relay]``.

    Attributes:
        directory: directory of the files; one relay at a time may use it.
        listen: address and port for replicas.
        status: address and port of the status page; ``""`` disables it.
        hosts: public host names by which the page may be called. Addresses and private names always work.
        keep_size: maximum bytes of all files together; ``""`` keeps all.
        keep_days: how long a file is kept after its last write; 0: for ever.
        client_days: how long a disconnected client keeps the files that it has not read.
        archive: URL of an object store where finished files are kept and served from, ``""`` for none.
        semi_sync: request acknowledgements from clients that support them.
        connections: maximum connections that are logged in; when it is reached, the account with
            the most loses its newest one.
        user_connections: maximum connections of one account; 0: any number.
        write_timeout: seconds after which a client that reads nothing is disconnected.
        log_level: level of log messages.
        log_format: lines of text, or one JSON object per line.
    """

    directory: str = "relay"
    listen: str = "127.0.0.1:3307"
    status: str = "127.0.0.1:9191"
    hosts: list[str] = field(default_factory=list)
    keep_size: int | str = ""
    keep_days: Seconds = 0.0
    client_days: Days = 7.0
    archive: str = ""
    semi_sync: bool = False
    connections: Positive = 1000
    user_connections: Annotated[int, Meta(ge=0)] = 100
    write_timeout: Annotated[float, Meta(gt=0)] = 60.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"


class TlsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[tls]``: for the relay's own clients.

    Attributes:
        certificate: file of the certificate and its chain (PEM).
        key: file of the private key (PEM); by default it is in ``certificate``.
        required: refuse clients without TLS.
    """

    certificate: str
    key: str = ""
    required: bool = True


class RelaySourceTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[source]``: the server to follow.

    Attributes:
        url: URL of the source, or of several hosts of which one is the source.
        options: the declared options of a relay's ``[source]``, by their names in Python.
    """

    url: str
    options: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "<source of a relay>"  # nothing that may hold a password


class AccountTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[[account]]``: an account that may log in.

    Attributes:
        user: name of the account.
        password: in clear text, or a reference; only its hash is kept in memory.
        hash: stored hash, instead of a password: ``*…`` of mysql_native_password, or the hexadecimal form
            (``SELECT HEX(authentication_string) FROM mysql.user``) of ``$A$005$…`` of caching_sha2_password.
        plugin: authentication plugin of the account.
        admin: whether it may ``PURGE BINARY LOGS``, and see and end the connections of other accounts.
    """

    user: Annotated[str, Meta(min_length=1, max_length=80)]
    password: str = ""
    hash: str = ""
    plugin: Literal["caching_sha2_password", "mysql_native_password"] = "caching_sha2_password"
    admin: bool = False

    def __repr__(self) -> str:
        return f"<account {self.user}>"  # neither password nor hash


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """A checked configuration file; secrets are not resolved.

    Attributes:
        file: its path.
        relay: its table.
        source: its table.
        accounts: its tables.
        tls: its table; None: clients have none.
    """

    file: Path
    relay: RelayTable
    source: RelaySourceTable
    accounts: tuple[AccountTable, ...]
    tls: TlsTable | None

    @property
    def directory(self) -> Path:
        """The directory of the file, to which relative paths refer."""
        return self.file.parent


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
    given = source.options
    if given["password"]:
        given = {**given, "password": resolve("password", given["password"], directory, os.environ)}
    return [with_options(host, given) for host in hosts]


def selection_of(route: RouteConfig, *, mirror: bool) -> Selection:
    """Return the tables and columns that a route wants.

    Args:
        route: the route.
        mirror: whether its sink holds tables, which leaves out system databases.

    Raises:
        ConfigError: a pattern is wrong.
    """
    source, sink = route.source, route.sink
    tables = source.options["tables"] if sink.tables is None else sink.tables
    exclude = source.options["exclude"] if sink.exclude is None else sink.exclude
    return Selection(
        tables,
        without_servers_own(tables, exclude) if mirror else exclude,
        source.options["columns"] if sink.columns is None else sink.columns,
    )


def transformer_of(source: SourceTable, directory: Path) -> Transformer | None:
    """Return the transformer of everything that a source delivers; None without transforms.

    Raises:
        ConfigError: a transform is wrong, or a reference leads nowhere.
    """
    return Transformer.of([resolved(one, directory) for one in source.options["transform"] or ()])


def patterns_of(route: RouteConfig) -> tuple[list[str] | None, list[str]]:
    """Return the patterns of wanted tables, None for all, and of unwanted ones."""
    source, sink = route.source, route.sink
    tables = source.options["tables"] if sink.tables is None else sink.tables
    exclude = source.options["exclude"] if sink.exclude is None else sink.exclude
    return (None if tables is None else patterns(tables)), patterns(exclude)


def address_of(source: SourceTable, directory: Path) -> str:
    """Return the hosts of a source, without user and password.

    Raises:
        ConfigError: the URL is malformed, or a reference leads nowhere.
    """
    return ",".join(host.address for host in _hosts(source, directory))


def schema_of(source: SourceTable, directory: Path) -> SchemaHistory | None:
    """Return what tables looked like where the first run begins; None if no file says.

    Raises:
        ConfigError: the file is none of ours, or cannot be read.
    """
    if not source.schema_file:
        return None
    path = directory / Path(source.schema_file).expanduser()
    try:
        return read_schema_file(path)
    except (SchemaError, OSError) as error:
        raise ConfigError(
            f"schema_file: {path}: {getattr(error, 'strerror', None) or error}"
        ) from None


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
    stream, server_id = fields_of(source.options, "stream"), source.options["server_id"]
    if server_id is not None and server_id + route.index >= 1 << 32:
        raise ConfigError(f"server_id: {server_id} is too large for the sink {route.name}")
    selection, table = selection_of(route, mirror=mirror), signal_table(source)
    if signals and table is not None:
        selection = selection.including(*table)
    return StreamOptions(
        start=parse_start(source.options["start"], "latest"),
        reconnect=_RECONNECT,
        assembly=AssemblyOptions(selection, **fields_of(source.options, "assembly")),
        transform=transform,
        decode=DecodeOptions(**fields_of(source.options, "decode")),
        **stream | {"server_id": None if server_id is None else server_id + route.index},
    )


_LOG = logging.getLogger("replica_client.service")


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The result of a look at a source.

    Attributes:
        file: current binlog file.
        offset: its size.
        gtids: executed GTIDs as text, empty without.
        sizes: bytes of each file, oldest first.
        clock_offset: the source's seconds since 1970 minus our monotonic clock.
        version: of the server.
        looked_at: seconds since 1970 when the look began, by this machine's clock.
        began: monotonic seconds at that moment.
    """

    file: str
    offset: int
    gtids: str
    sizes: dict[str, int]
    clock_offset: float
    version: str
    looked_at: float
    began: float

    def is_ahead_of(self, position: Position) -> bool:
        """Return whether the source had transactions after a position, as far as known."""
        if not self.bytes_behind(position):
            return False
        ours = position.gtid_set
        if ours is None or not self.gtids:
            return True
        # Events without a GTID are no changes, and another host of the source has other files.
        return bool(missing_gtids(type(ours).parse(self.gtids), ours))

    def bytes_behind(self, position: Position | None) -> int | None:
        """Return the bytes of binlog after a position; None if unknown.

        0 for a position in a file that is newer than this look.
        """
        if position is None:
            return None
        if position.file not in self.sizes:
            (base, number), (last_base, last) = map(split_file_name, (position.file, self.file))
            return 0 if base == last_base and number > last else None
        names = list(self.sizes)
        later = names[names.index(position.file) + 1 :]
        if position.file == self.file:
            return max(0, self.offset - position.offset)
        between = sum(self.sizes[name] for name in later if name != self.file)
        rest = max(0, self.sizes[position.file] - position.offset)
        return rest + between + self.offset


class SourceWatch:
    """A watch that asks a source periodically, on one connection.

    Args:
        name: of the source, for messages.
        hosts: how to connect; called at each connect.
        period: seconds between two looks.

    Attributes:
        end: the last answer.
        error: why there is none, empty when there is.
    """

    def __init__(self, name: str, hosts: Callable[[], list[ConnectOptions]], period: float) -> None:
        self.name = name
        self.period = period
        self.end: SourceEnd | None = None
        self.error = ""
        self._hosts = hosts
        self._connection: SourceConnection | None = None

    async def run(self) -> None:
        """Look periodically until cancelled."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(self.period)
        finally:
            await self._close()

    async def look(self) -> None:
        """Look once; on an error keep its text and drop the last answer."""
        try:
            self.end = await self._ask()
            self.error = ""
        except ReplicaClientError as error:
            text = " ".join(str(error).split())
            if text != self.error:
                _LOG.debug("%s: cannot look where its binlog ends: %s", self.name, text)
            self.error, self.end = text, None
            await self._close()

    async def _ask(self) -> SourceEnd:
        if self._connection is None:
            hosts = await asyncio.to_thread(self._hosts)
            for host in hosts:
                try:
                    self._connection = await SourceConnection.open(host)
                    break
                except ReplicaClientError:
                    if host is hosts[-1]:
                        raise
        connection = self._connection
        assert connection is not None
        looked_at, began = time.time(), time.monotonic()
        rows = await connection.query("SELECT UNIX_TIMESTAMP(NOW(6))", columns=1, rows=1)
        offset = float(rows[0][0]) - time.monotonic()
        status = await connection.binlog_status()
        sizes: dict[str, int] = {}
        with contextlib.suppress(AccessDeniedError):
            sizes = dict(await connection.binary_logs())
        sizes[status.file] = status.position
        return SourceEnd(
            status.file,
            status.position,
            status.executed_gtid_set,
            sizes,
            offset,
            connection.server.version_text,
            looked_at,
            began,
        )

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def is_passing(error: Exception) -> bool:
    """Return whether an error is expected to pass without an operator."""
    if isinstance(error, SinkError):
        return error.retriable
    if isinstance(error, ServerError) and not isinstance(error, BinlogReadError):
        return error.errno in TRANSIENT_ERRORS
    if isinstance(error, PositionStoreError):
        return not isinstance(error.__cause__, PositionFormatError)
    return isinstance(error, TransportError | OSError) and not isinstance(error, TlsError)
