"""A connection to a source: SQL first, then a dump."""

# Over 500 lines: this is the one class that speaks SQL with a source.

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import uuid
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from aiomysql.cursors import Cursor, SSCursor
from pymysql.err import Error as DriverError

from replica_client.errors import (
    AccessDeniedError,
    BinlogDisabledError,
    BinlogPurgedError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    GtidFormatError,
    MalformedPacketError,
    ReplicaClientError,
    ServerError,
    TlsError,
    TransportTimeoutError,
    UnexpectedPacketError,
    UnknownHostError,
)
from replica_client.protocol.constants.client_server import ErrorCode, ServerFlavor
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet, parse_uuid
from replica_client.protocol.wire.dump_commands import ComRegisterSlave, DumpSession
from replica_client.stream.transport import server_statements
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.dump import (
    DEFAULT_QUEUE_SIZE,
    DumpProtocol,
    DumpRequest,
    DumpStream,
    random_server_id,
)
from replica_client.stream.transport.login import LoginConnection, RowStream
from replica_client.stream.transport.server_statements import (
    RELAY_COMMENT,
    BinlogStatus,
    ServerInfo,
    parse_version,
)

DEFAULT_HEARTBEAT_PERIOD = 10.0
HEARTBEATS_PER_DEADLINE = 3
DEFAULT_NET_WRITE_TIMEOUT = 3600
MAX_ANSWER_SIZE = 64 << 20
"""Bytes of memory, roughly, for an answer that does not list all tables or columns."""
_UNKNOWN_CHARACTER_SET = 1115


class _QuietCursor(Cursor):  # type: ignore[misc]
    """A cursor that ignores warnings: a server's text must not reach Python's warnings."""

    async def _show_warnings(self, conn: object) -> None:
        pass


class _QuietStream(SSCursor):  # type: ignore[misc]
    """A cursor that ignores warnings and fetches rows as they come."""

    async def _show_warnings(self, conn: object) -> None:
        pass


