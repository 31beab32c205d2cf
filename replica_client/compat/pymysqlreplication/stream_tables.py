"""The table definitions of a stream, and the conversion of their rows to dicts."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Container, Mapping
from dataclasses import field, replace
from typing import Any

from replica_client.compat import row_dicts as ops
from replica_client.compat.pymysqlreplication.column import Column
from replica_client.compat.pymysqlreplication.constants import CHARSET, NONE_SOURCE
from replica_client.compat.pymysqlreplication.json_binary import (
    JsonDiff,
    JsonDiffOperation,
    legacy_document_value,
)
from replica_client.compat.pymysqlreplication.optional_metadata import OptionalMetaData
from replica_client.compat.pymysqlreplication.table import Table
from replica_client.compat.row_dicts import document_value
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.values.json_diff import JsonDiff as CoreDiff
from replica_client.protocol.codec.charsets import charset_of
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.column_types import BLOB_TYPES, CHARACTER_TYPES, ColumnType
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.model import TableModel
from replica_client.schema.resolve import find_mismatch, resolve
from replica_client.schema.shape import ColumnShape, TableShape

_T = ColumnType
_TIMESTAMPS = frozenset((_T.MYSQL_TYPE_TIMESTAMP, _T.MYSQL_TYPE_TIMESTAMP2))
_OPS: dict[int, tuple[int, Any]] = {
    _T.MYSQL_TYPE_DATE: (ops.DATE, NONE_SOURCE.OUT_OF_DATE_RANGE),
    _T.MYSQL_TYPE_NEWDATE: (ops.DATE, NONE_SOURCE.OUT_OF_DATE_RANGE),
    _T.MYSQL_TYPE_DATETIME: (ops.DATETIME, NONE_SOURCE.OUT_OF_DATETIME_RANGE),
    _T.MYSQL_TYPE_DATETIME2: (ops.DATETIME, NONE_SOURCE.OUT_OF_DATETIME2_RANGE),
    _T.MYSQL_TYPE_TIMESTAMP: (ops.TIMESTAMP, NONE_SOURCE.OUT_OF_DATETIME_RANGE),
    _T.MYSQL_TYPE_TIMESTAMP2: (ops.TIMESTAMP, NONE_SOURCE.OUT_OF_DATETIME2_RANGE),
    _T.MYSQL_TYPE_TIME: (ops.TIME, None),
    _T.MYSQL_TYPE_TIME2: (ops.TIME, None),
    _T.MYSQL_TYPE_ENUM: (ops.ENUM, None),
    _T.MYSQL_TYPE_SET: (ops.SET, None),
    _T.MYSQL_TYPE_JSON: (ops.JSON, None),
    _T.MYSQL_TYPE_GEOMETRY: (ops.GEOMETRY, None),
}
_DIFFS = {0: JsonDiffOperation.Replace, 1: JsonDiffOperation.Insert, 2: JsonDiffOperation.Remove}
_PARTIAL_UPDATE = 39
_KEPT = 1024


@dataclass(frozen=True, slots=True)
class TableFilter:
    """A selection of tables by their names; None means no rule.

    ``qualified``: names of tables are ``database.table``, as in asyncmy.
    """

    only_tables: Container[str] | None = None
    ignored_tables: Container[str] | None = None
    only_schemas: Container[str] | None = None
    ignored_schemas: Container[str] | None = None
    qualified: bool = False

    def wants(self, schema: str, table: str) -> bool:
        """Return whether the events of a table are delivered."""
        name = f"{schema}.{table}" if self.qualified else table
        return not (
            (self.only_tables is not None and name not in self.only_tables)
            or (self.ignored_tables is not None and name in self.ignored_tables)
            or (self.only_schemas is not None and schema not in self.only_schemas)
            or (self.ignored_schemas is not None and schema in self.ignored_schemas)
        )


@dataclass(slots=True)
class TableFacts:
    """All that is known of a table as one table map describes it."""

    body: TableMapEvent
    shape: TableShape
    named: bool
    wanted: bool
    decode: DecodeOptions
    strict: bool
    ignore_decode_errors: bool
    dbms: str
    optional_metadata: OptionalMetaData
    none_sources: bool = True
    time_zone: datetime.tzinfo | None = None
    columns: list[Column] = field(init=False)
    primary_key: str | tuple[str, ...] = field(init=False)
    _made: tuple[RowImageDecoder, ops.RowDicts] | None = None
    _partial: tuple[RowImageDecoder, ops.RowDicts] | None = None

    def __post_init__(self) -> None:
        self.columns = [Column._of(column) for column in self.shape.columns]
        keys = []
        for column, shape in zip(self.columns, self.shape.columns, strict=True):
            if not self.named:
                continue
            column.name = shape.name
            column.unsigned = bool(shape.unsigned)
            column.visibility = shape.visible
            column.is_primary = shape.primary_key_index is not None
            if shape.primary_key_index is not None:
                keys.append((shape.primary_key_index, shape.name))
            known = shape.collation_id is not None and shape.type_code not in (
                _T.MYSQL_TYPE_GEOMETRY,
                _T.MYSQL_TYPE_JSON,
            )
            charset = CHARSET.charset_by_id(shape.collation_id or 0, self.dbms) if known else None
            if charset is not None:
                column.character_set_name = charset.encoding
                column.collation_name = charset.collation
            if shape.type_code == _T.MYSQL_TYPE_ENUM and shape.labels is not None:
                column.enum_values = ["", *shape.labels]
            if shape.type_code == _T.MYSQL_TYPE_SET and shape.labels is not None:
                column.set_values = list(shape.labels)
        names = tuple(name for _, name in sorted(keys))
        self.primary_key = "" if not names else names[0] if len(names) == 1 else names

    def table(self, table_id: int) -> Table:
        """Return the table with a number."""
        return Table(
            table_id,
            self.body.schema,
            self.body.table,
            self.columns,
            self.primary_key,
            self.named,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names that rows have: ``UNKNOWN_COL0`` … where they are not known."""
        if self.named:
            return self.shape.column_names
        return tuple(f"UNKNOWN_COL{at}" for at in range(len(self.shape.columns)))

    def rows(self, event: Any) -> list[dict[str, Any]]:
        """Return the rows of an event as dicts.

        Raises:
            BinlogDecodeError: the bytes are not rows of this table.
            UnicodeDecodeError: text is not valid in its character set.
        """
        body = event.body
        decoder, dicts = self._whole()
        if event.header.type_code != _PARTIAL_UPDATE:
            rows = decoder.images_of(body)
            return dicts.rows(
                body.kind, body.columns_before, body.columns_after, rows, 0, len(rows)
            )
        if self._partial is None:
            self._partial = self._new(_partial_json(self.strict), keep_diffs=True)
        decoder, dicts = self._partial
        rows = decoder.images_of(body)
        return dicts.of_two(
            decoder.decode_rows(body.kind, body.columns_before, body.columns_after, rows, True)
        )

    def rows_at(
        self, kind: str, before: bytes, after: bytes | None, data: bytes, start: int, end: int
    ) -> list[dict[str, Any]]:
        """Return the rows of an event that is neither partial nor compressed, given the place of its images.

        Raises:
            BinlogDecodeError: the bytes are not rows of this table.
            UnicodeDecodeError: text is not valid in its character set.
        """
        return self._whole()[1].rows(kind, before, after, data, start, end)

    def _whole(self) -> tuple[RowImageDecoder, ops.RowDicts]:
        made = self._made
        if made is None:
            made = self._made = self._new()
        return made

    def _new(
        self, json: Callable[[Any], Any] | None = None, *, keep_diffs: bool = False
    ) -> tuple[RowImageDecoder, ops.RowDicts]:
        decoder = RowImageDecoder(self._readable(), self.decode, keep_diffs=keep_diffs)
        plan, arguments = self._plan(json)
        return decoder, ops.RowDicts(decoder, self.names, plan, arguments, self.none_sources)

    def _readable(self) -> TableShape:
        """Return the shape to read rows with; ``strict`` reads integers without names as signed."""
        if not self.strict or self.named:
            return self.shape
        columns = tuple(replace(column, unsigned=None) for column in self.shape.columns)
        return replace(self.shape, columns=columns)

    def _plan(
        self, json: Callable[[Any], Any] | None = None
    ) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        found = [self._op(column) for column in self.shape.columns]
        if json is not None:
            found = [
                (ops.CALL, json) if column.type_code == _T.MYSQL_TYPE_JSON else one
                for one, column in zip(found, self.shape.columns, strict=True)
            ]
        return tuple(op for op, _ in found), tuple(argument for _, argument in found)

    def _op(self, column: ColumnShape) -> tuple[int, Any]:
        code = column.type_code
        if self.strict and code in _LEGACY:
            return ops.CALL, _LEGACY[code]
        if code in _TIMESTAMPS and self.time_zone is not None:
            return ops.CALL, _aware(self.time_zone)
        if code == _T.MYSQL_TYPE_BIT:
            return ops.BIT, f"0{column.length}b"
        if code in CHARACTER_TYPES:
            return self._string(column)
        return _OPS.get(code, (ops.KEEP, None))

    def _string(self, column: ColumnShape) -> tuple[int, Any]:
        collation = column.collation_id
        ignore = self.ignore_decode_errors
        if self.strict and not self.named:
            collation = None  # python-mysql-replication takes all strings for text then
        if collation is None:
            lenient = column.type_code in BLOB_TYPES and not self.strict
            return ops.CALL, _unknown_text(lenient, ignore)
        name = charset_of(collation).name
        if name == "binary":
            if not self.strict:
                return ops.KEEP, None
            fixed = column.type_code == _T.MYSQL_TYPE_STRING
            return ops.CALL, _legacy_binary if fixed else _legacy_bytes
        if ignore:
            charset = CHARSET.charset_by_name(name)
            return ops.CALL, _lossy_text(name if charset is None else charset.encoding)
        return ops.KEEP, None


