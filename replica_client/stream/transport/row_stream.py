"""The rows of an answer as the server sends them, with their conversion to Python."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from pymysql.connections import MysqlPacket

from replica_client.protocol.constants.column_types import RAW_RESULTS
from replica_client.stream.transport.login import LoginConnection

InTime = Callable[[Awaitable[Any]], Awaitable[Any]]
"""Waits for something at most as long as the connection may be silent."""


class RowStream:
    """An answer whose columns are read and whose rows are not.

    Args:
        connection: the connection that answers.
        in_time: waits within the connection's ``read_timeout``.

    Attributes:
        ended: whether the last row was taken.
    """

    def __init__(self, connection: LoginConnection, in_time: InTime) -> None:
        self._connection = connection
        self._in_time = in_time
        self._result = connection.open_result
        self.ended = self._result is None
        if self._result is not None:
            for at, field in enumerate(self._result.fields):
                if field.type_code in RAW_RESULTS:
                    # The driver does not know the type and takes its values for text.
                    self._result.converters[at] = (None, None)

    async def payloads(self) -> AsyncIterator[list[bytes]]:
        """Yield the payloads of the packets with rows, as they come.

        Raises:
            ServerError: the server ended the rows with an error.
            TransportError: the connection failed, or ``read_timeout`` passed without rows.
            ProtocolError: a packet is not one.
        """
        if self._result is None:
            return
        found = self._connection.row_payloads()
        while (payloads := await self._in_time(anext(found, None))) is not None:
            yield payloads
        self.ended = True

    def decoded(self, payloads: list[bytes]) -> list[tuple[Any, ...]]:
        """Decode rows to the values that the driver returns.

        Raises:
            ValueError: a text is not of its character set.
        """
        read = self._result._read_row_from_packet
        return [read(MysqlPacket(payload, "utf-8")) for payload in payloads]

    def value(self, column: int, data: bytes) -> Any:
        """Decode a value that is not NULL as the driver does.

        Raises:
            ValueError: a text is not of its character set.
        """
        encoding, convert = self._result.converters[column]
        value = data if encoding is None else data.decode(encoding)
        return value if convert is None else convert(value)
