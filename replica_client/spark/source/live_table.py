"""The shape of a table as a live source's ``information_schema`` tells it now."""

from __future__ import annotations

import re
from typing import Any, Protocol

from replica_client.constants.column_types import ColumnType
from replica_client.errors import SchemaError
from replica_client.schema.information_schema import labels_of
from replica_client.schema.shape import ColumnShape, LogicalType, TableShape

_T = ColumnType
_BINARY = 63
_COLUMNS = (
    "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COLLATION_NAME, NUMERIC_PRECISION, NUMERIC_SCALE, "
    "IS_NULLABLE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s "
    "ORDER BY ORDINAL_POSITION"
)
_KEY = (
    "SELECT COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = %s "
    "AND TABLE_NAME = %s AND CONSTRAINT_NAME = 'PRIMARY' ORDER BY ORDINAL_POSITION"
)
_COLLATIONS = "SELECT COLLATION_NAME, ID FROM information_schema.COLLATIONS WHERE ID IS NOT NULL"
# MariaDB >= 10.10 names uca1400 collations without their character set there, and with it here.
_MARIADB_COLLATIONS = (
    "SELECT FULL_COLLATION_NAME, ID FROM "
    "information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE ID IS NOT NULL"
)
_TYPES = {
    "tinyint": _T.MYSQL_TYPE_TINY,
    "smallint": _T.MYSQL_TYPE_SHORT,
    "mediumint": _T.MYSQL_TYPE_INT24,
    "int": _T.MYSQL_TYPE_LONG,
    "bigint": _T.MYSQL_TYPE_LONGLONG,
    "float": _T.MYSQL_TYPE_FLOAT,
    "double": _T.MYSQL_TYPE_DOUBLE,
    "decimal": _T.MYSQL_TYPE_NEWDECIMAL,
    "bit": _T.MYSQL_TYPE_BIT,
    "year": _T.MYSQL_TYPE_YEAR,
    "date": _T.MYSQL_TYPE_DATE,
    "time": _T.MYSQL_TYPE_TIME2,
    "datetime": _T.MYSQL_TYPE_DATETIME2,
    "timestamp": _T.MYSQL_TYPE_TIMESTAMP2,
    "char": _T.MYSQL_TYPE_STRING,
    "varchar": _T.MYSQL_TYPE_VARCHAR,
    "binary": _T.MYSQL_TYPE_STRING,
    "varbinary": _T.MYSQL_TYPE_VARCHAR,
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), _T.MYSQL_TYPE_BLOB),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), _T.MYSQL_TYPE_BLOB),
    "enum": _T.MYSQL_TYPE_ENUM,
    "set": _T.MYSQL_TYPE_SET,
    "json": _T.MYSQL_TYPE_JSON,
    **dict.fromkeys(
        (
            "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
            "multipolygon", "geometrycollection", "geomcollection",
        ),
        _T.MYSQL_TYPE_GEOMETRY,
    ),
}  # fmt: skip
_LOGICAL: dict[str, LogicalType] = {"uuid": "uuid", "inet4": "inet4", "inet6": "inet6"}
_FRACTION = re.compile(r"\((\d+)\)")


class Queryable(Protocol):
    """What answers SQL."""

    @property
    def is_mariadb(self) -> bool:
        """Whether it is MariaDB."""

    def query(self, sql: str, args: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Rows of a statement."""


def shape_of_table(source: Queryable, database: str, table: str) -> TableShape | None:
    """The table's shape now; None when the source does not show it to us.

    Raises:
        ServerError: the source does not answer such queries.
        SchemaError: a column type that is not known.
    """
    columns = source.query(_COLUMNS, (database, table))
    if not columns:
        return None
    keys = [str(row[0]) for row in source.query(_KEY, (database, table))]
    collations = {str(name): int(str(number)) for name, number in source.query(_COLLATIONS)}
    if source.is_mariadb and any(row[3] and str(row[3]) not in collations for row in columns):
        rows = source.query(_MARIADB_COLLATIONS)
        collations |= {str(name): int(str(number)) for name, number in rows}
    shapes = []
    for row in columns:
        name = str(row[0])
        key = keys.index(name) if name in keys else None
        shapes.append(_column(row, f"{database}.{table}", key, collations, source.is_mariadb))
    return TableShape(database, table, tuple(shapes))


def _column(
    row: tuple[Any, ...], table: str, key: int | None, collations: dict[str, int], mariadb: bool
) -> ColumnShape:
    name, data_type = str(row[0]), str(row[1]).lower()
    column_type, collation = _text(row[2]), row[3]
    code = _TYPES.get(data_type)
    logical = _LOGICAL.get(data_type)
    if data_type == "vector":
        code, logical = (
            (_T.MYSQL_TYPE_VARCHAR, "vector") if mariadb else (_T.MYSQL_TYPE_VECTOR, None)
        )
    elif logical is not None:
        code = _T.MYSQL_TYPE_STRING
    if code is None:
        raise SchemaError(
            f"{table}: column {name} has the type {data_type}, which a typed query does not know; "
            "read the envelope (tables instead of table)"
        )
    number = code in (
        _T.MYSQL_TYPE_TINY, _T.MYSQL_TYPE_SHORT, _T.MYSQL_TYPE_INT24, _T.MYSQL_TYPE_LONG,
        _T.MYSQL_TYPE_LONGLONG, _T.MYSQL_TYPE_FLOAT, _T.MYSQL_TYPE_DOUBLE, _T.MYSQL_TYPE_NEWDECIMAL,
    )  # fmt: skip
    text = code in (
        _T.MYSQL_TYPE_STRING, _T.MYSQL_TYPE_VARCHAR, _T.MYSQL_TYPE_BLOB,
        _T.MYSQL_TYPE_ENUM, _T.MYSQL_TYPE_SET,
    )  # fmt: skip
    length = 0
    if code in (_T.MYSQL_TYPE_NEWDECIMAL, _T.MYSQL_TYPE_BIT):
        length = int(str(row[4] or 0))
    labels = None
    if code in (_T.MYSQL_TYPE_ENUM, _T.MYSQL_TYPE_SET):
        labels = labels_of(column_type)
    fraction = _FRACTION.search(column_type)
    timed = code in (_T.MYSQL_TYPE_TIME2, _T.MYSQL_TYPE_DATETIME2, _T.MYSQL_TYPE_TIMESTAMP2)
    return ColumnShape(
        name=name,
        type_code=code,
        nullable=str(row[6]).upper() == "YES",
        unsigned="unsigned" in column_type.lower() if number else None,
        collation_id=(collations.get(str(collation)) if collation else _BINARY) if text else None,
        labels=labels,
        primary_key_index=key,
        length=length,
        scale=int(str(row[5] or 0)) if code == _T.MYSQL_TYPE_NEWDECIMAL else 0,
        fraction_digits=int(fraction[1]) if timed and fraction else 0,
        logical_type=logical,
    )


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