class TableBook:
    """Finds a table's facts by its table map.

    Args:
        wanted: which tables are.
        strict: as python-mysql-replication has it.
        ignore_decode_errors: leave out bytes that are not text.
        names_of: finds names that the binlog does not have; None: they stay unknown.
        model_of: finds definitions of tables whose names the binlog does not have.
        none_sources: whether rows tell why values are None.
        time_zone: of TIMESTAMP values, which are aware then; None: they are in UTC and do not say so.
    """

    def __init__(
        self,
        wanted: TableFilter,
        *,
        strict: bool = False,
        ignore_decode_errors: bool = False,
        names_of: Callable[[str, str], list[str] | None] | None = None,
        model_of: Callable[[str, str], TableModel | None] | None = None,
        none_sources: bool = True,
        time_zone: datetime.tzinfo | None = None,
    ) -> None:
        self._time_zone = time_zone
        self._model_of = model_of
        self._none_sources = none_sources
        self._wanted = wanted
        self._strict = strict
        self._ignore = ignore_decode_errors
        self._names_of = names_of
        # Bytes are decoded here where invalid ones are left out.
        self.decode = DecodeOptions(invalid_text="bytes" if ignore_decode_errors else "strict")
        self._facts: SizedCache[tuple[object, ...], TableFacts] = SizedCache(_KEPT)

    def wants(self, schema: str, table: str) -> bool:
        """Return whether the events of a table are delivered."""
        return self._wanted.wants(schema, table)

    def facts(self, body: TableMapEvent, dbms: str) -> TableFacts:
        """Return what is known of the table of a table map.

        Raises:
            BinlogDecodeError: the metadata does not fit the columns.
        """
        # What the source says of a table is true of one number of it: with the next one it was altered.
        number = body.table_id if self._model_of is not None else 0
        key = (body.definition, dbms, number)
        found = self._facts.get(key)
        if found is None:
            found = self._new(body, dbms)
            if found.named or (self._names_of is None and self._model_of is None):
                self._facts.put(key, found, len(body.column_types) + len(body.optional_metadata))
        return found

    def _new(self, body: TableMapEvent, dbms: str) -> TableFacts:
        flavor = ServerFlavor.MARIADB if dbms == "mariadb" else ServerFlavor.MYSQL
        shape = TableShape.from_table_map(body, flavor)
        named = shape.names_resolved
        wanted = self._wanted.wants(body.schema, body.table)
        model = None
        if not named and wanted and self._model_of is not None:
            model = self._model_of(body.schema, body.table)
        if model is not None and not find_mismatch(shape, model):
            shape, named = resolve(shape, model), True
        if not named and wanted and self._names_of is not None:
            names = self._names_of(body.schema, body.table)
            if names is not None and len(names) == len(shape.columns):
                columns = (
                    replace(column, name=name, resolved=True)
                    for column, name in zip(shape.columns, names, strict=True)
                )
                shape, named = replace(shape, columns=tuple(columns)), True
        return TableFacts(
            body,
            shape,
            named,
            wanted,
            self.decode,
            self._strict,
            self._ignore,
            dbms,
            OptionalMetaData._of(body, shape),
            self._none_sources,
            self._time_zone,
        )


