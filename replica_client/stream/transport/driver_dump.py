"""Dumps on other connections: over PyMySQL's, and a second one to look something up.

The driver connects and logs in, with TLS. From the dump command on, this module reads its socket.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from replica_client.errors import ConfigError, ConnectionLostError, TransportTimeoutError
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.wire.dump_commands import ComRegisterSlave, DumpSession
from replica_client.stream.transport import server_statements
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import DEFAULT_HEARTBEAT_PERIOD, SourceConnection
from replica_client.stream.transport.dump import DumpRequest, DumpStream
from replica_client.stream.transport.server_statements import (
    ServerInfo,
    SessionSettings,
    parse_version,
)

_BUFFER_SIZE = 256 << 10
_LOST = frozenset((2006, 2013))
_NET_WRITE_TIMEOUT = 3600

connect = pymysql.connect
"""Open a connection; takes PyMySQL's arguments."""
OperationalError = pymysql.err.OperationalError


class _QuietCursor(Cursor):  # type: ignore[misc]
    def _show_warnings(self) -> None:
        pass


def query(connection: Any, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Run a statement and return its rows as tuples, whatever the connection's cursor class.

    Raises:
        pymysql.err.Error: the server refused, or the connection failed.
    """
    with _QuietCursor(connection) as cursor:
        cursor.execute(sql, tuple(args) or None)
        return [tuple(row) for row in cursor.fetchall()]


def identify(connection: Any) -> ServerInfo:
    """Return the flavor, version and id of the connected server."""
    rows = query(connection, "SELECT @@version, @@version_comment, @@server_id")
    text, comment, server_id = rows[0]
    greeted = str(connection.get_server_info())
    flavor = ServerFlavor.of_version(f"{text} {comment} {greeted}")
    return ServerInfo(flavor, parse_version(str(text)), str(text), int(server_id))


def is_lost(error: BaseException) -> bool:
    """Return whether an error, the driver's or ours, means that the connection is lost."""
    if isinstance(error, ConnectionLostError):
        return True
    return isinstance(error, pymysql.err.Error) and bool(error.args) and error.args[0] in _LOST


class DriverDump:
    """A running dump over a driver's connection, which it uses up.

    Args:
        connection: a ``pymysql.connections.Connection``, or one of a class derived from it.
        server: what :func:`identify` said.
    """

    def __init__(self, connection: Any, server: ServerInfo) -> None:
        for name in ("_execute_command", "_read_packet", "_rfile", "_sock"):
            if not hasattr(connection, name):
                raise ConfigError(
                    f"pymysql_wrapper returned a {type(connection).__name__}, which is not a connection of "
                    f"PyMySQL: it has no {name}"
                )
        self._connection = connection
        self._server = server
        self._session = DumpSession()

    def start(
        self,
        request: DumpRequest,
        *,
        server_id: int,
        heartbeat_period: float = 0,
        replica_uuid: str = "",
        register: ComRegisterSlave | None = None,
    ) -> None:
        """Set the session up, register as a replica, and ask for the events.

        Raises:
            pymysql.err.Error: the server refused.
            ConfigError: the request does not fit the server.
        """
        connection, server = self._connection, self._server
        request.check(server)
        settings = SessionSettings(
            int(heartbeat_period * 1_000_000_000),
            replica_uuid,
            _NET_WRITE_TIMEOUT,
            slave_connect_state=request.slave_connect_state,
            gtid_strict_mode=False,
        )
        query(connection, server_statements.session_setup(server, settings))
        if register is not None:
            self._send(register.encode())
            connection._read_packet()
        self._send(request.command(server, server_id))

    def _send(self, payload: bytes) -> None:
        self._connection._execute_command(payload[0], payload[1:])

    @property
    def events(self) -> EventQueue:
        """Events that were received and not taken yet."""
        return self._session.events

    def wait(self) -> bool:
        """Wait for events; return False at the end of a non-blocking dump.

        Raises:
            ServerError: the source refused or ended the dump.
            ProtocolError: it sent what the protocol forbids.
            ConnectionLostError: the connection ended.
            TransportTimeoutError: nothing was received within the driver's ``read_timeout``.
        """
        session = self._session
        while not len(session.events):
            if session.ended:
                if session.error is not None:
                    raise session.error
                return False
            file = self._connection._rfile
            if file is None:
                raise ConnectionLostError("the connection is closed")
            try:
                with session.room(_BUFFER_SIZE) as room:
                    size = file.readinto1(room)
            except TimeoutError as error:
                raise TransportTimeoutError("no byte was received within read_timeout") from error
            except (OSError, ssl.SSLError, ValueError) as error:
                raise ConnectionLostError(f"the connection was lost ({error})") from error
            if not size:
                session.receive_eof()
                raise ConnectionLostError("the source closed the connection")
            session.received(size)
        return True


def close_quietly(connection: Any) -> None:
    """Close a connection that may be gone already."""
    with suppress(pymysql.err.Error, OSError):
        connection.close()


async def open_dump(
    options: ConnectOptions,
    request: DumpRequest,
    *,
    server_id: int | None = None,
    heartbeat_period: float = DEFAULT_HEARTBEAT_PERIOD,
) -> DumpStream:
    """Connect to a source and begin a dump.

    Args:
        options: of the source.
        request: where the dump begins.
        server_id: server id of this dump; None: a random one. It must differ from that of a running
            dump, which the source would end.
        heartbeat_period: seconds without an event after which the source sends a heartbeat.

    Raises:
        TransportError: no connection, or it failed.
        ServerError: the source refuses.
        ConfigError: the request does not fit the source.
    """
    connection = await SourceConnection.open(options)
    return await connection.start_dump(
        request, server_id=server_id, heartbeat_period=heartbeat_period
    )