class SourceConnection:
    """A logged-in session on a source.

    Made by :meth:`open`; an asynchronous context manager. :meth:`start_dump` uses the connection
    up: afterwards the connection answers no more SQL.

    Attributes:
        options: the options that it was opened with.
        server: identity of the source.
        columns: names of the columns of the last answer of :meth:`query`.
    """

    def __init__(self, options: ConnectOptions, connection: LoginConnection) -> None:
        self.options = options
        self.server = ServerInfo(ServerFlavor.MYSQL, (0, 0, 0), "")
        self.columns: list[str] = []
        self._connection: LoginConnection | None = connection

    @classmethod
    async def open(cls, options: ConnectOptions) -> Self:
        """Connect, log in, and identify the server.

        Raises:
            ConnectError: no connection, or the login cannot be made.
            TransportTimeoutError: it took longer than ``connect_timeout``.
            TlsError: TLS could not be negotiated.
            AccessDeniedError: wrong user or password.
            ServerError: the server refused for another reason.
            ProtocolError: it does not speak the protocol, or requires what we refuse.
        """
        key = _read_key(options.server_public_key)
        try:
            async with asyncio.timeout(options.connect_timeout):
                options = await _with_password(options)
        except TimeoutError:
            raise TransportTimeoutError(
                f"password_provider gave no password for {options.address} within "
                f"{options.connect_timeout:g} s (option connect_timeout)"
            ) from None
        connection = LoginConnection(options, key)
        self = cls(options, connection)
        try:
            async with asyncio.timeout(options.connect_timeout):
                with _translated(f"login at {options.address}", options):
                    await _log_in(connection, options)
                await self._prepare_session()
                self.server = await self._identify(connection)
        except TimeoutError:
            connection.abort()
            raise TransportTimeoutError(
                f"no login at {options.address} within {options.connect_timeout:g} s "
                "(option connect_timeout)"
            ) from None
        except BaseException:
            connection.abort()
            raise
        return self

    async def _identify(self, connection: LoginConnection) -> ServerInfo:
        greeted = connection.server_version
        sql = "SELECT @@version, @@version_comment, @@server_id, @@lower_case_table_names"
        sql += ", @@character_set_client"
        found: list[tuple[Any, ...]] = []
        if ServerFlavor.of_version(greeted) is ServerFlavor.MYSQL:
            try:
                found = await self.query(f"{sql}, @@server_uuid", columns=6, rows=1)
            except ServerError as error:  # MySQL before 5.6.5; MariaDB behind a proxy
                if error.errno != ErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE:
                    raise
        if not found:
            found = await self.query(sql, columns=5, rows=1)
        text, comment, server_id, letter_case, charset, *server_uuid = found[0]
        if not server_uuid and str(comment).startswith(RELAY_COMMENT):
            # The server id of a MariaDB source identifies its files: a relay keeps its own UUID.
            [server_uuid] = map(list, await self.query("SELECT @@server_uuid", columns=1, rows=1))
        if str(charset) != "utf8mb4":
            await self._talk_utf8()
        return ServerInfo(
            ServerFlavor.of_version(f"{text} {comment} {greeted}"),
            parse_version(str(text)),
            str(text),
            _integer(server_id),
            _uuid(server_uuid[0]) if server_uuid else "",
            connection.server_thread_id[0],
            connection.tls_version,
            connection.auth_plugin,
            None if letter_case is None else _integer(letter_case),
            connection.verified_by,
            connection.fingerprint,
            str(comment),
        )

    async def _prepare_session(self) -> None:
        """Shield the session from the source's global limits and SQL modes.

        Raises:
            ServerError: the source refuses.
        """
        try:
            await self.query(server_statements.reading_session())
        except ServerError as error:
            if error.errno != ErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE:
                raise
            for assignment in server_statements.SESSION:
                if assignment.startswith("/*"):
                    continue
                with suppress_unknown_variable():
                    await self.query(f"SET SESSION {assignment}")

    async def _talk_utf8(self) -> None:
        """Switch the session to UTF-8, the character set in which we write statements.

        Servers may ignore the character set of the login (``character_set_client_handshake``, a
        proxy, ``init_connect``). In another character set a byte of a name could swallow the quote
        that follows.
        """
        try:
            await self.query("SET NAMES utf8mb4")
        except ServerError as error:  # before MySQL 5.5.3
            if error.errno != _UNKNOWN_CHARACTER_SET:
                raise
            await self.query("SET NAMES utf8")

    async def query(
        self,
        sql: str,
        args: Sequence[Any] = (),
        *,
        columns: int = 0,
        rows: int = 0,
        lists_all: bool = False,
    ) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows; ``%s`` stands for an argument.

        Args:
            sql: the statement.
            args: its arguments.
            columns: how many each row must have at least.
            rows: how many rows there must be at least.
            lists_all: whether the answer is a list of all tables or columns, which may be long.

        Raises:
            ServerError: the server refused the statement.
            TransportError: the connection failed, or ``read_timeout`` passed.
            ProtocolError: the answer is not one, or is too long.
        """
        connection = self._live()
        allowed = self.options.max_answer_size
        connection.begin_answer(allowed if lists_all else min(allowed, MAX_ANSWER_SIZE))
        try:
            async with asyncio.timeout(self.options.read_timeout):
                with _translated(
                    f"{sql.split(maxsplit=1)[0]} at {self.options.address}", self.options
                ):
                    cursor = await connection.cursor(_QuietCursor)
                    await cursor.execute(sql, tuple(args) or None)
                    found = [tuple(row) for row in (cursor._rows or ())]
                    self.columns = [str(one[0]) for one in cursor.description or ()]
                    await cursor.close()
        except TimeoutError:
            connection.close()
            raise TransportTimeoutError(
                f"no answer from {self.options.address} within {self.options.read_timeout:g} s "
                "(option read_timeout)"
            ) from None
        if len(found) < rows or any(len(row) < columns for row in found):
            raise MalformedPacketError(
                f"{self.options.address} answered with fewer rows or columns than asked for: {sql[:80]}"
            )
        return found

    def gtids(self, text: object) -> GtidSet | MariadbGtidSet:
        """Parse GTIDs that the source reported into a set of its flavor.

        Raises:
            MalformedPacketError: the text is no GTID set.
        """
        try:
            plain = str(text or "").replace("\n", "")
            return (MariadbGtidSet if self.server.is_mariadb else GtidSet).parse(plain)
        except GtidFormatError as error:
            raise MalformedPacketError(f"GTIDs at {self.options.address}: {error}") from None

    async def stream(
        self, sql: str, args: Sequence[Any] = (), *, size: int = 1000
    ) -> AsyncIterator[list[tuple[Any, ...]]]:
        """Run a statement and yield its rows as they come, in lists of at most ``size``.

        The connection answers nothing else until the last row was taken. An iterator that is
        abandoned before that ends the connection.

        Raises:
            ServerError: the server refused the statement.
            TransportError: the connection failed, or ``read_timeout`` passed without rows.
            ProtocolError: the answer is not one.
        """
        async with self.row_stream(sql, args) as rows:
            async for payloads in rows.payloads():
                for at in range(0, len(payloads), size):
                    with _translated(f"a row at {self.options.address}", self.options):
                        found = rows.decoded(payloads[at : at + size])
                    yield found

    @asynccontextmanager
    async def row_stream(self, sql: str, args: Sequence[Any] = ()) -> AsyncIterator[RowStream]:
        """Run a statement and open its rows as a stream, like :meth:`stream` without decoding."""
        connection = self._live()
        connection.begin_answer(None)
        what = f"{sql.split(maxsplit=1)[0]} at {self.options.address}"
        ended = False
        try:
            cursor = await self._in_time(what, connection.cursor(_QuietStream))
            try:
                await self._in_time(what, cursor.execute(sql, tuple(args) or None))
            except ServerError:
                ended = True  # there are no rows left to read
                raise
            rows = RowStream(connection, lambda work: self._in_time(what, work))
            yield rows
            ended = rows.ended
        finally:
            if not ended:
                connection.close()

    async def _in_time(self, what: str, work: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(self.options.read_timeout):
                with _translated(what, self.options):
                    return await work
        except TimeoutError:
            raise TransportTimeoutError(
                f"no answer from {self.options.address} within {self.options.read_timeout:g} s "
                "(option read_timeout)"
            ) from None

    async def binlog_status(self) -> BinlogStatus:
        """Return the current end of the source's binlog.

        Raises:
            BinlogDisabledError: it writes none.
            AccessDeniedError: REPLICATION CLIENT (MariaDB: BINLOG MONITOR) is missing.
        """
        rows = await self.query(server_statements.binlog_status(self.server), columns=2)
        if not rows:
            raise _binlog_disabled()
        file, position = str(rows[0][0]), _integer(rows[0][1])
        if self.server.is_mariadb:
            executed = await self._mariadb_gtid_at(file, position)
        else:
            executed = str(rows[0][4] or "").replace("\n", "") if len(rows[0]) > 4 else ""
        filters = [_databases(value) for value in (*rows[0][2:4], "", "")]
        return BinlogStatus(file, position, executed, filters[0], filters[1])

    async def binary_logs(self) -> list[tuple[str, int]]:
        """Return the names and sizes of the source's binlog files, oldest first.

        Raises:
            BinlogDisabledError: it writes none.
            AccessDeniedError: REPLICATION CLIENT (MariaDB: BINLOG MONITOR) is missing.
        """
        rows = await self.query("SHOW BINARY LOGS", columns=2)
        return [(str(row[0]), _integer(row[1])) for row in rows]

    async def gtid_purged(self) -> str:
        """Return the GTIDs whose transactions are no longer in the source's files, as text.

        MySQL's ``gtid_purged``; on MariaDB the GTID position at the start of the oldest file. Empty
        if there are no GTIDs.
        """
        if server_statements.has_server_uuid(self.server):
            rows = await self.query("SELECT @@global.gtid_purged", columns=1)
            return str(rows[0][0] or "").replace("\n", "") if rows else ""
        if self.server.is_mariadb:
            files = await self.binary_logs()
            return await self._mariadb_gtid_at(files[0][0], 4) if files else ""
        return ""

    async def _mariadb_gtid_at(self, file: str, position: int) -> str:
        rows = await self.query("SELECT BINLOG_GTID_POS(%s, %s)", (file, position), columns=1)
        return str(rows[0][0] or "") if rows else ""

    async def start_dump(
        self,
        request: DumpRequest,
        *,
        server_id: int | None = None,
        replica_uuid: str | None = None,
        heartbeat_period: float = DEFAULT_HEARTBEAT_PERIOD,
        read_timeout: float | None = None,
        semi_sync: bool = False,
        net_write_timeout: int = DEFAULT_NET_WRITE_TIMEOUT,
        report_host: str = "",
        queue_size: int = DEFAULT_QUEUE_SIZE,
    ) -> DumpStream:
        """Register as a replica and start a dump; uses up the connection, also on failure.

        Args:
            request: where the dump starts.
            server_id: ours, unique among the source's replicas; None: a random one. The source ends an
                older dump with the same server id or the same UUID.
            replica_uuid: ours; None: a new one.
            heartbeat_period: seconds without an event after which the source sends a heartbeat.
            read_timeout: seconds without a byte after which the connection counts as dead; None:
                three heartbeats.
            semi_sync: ask for semi-synchronous replication.
            net_write_timeout: seconds that the source waits while we do not read.
            report_host: how ``SHOW REPLICAS`` names us.
            queue_size: bytes of events that may wait for the consumer.

        Raises:
            ServerError: a statement or the registration was refused.
            BinlogPurgedError: the source lacks transactions that we lack too; ``missing`` names
                them.
            ConfigError: the request does not fit the source, or it has no semi-synchronous source.
            EncodeError: the position is beyond what the protocol can ask for.
        """
        try:
            return await self._start_dump(
                request,
                server_id=random_server_id() if server_id is None else server_id,
                replica_uuid=str(uuid.uuid4()) if replica_uuid is None else replica_uuid,
                heartbeat_period=heartbeat_period,
                read_timeout=read_timeout,
                semi_sync=semi_sync,
                net_write_timeout=net_write_timeout,
                report_host=report_host,
                queue_size=queue_size,
            )
        except BaseException:
            await self.close()
            raise

    async def _start_dump(
        self,
        request: DumpRequest,
        *,
        server_id: int,
        replica_uuid: str,
        heartbeat_period: float,
        read_timeout: float | None,
        semi_sync: bool,
        net_write_timeout: int,
        report_host: str,
        queue_size: int,
    ) -> DumpStream:
        if heartbeat_period <= 0:
            raise ConfigError("heartbeat_period must be greater than 0 seconds")
        server = self.server
        request.check(server)
        command = request.command(server, server_id)
        await self._refuse_purged(request)
        if semi_sync:
            await self._require_semi_sync()
        settings = server_statements.SessionSettings(
            heartbeat_period_ns=int(heartbeat_period * 1_000_000_000),
            replica_uuid=replica_uuid,
            net_write_timeout=net_write_timeout,
            semi_sync=semi_sync,
            slave_connect_state=request.slave_connect_state,
        )
        await self.query(server_statements.session_setup(server, settings))
        connection = self._live()
        try:
            async with asyncio.timeout(self.options.read_timeout):
                with _translated(f"registration at {self.options.address}", self.options):
                    await connection.command(ComRegisterSlave(server_id, report_host).encode())
        except AccessDeniedError as error:
            # Servers say "access denied" here as they do for a wrong password.
            raise AccessDeniedError(
                error.errno,
                error.sqlstate,
                error.message,
                f"grant REPLICATION SLAVE on *.* to {self.options.user!r} at {self.options.address}",
            ) from None
        except TimeoutError:
            connection.close()
            raise TransportTimeoutError(
                f"no answer to COM_REGISTER_SLAVE from {self.options.address} within "
                f"{self.options.read_timeout:g} s (option read_timeout)"
            ) from None
        session = DumpSession(
            max_packet_size=self.options.max_packet_size,
            semi_sync=semi_sync,
            compression=connection.compression,
        )
        protocol = DumpProtocol(
            session,
            address=self.options.address,
            non_block=request.non_block,
            read_timeout=read_timeout or HEARTBEATS_PER_DEADLINE * heartbeat_period,
            queue_size=queue_size,
        )
        writer, rest = connection.take_over(protocol)
        self._connection = None
        protocol.start(writer, session.packets(command), rest)
        return DumpStream(protocol, session, server)

    async def _refuse_purged(self, request: DumpRequest) -> None:
        """Raise an error that names the missing GTIDs; the source's own error would say less."""
        if not isinstance(request.gtid_set, GtidSet):
            return
        purged = self.gtids(await self.gtid_purged())
        missing = purged - request.gtid_set if isinstance(purged, GtidSet) else None
        if missing:
            raise BinlogPurgedError(
                ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG,
                "HY000",
                f"the source has purged the transactions {missing} that we do not have",
                "take a new snapshot, or follow another source that still has them",
                missing=str(missing),
            )

    async def _require_semi_sync(self) -> None:
        for name in server_statements.semi_sync_variables(self.server):
            rows = await self.query("SHOW GLOBAL VARIABLES LIKE %s", (name,), columns=2)
            if rows and str(rows[0][1]).upper() in ("ON", "1"):
                return
        raise ConfigError(
            f"semi_sync is asked for, but {self.options.address} is not a semi-synchronous source: switch "
            f"on {' or '.join(server_statements.semi_sync_variables(self.server))} there"
        )

    async def close(self) -> None:
        """End the session; safe to call more than once."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        writer = connection._writer
        try:
            async with asyncio.timeout(1.0):
                await connection.ensure_closed()
                if writer is not None:
                    await writer.wait_closed()
        except (OSError, TimeoutError, DriverError):
            connection.abort()
        except asyncio.CancelledError:
            connection.abort()
            raise

    def abort(self) -> None:
        """End the session at once; a running statement fails."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether statements can be run."""
        return self._connection is not None and not self._connection.closed

    def _live(self) -> LoginConnection:
        if self._connection is None or self._connection.closed:
            raise ConnectionLostError(f"the connection to {self.options.address} is closed")
        return self._connection


