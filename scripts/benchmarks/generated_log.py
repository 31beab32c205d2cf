"""Binlogs made to measure: so many transactions, rows, tables, columns and GTID intervals."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import replica_client as rc
from replica_client.constants.event_types import EventType

DATA = Path(rc.__file__).parent / "testing" / "data"
_SID = bytes(range(16))
_LONG = 3


@dataclass(frozen=True)
class Made:
    """What is in a binlog: each transaction inserts ``rows`` rows into each of ``tables`` tables.

    Attributes:
        transactions: how many.
        rows: of one rows event.
        tables: that take turns, one to a transaction.
        columns: of each table, INT.
        intervals: of the GTID set that the file begins with.
    """

    transactions: int = 0
    rows: int = 1
    tables: int = 1
    columns: int = 4
    intervals: int = 1

    def write(self, path: Path) -> None:
        """Write the file."""
        file = sorted(p for p in DATA.iterdir() if p.suffix.startswith(".0"))[0]
        data = file.read_bytes()
        events = _events(data)
        description = events[EventType.FORMAT_DESCRIPTION_EVENT]
        template = bytearray(events[EventType.GTID_LOG_EVENT][19:-4])
        template[1:17] = _SID
        begin = next(
            data[at : at + size]
            for at, size, code in _walk(data)
            if code == EventType.QUERY_EVENT and data[at : at + size - 4].endswith(b"BEGIN")
        )
        xid = events[EventType.XID_EVENT]
        first = 4 * self.intervals
        known = b"".join(
            (4 * i + 1).to_bytes(8, "little") + (4 * i + 2).to_bytes(8, "little")
            for i in range(self.intervals)
        )
        sets = (1).to_bytes(8, "little") + _SID + self.intervals.to_bytes(8, "little") + known
        maps = [self._table_map(number) for number in range(self.tables)]
        rows = [self._rows(number) for number in range(self.tables)]
        with path.open("wb") as out:
            out.write(data[:4] + description)
            out.write(_event(EventType.PREVIOUS_GTIDS_LOG_EVENT, sets))
            for number in range(self.transactions):
                template[17:25] = (first + number).to_bytes(8, "little")
                out.write(_event(EventType.GTID_LOG_EVENT, bytes(template)))
                out.write(begin)
                out.write(maps[number % self.tables] + rows[number % self.tables])
                out.write(xid)

    def _table_map(self, number: int) -> bytes:
        name = f"t{number}".encode()
        size = (self.columns + 7) // 8
        names = b"".join(
            bytes((len(n),)) + n for n in (f"c{i}".encode() for i in range(self.columns))
        )
        body = (number + 1).to_bytes(6, "little") + b"\x01\x00\x04made\x00"
        body += bytes((len(name),)) + name + b"\x00" + _size(self.columns)
        body += bytes((_LONG,)) * self.columns + b"\x00" + b"\xff" * size
        body += b"\x01" + _size(size) + bytes(size) + b"\x04" + _size(len(names)) + names
        return _event(EventType.TABLE_MAP_EVENT, body)

    def _rows(self, number: int) -> bytes:
        size = (self.columns + 7) // 8
        row = bytes(size) + b"".join(i.to_bytes(4, "little") for i in range(self.columns))
        body = (number + 1).to_bytes(6, "little") + b"\x01\x00\x02\x00" + _size(self.columns)
        return _event(EventType.WRITE_ROWS_EVENT, body + b"\xff" * size + row * self.rows)


def _size(number: int) -> bytes:
    """A length-encoded integer."""
    return bytes((number,)) if number < 251 else b"\xfc" + number.to_bytes(2, "little")


def _event(code: int, body: bytes) -> bytes:
    head = (1_700_000_000).to_bytes(4, "little") + bytes((code,)) + (1).to_bytes(4, "little")
    data = head + (23 + len(body)).to_bytes(4, "little") + bytes(6) + body
    return data + zlib.crc32(data).to_bytes(4, "little")


def _walk(data: bytes) -> list[tuple[int, int, int]]:
    found, at = [], 4
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        found.append((at, size, data[at + 4]))
        at += size
    return found


def _events(data: bytes) -> dict[int, bytes]:
    """An event of each type."""
    return {code: data[at : at + size] for at, size, code in reversed(_walk(data))}
