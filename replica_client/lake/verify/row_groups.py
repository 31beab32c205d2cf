"""Groups of a table's rows, and their checksums."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from replica_client.lake.verify.texts import (
    RowTexts,
    comparable_text,
    row_bytes,
    row_texts,
    sql_row,
    sql_text,
)
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.names import mysql_name, mysql_table

_GROUPS: Final = 1024
_INTEGERS: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))


@dataclass(slots=True)
class Checksum:
    """The checksum of a group: the number of rows, and their CRC-32s added and XORed."""

    rows: int = 0
    total: int = 0
    mixed: int = 0

    def add(self, crc: int) -> None:
        """Add a row."""
        self.rows += 1
        self.total += crc
        self.mixed ^= crc

    def merge(self, other: Checksum) -> None:
        """Add the rows of another part of the group."""
        self.rows += other.rows
        self.total += other.total
        self.mixed ^= other.mixed


Checksums = dict[int, Checksum]


@dataclass(frozen=True)
class Grouping:
    """The rule that puts the rows of a table into groups.

    Attributes:
        table: the table's definition.
        size: width of the ranges of an integer key; 0: groups are made by a checksum of the key, or
            of the whole row where there is none.
    """

    table: TableModel
    size: int = 0

    @property
    def by_range(self) -> bool:
        """Whether groups are ranges of the key."""
        return self.size > 0

    @property
    def key(self) -> list[str]:
        """The key's columns."""
        return [name for name, _ in self.table.primary_key]

    @property
    def columns(self) -> list[ColumnModel]:
        """The visible columns, which have values of the source, in the table's order."""
        return [column for column in self.table.columns if not column.hidden]

    def key_of(self, texts: RowTexts) -> RowTexts:
        """Return the texts of a row's key, or of the whole row in a table without a key."""
        key = self.key
        if not key:
            return texts
        names = [column.name for column in self.columns]
        return tuple(texts[names.index(name)] for name in key)

    def server_row(self, texts: Sequence[bytes | None]) -> RowTexts:
        """Return the texts of a row that the server made, in the layout of the lake's texts."""
        return tuple(
            None if text is None else comparable_text(column)(text)
            for column, text in zip(self.columns, texts, strict=True)
        )

    def sql_group(self) -> str:
        """Return the SQL expression of a row's group."""
        if self.by_range:
            return f"{mysql_name(self.key[0])} DIV {self.size}"
        columns = [c for c in self.columns if not self.key or c.name in self.key]
        return f"CRC32({sql_row([sql_text(column) for column in columns])}) MOD {_GROUPS}"

    def sql_checksums(self) -> str:
        """Return the statement that selects group, rows, sum and XOR."""
        row = sql_row([sql_text(column) for column in self.columns])
        table = mysql_table(self.table.database, self.table.name)
        return (
            f"SELECT g, COUNT(*), SUM(c), BIT_XOR(c) FROM (SELECT {self.sql_group()} AS g, CRC32({row}) AS c "
            f"FROM {table}) AS checked GROUP BY g"
        )

    def sql_where(self, groups: Sequence[int]) -> str:
        """Return the SQL condition that a row is in one of the groups."""
        if not self.by_range:
            return f"{self.sql_group()} IN ({', '.join(map(str, groups))})"
        name, parts = mysql_name(self.key[0]), []
        for group in groups:
            low, high = range_of(group, self.size)
            parts.append(f"{name} BETWEEN {low} AND {high}")
        return " OR ".join(parts)

    def lake_checksums(self, rows: Iterable[dict[str, Any]]) -> Checksums:
        """Return the checksums of rows of the lake."""
        found: Checksums = {}
        for _, group, crc in self.checked(rows):
            found.setdefault(group, Checksum()).add(crc)
        return found

    def checked(self, rows: Iterable[dict[str, Any]]) -> Iterable[tuple[RowTexts, int, int]]:
        """Yield the texts of rows of the lake with their group and CRC-32."""
        columns = self.columns
        make = row_texts(columns)
        # In the table's order, like the SQL.
        keyed = [at for at, column in enumerate(columns) if not self.key or column.name in self.key]
        first = self.key[0] if self.by_range else ""
        for row in rows:
            texts = make(row)
            if self.by_range:
                group = group_of(int(row[first]), self.size)
            else:
                group = zlib.crc32(row_bytes([texts[at] for at in keyed])) % _GROUPS
            yield texts, group, zlib.crc32(row_bytes(texts))


def grouping_of(table: TableModel, least: int | None, greatest: int | None) -> Grouping:
    """Return the grouping of a table, by the least and greatest value of its key."""
    if least is None or greatest is None:
        return Grouping(table)
    return Grouping(table, max(1, (greatest - least) // _GROUPS + 1))


def has_integer_key(table: TableModel) -> bool:
    """Return whether ranges of the first key column can be groups."""
    kinds = {column.name: column.kind for column in table.columns}
    return bool(table.primary_key) and kinds[table.primary_key[0][0]] in _INTEGERS


def group_of(value: int, size: int) -> int:
    """Return ``value DIV size`` as SQL computes it: rounded towards zero."""
    return value // size if value >= 0 else -(-value // size)


def range_of(group: int, size: int) -> tuple[int, int]:
    """Return the least and greatest value of a group."""
    if group > 0:
        return group * size, group * size + size - 1
    if group < 0:
        return group * size - size + 1, group * size
    return -(size - 1), size - 1


def differing(left: Checksums, right: Checksums) -> list[int]:
    """Return the groups whose checksums differ."""
    return sorted(
        group
        for group in left.keys() | right.keys()
        if left.get(group, Checksum()) != right.get(group, Checksum())
    )