def _databases(value: object) -> tuple[str, ...]:
    """Split a comma-separated list of databases from SHOW MASTER STATUS."""
    return tuple(filter(None, (part.strip() for part in str(value or "").split(","))))


def _integer(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise MalformedPacketError(
            f"the server answered {value!r:.40} where a number belongs"
        ) from None


def _uuid(value: object) -> str:
    """Check a server's UUID and return it; empty for a server that has none."""
    text = str(value or "")
    try:
        if text:
            parse_uuid(text)
    except GtidFormatError:
        raise MalformedPacketError(
            f"the server answered {text!r:.60} where its uuid belongs"
        ) from None
    return text


def _binlog_disabled() -> BinlogDisabledError:
    return BinlogDisabledError(
        ErrorCode.ER_NO_BINARY_LOGGING,
        "HY000",
        "the source writes no binlog",
        "start it with --log-bin",
    )


async def _log_in(connection: LoginConnection, options: ConnectOptions) -> None:
    """Log in; on refusal name the plugin and what the account may need besides the password."""
    try:
        await connection.open()
    except TlsError as error:
        raise TlsError(f"{options.address}: {error}") from None
    except AccessDeniedError as error:
        hints = [error.hint]
        if error.errno == ErrorCode.ER_ACCESS_DENIED_ERROR:
            if connection.tls_version and options.tls.cert is None:
                hints.append("it may require a client certificate (tls_cert, tls_key)")
            elif not connection.tls_version and not options.unix_socket:
                hints.append("it may require TLS (tls=required)")
        if connection.auth_plugin:
            hints.append(f"plugin {connection.auth_plugin}")
        raise AccessDeniedError(
            error.errno, error.sqlstate, error.message, "; ".join(hints)
        ) from None


async def _with_password(options: ConnectOptions) -> ConnectOptions:
    if options.password_provider is None:
        return options
    try:
        answer = options.password_provider()
        password = answer if isinstance(answer, str) else await answer
    except (ReplicaClientError, TimeoutError):
        raise
    except Exception as error:
        # A token service may be unavailable for a while: a stream retries.
        raise ConnectError(
            f"password_provider failed for {options.address} with {type(error).__name__}"
        ) from error
    return replace(options, password=password)


def _read_key(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"server_public_key {path}: {error.strerror}") from None


@contextmanager
def suppress_unknown_variable() -> Iterator[None]:
    """Ignore the refusal of a setting that this server does not have."""
    try:
        yield
    except ServerError as error:
        if error.errno != ErrorCode.ER_UNKNOWN_SYSTEM_VARIABLE:
            raise


@contextmanager
def _translated(what: str, options: ConnectOptions) -> Iterator[None]:
    """Translate driver and operating system errors to ours, each in one line with place and cause."""
    try:
        yield
    except AccessDeniedError as error:
        hint = error.hint
        raise AccessDeniedError(
            error.errno, error.sqlstate, error.message, f"{hint} (user {options.user!r}, {what})"
        ) from None
    except (ReplicaClientError, TimeoutError):
        raise
    except DriverError as error:
        cause = error.__cause__
        if isinstance(cause, TimeoutError):
            raise TimeoutError from None
        if isinstance(cause, OSError):
            kind = UnknownHostError if isinstance(cause, socket.gaierror) else ConnectError
            raise kind(_unreachable(cause, options)) from None
        code, text = _driver_text(error)
        raise ConnectionLostError(f"{what}: {text} ({code})") from None
    except ssl.SSLError as error:
        raise ConnectionLostError(f"{what}: TLS failed ({error.reason})") from None
    except OSError as error:
        raise ConnectionLostError(f"{what}: {error.strerror or error}") from None
    except RuntimeError as error:
        if "local_infile" in str(error):
            raise UnexpectedPacketError(
                f"{what}: the server asked for a local file (LOAD DATA LOCAL); refused"
            ) from None
        raise
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
        struct.error,
    ) as error:
        # PyMySQL's packet reader raises these for malformed packets.
        raise MalformedPacketError(
            f"{what}: the server's answer cannot be read ({type(error).__name__})"
        ) from None


def _driver_text(error: DriverError) -> tuple[str, str]:
    arguments = error.args
    if len(arguments) > 1:
        return str(arguments[0]), str(arguments[1])
    return "driver", str(arguments[0]) if arguments else type(error).__name__


def _unreachable(cause: OSError, options: ConnectOptions) -> str:
    # asyncio's own text hides the reason behind the address.
    reason = os.strerror(cause.errno) if cause.errno and cause.errno > 0 else str(cause)
    if isinstance(cause, socket.gaierror):
        reason = "the host name is not known"
    if options.unix_socket:
        return (
            f"no connection to the Unix socket {options.unix_socket}: {reason}; is the server up?"
        )
    return f"no connection to {options.address}: {reason}; is the server up, and are host and port right?"