def _unknown_text(lenient: bool, ignore: bool) -> Callable[[bytes], Any]:
    """Return a converter for text whose character set is not in the binlog: it decodes UTF-8."""

    def convert(data: bytes) -> str | bytes:
        try:
            return data.decode("utf-8", "ignore" if ignore and not lenient else "strict")
        except UnicodeDecodeError:
            if lenient:
                return data
            raise

    return convert


def _aware(zone: datetime.tzinfo) -> Callable[[Any], datetime.datetime]:
    """TIMESTAMP in a time zone."""

    def convert(value: Any) -> datetime.datetime:
        if value.is_zero:
            raise ops.NoValue(NONE_SOURCE.OUT_OF_DATETIME2_RANGE)
        found: datetime.datetime = value.to_python().astimezone(zone)
        return found

    return convert


def _lossy_text(encoding: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        return value.decode(encoding, "ignore") if type(value) is bytes else value

    return convert


def _partial_json(strict: bool) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, tuple):
            return legacy_document_value(value) if strict else document_value(value.data)
        diffs = [_diff(diff) for diff in value]
        if not diffs:
            raise ops.NoValue(NONE_SOURCE.JSON_PARTIAL_UPDATE)
        return diffs[0] if len(diffs) == 1 or strict else diffs

    return convert


