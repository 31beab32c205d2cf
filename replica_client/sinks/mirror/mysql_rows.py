"""The rows part of a mirror on MySQL or MariaDB."""

from __future__ import annotations

import contextlib
import struct
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from replica_client.errors import ServerError, SinkError
from replica_client.protocol.binlog.values.value_types import (
    EnumValue,
    encode_geometry,
    encode_vector,
)
from replica_client.rows.special_values import RawJson
from replica_client.schema.kinds import LIMITS, NUMBERS, REALS, TEXT_KINDS, kinds_of, rules
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.names import before_arguments, mysql_name
from replica_client.sinks.column_models import sql_type
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.mirror.mirror_database import KeyTwiceError, MirrorDatabase
from replica_client.stream.tables.net_changes import Values

# Values and columns in a mirror on MySQL or MariaDB: the source's own types.
#
# Text keeps its character set if the server has it (else utf8mb4). Its collation is binary, without
# padding if possible: keys that differ on the source must differ here. UUID, INET4, INET6 (MariaDB)
# and vectors are text or bytes on a server without these types.


IN_HEX: Final = frozenset(kinds_of("bytes", "spatial", "vector"))
"""Kinds whose values are sent and compared as hexadecimal digits."""
_ADDRESSES: Final = {"uuid": "char(36)", "inet4": "varchar(15)", "inet6": "varchar(45)"}


@dataclass(frozen=True)
class TargetServer:
    """The features of the mirror's server.

    Attributes:
        is_mariadb: whether it is MariaDB.
        version: version of the server.
        charsets: its character sets.
        collations: its collations.
        ignores_case: whether ``lower_case_table_names`` is not 0.
    """

    is_mariadb: bool
    version: tuple[int, ...]
    charsets: frozenset[str]
    collations: frozenset[str]
    ignores_case: bool = False

    def column(self, column: ColumnModel) -> str:
        """Return the type of a column with its character set, without nullability."""
        kind = column.kind
        if kind in _ADDRESSES and not (self.is_mariadb and self.version >= (10, 10)):
            return _ADDRESSES[kind] + " CHARACTER SET ascii COLLATE ascii_bin"
        if kind == "vector" and self.version < ((11, 7) if self.is_mariadb else (9, 0)):
            return "longblob"
        if kind == "json" and self.version < (5, 7):
            return f"longtext {self._charset('utf8mb4')}"
        if kind == "geomcollection":
            return "geometrycollection"
        text = sql_type(column)
        if kind in TEXT_KINDS:
            text += " " + self._charset(column.charset or "utf8mb4")
        return text

    def _charset(self, charset: str) -> str:
        if charset == "utf8mb3" and charset not in self.charsets:
            charset = "utf8"
        if charset not in self.charsets:
            charset = "utf8mb4"
        wanted = (f"{charset}_0900_bin", f"{charset}_nopad_bin", f"{charset}_bin", "utf8_bin")
        collation = next((one for one in wanted if one in self.collations), f"{charset}_bin")
        return f"CHARACTER SET {charset} COLLATE {collation}"

    def match(self, column: ColumnModel) -> tuple[str, ValueEncoder | None]:
        """Return a condition that a column equals a value, and the converter of that value.

        The condition has one placeholder; the converter is None if the value is used as it is.
        """
        name, kind = before_arguments(mysql_name(column.name)), column.kind
        if kind == "bit":
            return f"{name} + 0 <=> %s", None
        if kind in NUMBERS - REALS:
            return f"{name} <=> %s", None
        if kind in REALS:
            # As text, -0.0 differs from 0.0. A FLOAT is compared as the DOUBLE with its value.
            text = f"CAST({name} * 1e0 AS CHAR)"
            return f"{text} <=> CAST(%s AS CHAR)", partial(key_value, column)
        if kind in IN_HEX:
            return f"HEX({name}) <=> %s", str.upper
        if kind in TEXT_KINDS:
            return (
                f"HEX(CONVERT({name} USING utf8mb4)) <=> %s",
                lambda value: value.encode().hex().upper(),
            )
        if kind == "json" and not self.is_mariadb and self.version >= (5, 7):
            return f"CAST({name} AS CHAR) <=> CAST(CAST(%s AS JSON) AS CHAR)", None
        return f"{name} <=> %s", None


def key_value(column: ColumnModel, value: Any) -> Any:
    """Return the value with which a key column is compared.

    A FLOAT is compared as the DOUBLE with its exact value.
    """
    if column.kind != "float" or value is None:
        return value
    return struct.unpack("<f", struct.pack("<f", value))[0]


def placeholder(column: ColumnModel) -> str:
    """Return the SQL for a column's value in a statement. Bytes are sent as hexadecimal digits."""
    if column.kind in IN_HEX:
        return "UNHEX(%s)"
    return "%s"


