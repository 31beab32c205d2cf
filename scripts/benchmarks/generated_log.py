"""Binlogs made to measure: so many transactions, rows, tables, columns and GTID intervals."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import replica_client as rc
from replica_client.protocol.constants.event_types import EventType

DATA = Path(rc.__file__).parent / "testing" / "data"
_SID = bytes(range(16))
_LONG = 3
_HEADER = 19


@dataclass(frozen=True)
class Made:
    """What is in a binlog: each transaction inserts ``rows`` rows into each of ``tables`` tables.

    Attributes:
        transactions: how many.
        rows: of one rows event.
        tables: that take turns, one to a transaction.
        columns: of each table, INT.
        intervals: of the GTID set that the file begins with.
        opened_anew: each transaction has another table id, as where a server closes and opens its tables.
        ids: table ids, of which the transactions take one after the other.
        name: what the names of the tables begin with.
        names_columns: table maps have the names of columns.
        nullable: columns can be NULL.
        statements: the text of each, by the number of the transaction before which it stands.
    """

    transactions: int = 0
    rows: int = 1
    tables: int = 1
    columns: int = 4
    intervals: int = 1
    opened_anew: bool = False
    ids: tuple[int, ...] = ()
    name: str = "t"
    names_columns: bool = True
    nullable: bool = True
    statements: tuple[tuple[int, str], ...] = ()

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
            out.write(data[:4])

            def put(events: bytes) -> None:
                """Write events, each with where it ends."""
                at = 0
                while at < len(events):
                    size = int.from_bytes(events[at + 9 : at + 13], "little")
                    out.write(_ending(events[at : at + size], out.tell() + size))
                    at += size

            put(description)
            put(_event(EventType.PREVIOUS_GTIDS_LOG_EVENT, sets))
            gnos = count(first)

            def open_transaction() -> None:
                template[17:25] = next(gnos).to_bytes(8, "little")
                put(_event(EventType.GTID_LOG_EVENT, bytes(template)))

            for number in range(self.transactions):
                for before, text in self.statements:
                    if before == number:
                        open_transaction()
                        query = begin[_HEADER : -4 - len("BEGIN")] + text.encode()
                        put(_event(EventType.QUERY_EVENT, query))
                open_transaction()
                put(begin)
                changes = maps[number % self.tables] + rows[number % self.tables]
                if self.opened_anew:
                    changes = _with_id(changes, self.tables + number)
                if self.ids:
                    changes = _with_id(changes, self.ids[number % len(self.ids)])
                put(changes)
                put(xid)

    def _table_map(self, number: int) -> bytes:
        name = f"{self.name}{number}".encode()
        size = (self.columns + 7) // 8
        names = b"".join(
            bytes((len(n),)) + n for n in (f"c{i}".encode() for i in range(self.columns))
        )
        body = (number + 1).to_bytes(6, "little") + b"\x01\x00\x04made\x00"
        body += bytes((len(name),)) + name + b"\x00" + _size(self.columns)
        body += bytes((_LONG,)) * self.columns + b"\x00"
        body += (b"\xff" if self.nullable else b"\x00") * size
        body += b"\x01" + _size(size) + bytes(size)
        if self.names_columns:
            body += b"\x04" + _size(len(names)) + names
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


def _ending(event: bytes, end: int) -> bytes:
    """An event that ends there in its file."""
    data = event[:13] + (end & 0xFFFFFFFF).to_bytes(4, "little") + event[17:-4]
    return data + zlib.crc32(data).to_bytes(4, "little")


def _with_id(changes: bytes, table_id: int) -> bytes:
    """A table map and its rows event under another table id."""
    size = int.from_bytes(changes[9:13], "little")
    body, rows = changes[_HEADER + 6 : size - 4], changes[size + _HEADER + 6 : -4]
    number = table_id.to_bytes(6, "little")
    return _event(EventType.TABLE_MAP_EVENT, number + body) + _event(
        changes[size + 4], number + rows
    )


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
