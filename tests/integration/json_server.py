"""A real MySQL that stores JSON documents: what it logs beside what it selects.

The table is always (id INT, j JSON). Rows are read from the raw dump stream here, with the event
decoder but without the row decoder, so that only the JSON bytes are under test.
"""

import base64
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.constants import COMMAND

from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.event_types import EventType

_ROWS = {
    EventType.WRITE_ROWS_EVENT,
    EventType.UPDATE_ROWS_EVENT,
    EventType.PARTIAL_UPDATE_ROWS_EVENT,
}
_PARTIAL_JSON = 1


@dataclass(frozen=True, slots=True)
class LoggedJson:
    """What the binlog has for one row: the document before and after, or the diffs."""

    id: int
    before: bytes | None
    after: bytes | None
    diffs: bytes | None


class JsonServer:
    """SQL and raw binlog of one server, for one database of its own."""

    def __init__(self, host: str, port: int, database: str, password: str = "") -> None:
        self._login: dict[str, Any] = {
            "host": host,
            "port": port,
            "user": "root",
            "password": password,
            "charset": "utf8mb4",
        }
        self.connection = pymysql.connect(**self._login, autocommit=True)
        self.execute(f"CREATE DATABASE IF NOT EXISTS `{database}` CHARACTER SET utf8mb4")
        self.connection.select_db(database)
        self.database = database
        self._judge_events: tuple[bytes, bytes, bytes] | None = None

    def close(self) -> None:
        self.connection.close()

    def execute(self, sql: str, args: Any = None) -> tuple[tuple[Any, ...], ...]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, args)
            return tuple(cursor.fetchall())

    def make_table(self, name: str) -> None:
        self.execute(f"DROP TABLE IF EXISTS {name}")
        self.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, j JSON)")

    def texts(self, table: str) -> dict[int, str | None]:
        """The server's own text of every document."""
        return dict(self.execute(f"SELECT id, CAST(j AS CHAR) FROM {table}"))

    def position(self) -> tuple[str, int]:
        file, offset, *_ = self.execute("SHOW BINARY LOG STATUS")[0]
        return file, offset

    def raw_events(self, start: tuple[str, int]) -> Iterator[bytes]:
        """Every event from a position to the end, as the dump sends it, with its CRC-32."""
        file, offset = start
        connection: Any = pymysql.connect(**self._login)
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SET @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32'"
                )
            request = struct.pack("<IHI", offset, 1, 0x5EED) + file.encode()
            connection._execute_command(COMMAND.COM_BINLOG_DUMP, request)
            while True:
                packet = connection._read_packet()
                if packet.is_eof_packet():
                    return
                yield packet.get_all_data()[1:]
        finally:
            connection._force_close()

    def logged(self, table: str, start: tuple[str, int]) -> Iterator[LoggedJson]:
        """The JSON values of every row of a table that was logged since a position."""
        decoder = BinlogDecoder()
        for data in self.raw_events(start):
            event = decoder.decode(data, 0)
            code = event.header.type_code
            if code not in _ROWS:
                continue
            body = ByteReader(data, 19, len(data) - 4)
            table_map = decoder.table_map(body.uint(6))
            if (table_map.schema, table_map.table) == (self.database, table):
                body.skip(2)
                body.skip(body.uint(2) - 2)
                yield from _rows(body, code)

    def judge(self, document: bytes) -> str | None:
        """The server's own text of any bytes, None when it says that they are no document.

        The bytes go in as a row event in a BINLOG statement, which stores them unseen.
        """
        if self._judge_events is None:
            self._judge_events = self._record_events()
        description, table_map, row = self._judge_events
        head = row[: row.index(_MARK) - 4]
        rows = head + struct.pack("<I", len(document)) + document
        rows = rows[:9] + struct.pack("<I", len(rows) + 4) + rows[13:]
        rows += struct.pack("<I", zlib.crc32(rows))
        self.execute("DELETE FROM judge")
        text = base64.b64encode(description + table_map + rows).decode()
        self.execute(f"BINLOG '{text}'")
        try:
            return str(self.execute("SELECT CAST(j AS CHAR) FROM judge")[0][0])
        except pymysql.err.MySQLError as error:
            if error.args[0] not in _NOT_A_DOCUMENT:
                raise
            return None

    def _record_events(self) -> tuple[bytes, bytes, bytes]:
        self.make_table("judge")
        start = self.position()
        self.execute("INSERT INTO judge VALUES (1, %s)", ('"' + _MARK_TEXT + '"',))
        description = table_map = b""
        for data in self.raw_events(start):
            if data[4] == EventType.FORMAT_DESCRIPTION_EVENT:
                description = data
            elif data[4] == EventType.TABLE_MAP_EVENT:
                table_map = data
            elif data[4] == EventType.WRITE_ROWS_EVENT and _MARK in data:
                return description, table_map, data
        raise AssertionError("the insert is not in the binlog")


_MARK_TEXT = "a mark that is found again"
_MARK = bytes((0x0C, len(_MARK_TEXT))) + _MARK_TEXT.encode()
_NOT_A_DOCUMENT = {3142, 3157}  # ER_INVALID_JSON_BINARY_DATA, ER_JSON_DOCUMENT_TOO_DEEP


def _rows(body: ByteReader, code: int) -> Iterator[LoggedJson]:
    assert body.lenenc() == 2
    assert body.uint(1) & 3 == 3, "a full row image"
    if code != EventType.WRITE_ROWS_EVENT:
        assert body.uint(1) & 3 == 3, "a full row image"
    while body.remaining:
        if code == EventType.WRITE_ROWS_EVENT:
            row_id, after = _image(body)
            yield LoggedJson(row_id, None, after, None)
            continue
        row_id, before = _image(body)
        partial = False
        if code == EventType.PARTIAL_UPDATE_ROWS_EVENT and body.lenenc() & _PARTIAL_JSON:
            partial = bool(body.uint(1) & 1)
        _, after = _image(body)
        yield LoggedJson(row_id, before, None if partial else after, after if partial else None)


def _image(body: ByteReader) -> tuple[int, bytes | None]:
    nulls = body.uint(1)
    return body.uint(4), None if nulls & 2 else body.take(body.uint(4))
