"""A dump over a connection of asyncmy, received without asyncmy's reader after the dump command."""

from __future__ import annotations

import struct
from importlib import import_module
from typing import Any

from replica_client.errors import ConfigError, ServerError
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.wire.dump_commands import DumpSession

_BUFFER_SIZE = 256 << 10
_LOST = 2013
_GENERAL = "HY000"


class ConnectionDump:
    """A running dump over a connection of asyncmy, which is used up.

    Args:
        connection: on which the dump command was sent.
    """

    def __init__(self, connection: Any) -> None:
        if getattr(connection, "_proto", None) is None and not hasattr(connection, "_reader"):
            raise ConfigError(
                f"a {type(connection).__name__} is not a connection of asyncmy 0.2: it has neither _proto nor"
                " _reader"
            )
        self._connection = connection
        self._session = DumpSession()

    @property
    def events(self) -> EventQueue:
        """Events that were received and not taken."""
        return self._session.events

    async def wait(self) -> bool:
        """Wait for events; false at the end of a dump that does not block.

        Raises:
            asyncmy.errors.MySQLError: the source refused or ended the dump, or the connection is lost.
            ProtocolError: it sent data that the protocol forbids.
        """
        session = self._session
        while not len(session.events):
            if session.ended:
                if isinstance(session.error, ServerError):
                    _raise(session.error.errno, session.error.sqlstate, session.error.message)
                if session.error is not None:
                    raise session.error
                return False
            proto = getattr(self._connection, "_proto", None)
            if proto is None:
                self._take(await self._read())
                continue
            if proto.pos == proto.length:
                await self._connection._fill_buffer(1)
            with memoryview(proto.buffer) as received:
                self._take(received[proto.pos : proto.length])
            proto.pos = proto.length
        return True

    async def _read(self) -> bytes:
        """Read bytes from a connection of asyncmy before 0.2.12, which has a ``StreamReader``."""
        reader = self._connection._reader
        data: bytes = b"" if reader is None else await reader.read(_BUFFER_SIZE)
        if not data:
            _raise(_LOST, "", "Lost connection to MySQL server during query")
        return data

    def _take(self, data: bytes | memoryview) -> None:
        session = self._session
        with session.room(len(data)) as room:
            room[:] = data
        session.received(len(data))


def _raise(errno: int, sqlstate: str, message: str) -> None:
    """Raise an error of a source as asyncmy does."""
    packet = struct.pack("<BH", 0xFF, errno) + f"#{(sqlstate or _GENERAL):5.5}{message}".encode()
    import_module("asyncmy.errors").raise_mysql_exception(packet)
