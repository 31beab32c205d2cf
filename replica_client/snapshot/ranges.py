"""Ranges of the primary key of a table."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Any, Self

from replica_client.codec.quick_dataclass import dataclass
from replica_client.schema.model import TableModel
from replica_client.schema.quoting import mysql_name, mysql_names, mysql_table, mysql_value
from replica_client.snapshot.column_selects import RANGED_KINDS
from replica_client.transport.connection import SourceConnection

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The rows of a table with ``after < key <= upto``.

    Attributes:
        after: lower bound; None: from the first row.
        upto: upper bound; None: to the last row.
    """

    after: Key | None = None
    upto: Key | None = None

    def to_json(self) -> list[Any]:
        """Return the range as JSON values."""
        return [_key_json(self.after), _key_json(self.upto)]

    @classmethod
    def from_json(cls, value: list[Any]) -> Self:
        """Return the range from the JSON values of :meth:`to_json`."""
        return cls(_json_key(value[0]), _json_key(value[1]))


def can_be_cut(table: TableModel) -> bool:
    """Return whether a table has a key that can be split into ranges."""
    kinds = {column.name: column.kind for column in table.columns}
    return bool(table.primary_key) and all(
        kinds.get(name) in RANGED_KINDS for name, _ in table.primary_key
    )


async def key_ranges(
    connection: SourceConnection,
    table: TableModel,
    rows: int,
    *,
    after: Key | None = None,
    where: str = "",
) -> AsyncGenerator[KeyRange, None]:
    """Yield ranges of about ``rows`` rows each, in order, that together cover every row.

    Args:
        connection: connection to the source.
        table: the table.
        rows: number of rows of a range.
        after: key after which the first range begins; None: with the first row.
        where: SQL condition on the rows that are counted.
    """
    if can_be_cut(table):
        key = key_names(table)
        bounds = ", ".join(_bound(table, name) for name in key)
        order = mysql_names(key)
        while True:
            wanted = condition(table, KeyRange(after), where)
            found = await connection.query(
                f"SELECT {bounds} FROM {table_name(table)}{wanted} "
                f"ORDER BY {order} LIMIT 2 OFFSET {rows - 1}"
            )
            if len(found) < 2:
                break  # the last range has the remaining rows, and is not empty unless the table is
            upto = tuple(found[0])
            yield KeyRange(after, upto)
            after = upto
    yield KeyRange(after)


def key_names(table: TableModel) -> list[str]:
    """Return the names of the primary key's columns."""
    return [name for name, _ in table.primary_key]


def table_name(table: TableModel) -> str:
    """Return the table's name in SQL."""
    return mysql_table(table.database, table.name)


def condition(table: TableModel, part: KeyRange, where: str = "") -> str:
    """Return the WHERE clause of a range and an additional condition; empty for all rows."""
    clauses = [
        _compare(key_names(table), bound, sign)
        for bound, sign in ((part.after, ">"), (part.upto, "<="))
        if bound is not None
    ]
    if where:
        clauses.append(f"({where}\n)")
    return f" WHERE {' AND '.join(clauses)}" if clauses else ""


def _compare(names: list[str], bound: Key, sign: str) -> str:
    """Return ``(a, b) > (x, y)`` in a form for which servers use the key."""
    name, value = mysql_name(names[0]), mysql_value(bound[0])
    if len(names) == 1:
        return f"{name} {sign} {value}"
    rest, strict = _compare(names[1:], bound[1:], sign), sign[0]
    return (
        f"({name} {strict}= {value} AND ({name} {strict} {value} OR ({name} = {value} AND {rest})))"
    )


def _bound(table: TableModel, name: str) -> str:
    column = next(column for column in table.columns if column.name == name)
    if column.kind in ("date", "datetime", "timestamp"):
        return f"CAST({mysql_name(name)} AS CHAR)"
    return f"{mysql_name(name)} + 0" if column.kind == "year" else mysql_name(name)


def _key_json(key: Key | None) -> list[Any] | None:
    if key is None:
        return None
    return [
        {"hex": value.hex()} if isinstance(value, bytes)
        else {"decimal": str(value)} if isinstance(value, Decimal) else value
        for value in key
    ]  # fmt: skip


def _json_key(value: list[Any] | None) -> Key | None:
    if value is None:
        return None
    return tuple(
        (bytes.fromhex(one["hex"]) if "hex" in one else Decimal(one["decimal"]))
        if isinstance(one, dict)
        else one
        for one in value
    )
