"""The source's tables by its own SELECT, in the form in which the SQLite mirror stores values."""

from __future__ import annotations

import datetime
import struct
from typing import Any

from replica_client.schema.names import mysql_name, mysql_table
from tests.servers.server import Server

_SYSTEM = ("mysql", "sys", "information_schema", "performance_schema")
_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
GEOMETRIES = (
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
    *("multipolygon", "geomcollection", "geometrycollection"),
)


def source_tables(server: Server) -> list[tuple[str, str]]:
    """Databases and names of all base tables that are not the server's own."""
    found = server.query(
        "SELECT table_schema, table_name FROM information_schema.tables "
        "WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY 1, 2"
    )
    return [(str(one), str(two)) for one, two in found if one not in _SYSTEM]


def source_rows(server: Server, database: str, table: str) -> list[tuple[Any, ...]]:
    """All rows of a table."""
    columns = server.query(
        "SELECT column_name, data_type, column_type, extra FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        (database, table),
    )
    kinds = [(str(kind).lower(), str(full).lower()) for _, kind, full, _ in columns]
    shown = [
        _shown(mysql_name(name), kind) for (name, *_), (kind, _) in zip(columns, kinds, strict=True)
    ]
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT {', '.join(shown)} FROM {mysql_table(database, table)}")
        rows = cursor.fetchall()
    return [
        tuple(
            None if value is None else _stored(value, kind, full)
            for value, (kind, full) in zip(row, kinds, strict=True)
        )
        for row in rows
    ]


def shortest_float(value: float) -> float:
    """Return the shortest number that reads back as the same FLOAT, as this package delivers it."""
    exact = struct.pack("<f", value)
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        if struct.pack("<f", short) == exact:
            return short
    return float(value)


def _shown(name: str, kind: str) -> str:
    if kind == "float":
        return f"{name} + 0e0"  # FLOAT is shown with six digits otherwise
    if kind == "bit":
        return f"{name} + 0"
    if kind in GEOMETRIES or kind in _BINARY:
        return f"HEX({name})"
    if kind in _WHOLE or kind == "double":
        return name
    return f"CAST({name} AS CHAR)"


def _stored(value: Any, kind: str, full: str) -> Any:
    if kind in _BINARY or kind in GEOMETRIES:
        return bytes.fromhex(value)
    if kind == "bit" or (kind == "bigint" and "unsigned" in full):
        return int(value) if int(value) < 1 << 63 else str(int(value))
    if kind in _WHOLE:
        return int(value)
    if kind == "float":
        return shortest_float(value)
    if kind == "double":
        return float(value)
    if isinstance(value, (datetime.date, datetime.timedelta)):
        raise AssertionError(f"{kind} came as {value!r}, not as text")
    return value.decode() if isinstance(value, bytes) else str(value)