def _enum(value: EnumValue) -> str:
    if value.label is None:
        raise SinkError("the labels of an ENUM column are not known; set binlog_row_metadata=FULL")
    return value.label


def _json(value: Any) -> str:
    if isinstance(value, tuple):
        raise SinkError(
            "a JSON column was changed in parts of its document; set binlog_row_image=FULL, or "
            "binlog_row_value_options='' on the source"
        )
    return str(value) if isinstance(value, RawJson) else str(value.text)


_ENCODERS: Final = rules(
    "the MySQL mirror's values",
    {
        "integer year bit real decimal string": None,
        "date time datetime timestamp set address": str,
        "bytes": bytes.hex,
        "enum": _enum,
        "json": _json,
        "spatial": lambda value: encode_geometry(value).hex(),
        "vector": lambda value: encode_vector(value).hex(),
    },
)


def mysql_encoder(column: ColumnModel) -> ValueEncoder | None:
    """Return the encoder of a column's values for statements; None if they need none."""
    return _ENCODERS[column.kind]


_MOST_ROWS: Final = 500
_JOINED: Final = 16
"""Number of different keyless rows from which one join is cheaper than one search per row."""
_DUPLICATE: Final = 1062
_LONG: Final = frozenset((*LIMITS, *kinds_of("json", "spatial", "vector")))
_DENIED: Final = frozenset((1044, 1142, 1227))


class _NotAllowedError(Exception):
    """The account may not create temporary tables."""