def _diff(diff: CoreDiff) -> JsonDiff:
    value = None if diff.value is None else document_value(diff.value.data)
    return JsonDiff(_DIFFS[diff.operation], diff.path.encode(), value)


# What python-mysql-replication gives, right or not.


def _legacy_bytes(data: bytes) -> bytes | str:
    return data or ""


def _legacy_binary(data: bytes) -> bytes | str:
    return _legacy_bytes(data.rstrip(b"\0"))


def _legacy_time(value: Any) -> datetime.timedelta:
    seconds = (value.hours * 60 + value.minutes) * 60 + value.seconds
    if value.negative:
        seconds = -seconds - bool(value.microseconds)
    return datetime.timedelta(seconds=seconds, microseconds=value.microseconds)


def _legacy_timestamp(value: Any) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(  # noqa: DTZ001
        seconds=value.seconds or 0, microseconds=value.microseconds
    )


def _legacy_label(value: Any) -> str:
    if value.label is None:
        raise ops.NoValue(NONE_SOURCE.NULL)
    label: str = value.label
    return label


def _legacy_set(value: Any) -> set[str]:
    if not value.bits or value.labels is None:
        raise ops.NoValue(NONE_SOURCE.NULL if value.bits else NONE_SOURCE.EMPTY_SET)
    return set(value.labels)


def _legacy_json(value: Any) -> Any:
    found = legacy_document_value(value)
    if found is None:
        raise ops.NoValue(NONE_SOURCE.NULL)
    return found


_LEGACY: Mapping[int, Callable[[Any], Any]] = {
    _T.MYSQL_TYPE_TIME: _legacy_time,
    _T.MYSQL_TYPE_TIME2: _legacy_time,
    _T.MYSQL_TYPE_TIMESTAMP: _legacy_timestamp,
    _T.MYSQL_TYPE_TIMESTAMP2: _legacy_timestamp,
    _T.MYSQL_TYPE_YEAR: lambda year: year or 1900,
    _T.MYSQL_TYPE_ENUM: _legacy_label,
    _T.MYSQL_TYPE_SET: _legacy_set,
    _T.MYSQL_TYPE_JSON: _legacy_json,
}