class MysqlRows(MirrorDatabase):
    """The rows part of a MySQL mirror; subclasses add names and definitions.

    Attributes:
        staging: database for temporary tables, as SQL.
    """

    mark = "%s"
    conflict = KeyTwiceError
    staging: str
    _target: TargetServer
    _packet: int
    _changed: bool

    @abstractmethod
    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement, in which a % of a name is doubled, and return its rows."""

    def quoted(self, name: str) -> str:
        return before_arguments(mysql_name(name))

    def _of(self, model: TableModel) -> str:
        return self.table((model.database, model.name))

    def insert(self, table: str, model: TableModel, rows: Iterable[Values]) -> None:
        self._insert(table, model, rows)

    def put_rows(self, model: TableModel, key: Sequence[int], rows: Collection[Values]) -> None:
        """Add or replace rows; see the base. Columns that the operator added keep their values."""
        # VALUES() is deprecated on servers with aliases, and the only way on others.
        alias = not self._target.is_mariadb and self._target.version >= (8, 0, 19)
        new = "new.{}" if alias else "VALUES({})"
        names = [self.quoted(column.name) for column in model.columns]
        sets = ", ".join(f"{name} = {new.format(name)}" for name in names)
        end = f"{' AS new' * alias} ON DUPLICATE KEY UPDATE {sets}"
        documents = self._documents(model, range(len(model.columns)))
        changed = self._insert(self._of(model), model, rows, end, counts=bool(documents))
        # The server counts a changed row as two.
        if documents and changed < 2 * len(rows):
            keys = [tuple(row[at] for at in key) for row in rows]
            self._forget_documents(model, documents, key, keys)
            self._insert(self._of(model), model, rows, end)

    def _insert(
        self,
        table: str,
        model: TableModel,
        rows: Iterable[Values],
        end: str = "",
        *,
        counts: bool = False,
    ) -> int:
        """Add rows, and return the server's count of affected rows if asked for it."""
        done = 0
        names = ", ".join(self.quoted(column.name) for column in model.columns)
        one = f"({', '.join(placeholder(column) for column in model.columns)})"
        self._changed = True
        with _conflicts():
            for group in self._chunks(rows):
                marks = ", ".join([one] * len(group))
                sql = f"INSERT INTO {table} ({names}) VALUES {marks}{end}"
                if counts:
                    done += self.change(sql, _flat(group))
                else:
                    self.run(sql, _flat(group))
        return done

    def change_rows(
        self,
        model: TableModel,
        key: Sequence[int],
        removed: Collection[Values],
        added: Mapping[Values, Values],
        *,
        strict: bool,
    ) -> int:
        """Apply net changes; see the base.

        A replaced row is updated, so that columns that the operator added keep their values.
        """
        same = [values for values in removed if values in added]
        done = self._count(model, key, same) if strict else len(same)
        if done != len(same):
            return done
        gone = [values for values in removed if values not in added]
        done += self.remove(model, key, gone)
        if strict and done != len(removed):
            return done
        known = set(same)
        new = [row for values, row in added.items() if values not in known]
        put = [added[values] for values in same]
        if not strict:
            put, new = [*put, *new], []
        self._insert(self._of(model), model, new)
        self.put_rows(model, key, put)
        return done

    def _documents(self, model: TableModel, columns: Iterable[int]) -> list[str]:
        """Return the JSON columns whose values MySQL compares by meaning."""
        if self._target.is_mariadb or self._target.version < (5, 7):
            return []
        found = [model.columns[at] for at in columns]
        return [self.quoted(column.name) for column in found if column.kind == "json"]

    def _forget_documents(
        self, model: TableModel, names: Sequence[str], key: Sequence[int], keys: Iterable[Values]
    ) -> None:
        """Replace documents, so that the next UPDATE stores even documents that equal them.

        With binlog_row_image = FULL, MySQL changes no row whose new document has another text but
        the same meaning: ``1`` and ``1.0``, ``0.0`` and ``-0.0``.
        """
        sets = ", ".join(
            f"{one} = IF(JSON_TYPE({one}) <=> 'BOOLEAN', '[]', 'true')" for one in names
        )
        table = self._of(model)
        for where, values in self._conditions(model, key, keys):
            self.run(f"UPDATE {table} SET {sets} WHERE {where}", values)

    def _count(self, model: TableModel, key: Sequence[int], keys: Iterable[Values]) -> int:
        """Return how many of some keys exist."""
        table = self._of(model)
        return sum(
            int(self.run(f"SELECT COUNT(*) FROM {table} WHERE {where}", values)[0][0])
            for where, values in self._conditions(model, key, keys)
        )

    def remove(self, model: TableModel, key: Sequence[int], keys: Collection[Values]) -> int:
        table = self._of(model)
        return sum(
            self.change(f"DELETE FROM {table} WHERE {where}", values)
            for where, values in self._conditions(model, key, keys)
        )

    def _conditions(
        self, model: TableModel, key: Sequence[int], keys: Iterable[Values]
    ) -> Iterator[tuple[str, list[Any]]]:
        """Yield conditions, with their values, that select some keys, each for a group of them."""
        names = [self.quoted(model.columns[at].name) for at in key]
        marks = [placeholder(model.columns[at]) for at in key]
        left, one = names[0], marks[0]
        if len(key) > 1:
            left, one = f"({', '.join(names)})", f"({', '.join(marks)})"
        for group in self._chunks(_compared(model, key, values) for values in keys):
            yield f"{left} IN ({', '.join([one] * len(group))})", _flat(group)

    def patch(
        self,
        model: TableModel,
        key: Sequence[int],
        patched: Sequence[int],
        rows: Sequence[tuple[Values, Values]],
    ) -> int:
        def equal(indexes: Sequence[int], between: str) -> str:
            columns = [model.columns[at] for at in indexes]
            return between.join(f"{self.quoted(one.name)} = {placeholder(one)}" for one in columns)

        # The server counts the rows that an UPDATE changed, not the rows that it found.
        keys = dict.fromkeys(before for _, before in rows)
        missing = len(keys) - self._count(model, key, keys)
        sql = f"UPDATE {self._of(model)} SET {equal(patched, ', ')} WHERE {equal(key, ' AND ')}"
        documents = self._documents(model, patched)
        self._changed = True
        with _conflicts():
            for values, before in rows:
                arguments = (*values, *_compared(model, key, before))
                if not documents:
                    self.run(sql, arguments)
                elif not self.change(sql, arguments):
                    self._forget_documents(model, documents, key, [before])
                    self.run(sql, arguments)
        return len(rows) - missing

    # Tables without a key.

    def take_away(self, model: TableModel, counts: Collection[tuple[Values, int]]) -> int:
        """Remove keyless rows; see the base.

        Many rows are found by one join on a digest, as there is no index on all columns.
        """
        table = self._of(model)
        if len(counts) >= _JOINED and self._target.version >= (8,):
            with contextlib.suppress(_NotAllowedError):
                return self._take_many(model, table, counts)
        matches = [self._target.match(column) for column in model.columns]
        where = " AND ".join(condition for condition, _ in matches)
        done = 0
        for row, count in counts:
            values = [
                value if value is None or convert is None else convert(value)
                for value, (_, convert) in zip(row, matches, strict=True)
            ]
            done += self.change(f"DELETE FROM {table} WHERE {where} LIMIT {count}", values)
        return done

    def _take_many(
        self, model: TableModel, table: str, counts: Collection[tuple[Values, int]]
    ) -> int:
        """Delete many keyless rows by one join on a digest.

        The server computes the digests of both sides. A join cannot tell equal rows apart: all of
        them are deleted, and the surplus is inserted again.
        """
        digest = _digest(model)
        rows, wanted, found, numbers = (
            f"{self.staging}.{name}"
            for name in ("fewer_rows", "fewer", "fewer_found", "fewer_numbers")
        )
        # MySQL needs a default database for a DELETE of several tables, though all are qualified.
        self.run(f"USE {self.staging}")
        try:
            self.run(f"CREATE TEMPORARY TABLE {rows} LIKE {table}")
        except ServerError as error:
            if error.errno in _DENIED:
                raise _NotAllowedError from error
            raise
        self._insert(rows, model, (row for row, count in counts for _ in range(count)))
        key = "row_digest BINARY(32) PRIMARY KEY, row_count BIGINT NOT NULL"
        self.run(f"CREATE TEMPORARY TABLE {wanted} ({key})")
        self.run(f"INSERT INTO {wanted} SELECT {digest}, COUNT(*) FROM {rows} GROUP BY 1")
        self.run(f"CREATE TEMPORARY TABLE {found} ({key}, row_found BIGINT NOT NULL)")
        digests = f"SELECT {digest} AS d FROM {table}"
        self.run(
            f"INSERT INTO {found} SELECT s.row_digest, s.row_count, COUNT(*) "
            f"FROM ({digests}) t STRAIGHT_JOIN {wanted} s ON s.row_digest = t.d GROUP BY s.row_digest, s.row_count"
        )
        ((done, most),) = self.run(
            f"SELECT SUM(LEAST(row_count, row_found)), MAX(row_found - row_count) FROM {found}"
        )
        self.run(
            f"DELETE {table} FROM {table} STRAIGHT_JOIN {wanted} ON {wanted}.row_digest = {_digest(model, table)}"
        )
        if int(most or 0) > 0:
            self._put_back(model, table, (rows, found, numbers), int(most))
        for one in (rows, wanted, found, numbers):
            self.run(f"DROP TEMPORARY TABLE IF EXISTS {one}")
        return int(done or 0)

    def _put_back(
        self, model: TableModel, table: str, staged: tuple[str, str, str], most: int
    ) -> None:
        """Insert the rows again that were deleted in excess."""
        rows, found, numbers = staged
        names = ", ".join(self.quoted(column.name) for column in model.columns)
        self.run(f"CREATE TEMPORARY TABLE {numbers} (number INT PRIMARY KEY)")
        for group in self._chunks((number,) for number in range(most)):
            marks = ", ".join(["(%s)"] * len(group))
            self.run(f"INSERT INTO {numbers} VALUES {marks}", _flat(group))
        shown = ", ".join(f"r.{self.quoted(column.name)}" for column in model.columns)
        self.run(
            f"INSERT INTO {table} ({names}) SELECT {shown} FROM (SELECT *, {_digest(model)} AS _replica_client_digest "
            f"FROM {rows}) r JOIN {found} s ON s.row_digest = r._replica_client_digest "
            f"JOIN {numbers} n ON n.number < s.row_found - s.row_count GROUP BY s.row_digest, n.number"
        )

    def _chunks(self, rows: Iterable[Values]) -> Iterator[list[Values]]:
        """Yield the rows in groups for statements of a moderate size."""
        limit = min(self._packet // 4, 4 << 20)
        group: list[Values] = []
        size = 0
        for row in rows:
            length = sum(2 * len(v) if isinstance(v, (str, bytes)) else 24 for v in row)
            if group and (len(group) >= _MOST_ROWS or size + length > limit):
                yield group
                group, size = [], 0
            group.append(row)
            size += length
        if group:
            yield group


@contextmanager
def _conflicts() -> Iterator[None]:
    """Raise the server's duplicate key error as :class:`KeyTwiceError`."""
    try:
        yield
    except ServerError as error:
        if error.errno == _DUPLICATE:
            raise KeyTwiceError(str(error)) from error
        raise


def _digest(model: TableModel, table: str = "") -> str:
    """Return SQL for a digest of all columns of a row."""
    texts = ", ".join(_part(column, table) for column in model.columns)
    return f"UNHEX(SHA2(CONCAT({texts}), 256))"


def _part(column: ColumnModel, table: str) -> str:
    text = _exact(column, table)
    if column.kind in _LONG:
        # Concatenated long values could exceed max_allowed_packet, and the result would be NULL.
        return f"IFNULL(SHA2({text}, 256), '-')"
    return f"IFNULL(CONCAT(LENGTH({text}), ':', {text}), '-')"


def _exact(column: ColumnModel, table: str) -> str:
    """Return SQL for a text that differs for all different values of a column."""
    name = f"{table}{'.' * bool(table)}{before_arguments(mysql_name(column.name))}"
    if column.kind in REALS:
        # FLOAT is shown with six digits otherwise; an addition would remove the sign of -0.0.
        return f"CAST({name} * 1e0 AS CHAR)"
    return name if column.kind in IN_HEX else f"CAST({name} AS CHAR)"


def _compared(model: TableModel, key: Sequence[int], values: Values) -> Values:
    """Return a key in the form in which it is compared with stored keys."""
    return tuple(key_value(model.columns[at], value) for at, value in zip(key, values, strict=True))


def _flat(rows: list[Values]) -> list[Any]:
    return [value for row in rows for value in row]
