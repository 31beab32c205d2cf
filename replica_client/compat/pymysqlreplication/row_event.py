"""Table map and rows events as python-mysql-replication gives them."""

from __future__ import annotations

import datetime
from enum import Enum
from typing import Any

from replica_client.compat.event_screen import state_of
from replica_client.compat.pymysqlreplication.bitmap import BitCount as BitCount, BitGet as BitGet
from replica_client.compat.pymysqlreplication.column import Column as Column
from replica_client.compat.pymysqlreplication.constants import (
    BINLOG as BINLOG,
    CHARSET as CHARSET,
    FIELD_TYPE as FIELD_TYPE,
    NONE_SOURCE as NONE_SOURCE,
)
from replica_client.compat.pymysqlreplication.event import BinLogEvent
from replica_client.compat.pymysqlreplication.optional_metadata import (
    OptionalMetaData as OptionalMetaData,
)
from replica_client.compat.pymysqlreplication.stream_tables import TableFacts
from replica_client.compat.pymysqlreplication.table import Table as Table
from replica_client.errors import ColumnDecodeError

_COLUMN_NAME_CACHE: dict[str, list[str]] = {}

charset_by_name = CHARSET.charset_by_name
__all__ = [
    "BINLOG",
    "CHARSET",
    "FIELD_TYPE",
    "NONE_SOURCE",
    "BinLogEvent",
    "BitCount",
    "BitGet",
    "Column",
    "DeleteRowsEvent",
    "MetadataFieldType",
    "OptionalMetaData",
    "PartialUpdateRowsEvent",
    "RowImageType",
    "RowsEvent",
    "Table",
    "TableMapEvent",
    "UpdateRowsEvent",
    "WriteRowsEvent",
    "charset_by_name",
    "datetime",
    "fetch_column_names",
    "find_charset",
]


def find_charset(charset_id: int, dbms: str = "mysql") -> tuple[str, str] | tuple[None, None]:
    """Return the codec and the name of a collation."""
    found = CHARSET.charset_by_id(charset_id, dbms)
    return (None, None) if found is None else (found.encoding, found.collation)


def fetch_column_names(
    ctl_connection: Any,
    schema: str,
    table: str,
    use_column_name_cache: bool = False,
    enable_logging: bool = False,
) -> list[str]:
    """Ask the server for the current names of a table's columns, and cache them by the table's name."""
    if not use_column_name_cache:
        return []
    key = f"{schema}.{table}"
    names = _COLUMN_NAME_CACHE.get(key)
    if names is None:
        cursor = ctl_connection.cursor()
        cursor.execute(
            "SELECT COLUMN_NAME AS name FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            (schema, table),
        )
        rows = cursor.fetchall()
        cursor.close()
        names = [row["name"] if isinstance(row, dict) else row[0] for row in rows]
        if names:
            _COLUMN_NAME_CACHE[key] = names
    return names


class MetadataFieldType(Enum):
    """Kinds of optional metadata."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    VISIBILITY = 12
    UNKNOWN_METADATA_FIELD_TYPE = 128

    @staticmethod
    def by_index(index: int) -> MetadataFieldType:
        """Return the kind with a code."""
        return MetadataFieldType(index)


class RowImageType(Enum):
    """The image of a row."""

    WriteAI = 0
    UpdateBI = 1
    UpdateAI = 2
    DeleteBI = 3

    @staticmethod
    def by_index(index: int) -> RowImageType:
        """Return the image with a code."""
        return RowImageType(index)


class TableMapEvent(BinLogEvent):
    """The table of the rows that follow.

    Attributes:
        table_id: the number by which rows events refer to it.
        schema: its database.
        table: its name.
        column_count: how many columns it has.
        columns: the columns.
        null_bitmask: which of them can be NULL.
        optional_metadata: the optional fields of the table map.
        table_obj: the table with all of these.
    """

    def _decode(self, body: Any) -> None:
        context = self.packet._context
        self._facts = facts = context.tables.facts(body, context.dbms)
        self.table_id: int = body.table_id
        self.flags: int = body.flags
        self.schema: str = body.schema
        self.schema_length = len(body.schema.encode())
        self.table: str = body.table
        self.table_length = len(body.table.encode())
        self.column_count = len(body.column_types)
        self.columns: list[Column] = facts.columns
        self.null_bitmask: bytes = body.null_bitmap
        self.optional_metadata: OptionalMetaData = facts.optional_metadata
        self.table_obj: Table = facts.table(body.table_id)

    @property
    def _processed(self) -> bool:
        return bool(self._facts.wanted)

    def get_table(self) -> Table:
        """Return the table."""
        return self.table_obj

    def _dump(self) -> None:
        print(f"Table id: {self.table_id}")  # noqa: T201
        print(f"Schema: {self.schema}")  # noqa: T201
        print(f"Table: {self.table}")  # noqa: T201
        print(f"Columns: {self.column_count}")  # noqa: T201
        self.optional_metadata.dump()


class RowsEvent(BinLogEvent):
    """Rows of one table.

    Attributes:
        table_id: the table's number.
        schema: the table's database.
        table: the table's name.
        columns: what the columns are.
        primary_key: as :class:`Table` has it.
        number_of_columns: of the table.
        columns_present_bitmap: which columns the images have.
        rows: a dict for each row; decoded when they are first asked for.
    """

    is_partial_json_update = False
    _kind = "insert"
    # Where the images are in ``_data``; 0: in the decoded event of the packet.
    _images = 0
    _end = 0

    def _decode(self, body: Any) -> None:
        self.table_id: int = body.table_id
        self.flags: int = body.flags
        self.number_of_columns: int = body.column_count
        self.columns_present_bitmap: bytes = body.columns_before
        self._rows: list[dict[str, Any]] | None = None
        self._facts = facts = self.packet._context.table_map._facts(body.table_id)
        if facts is not None:
            self.schema: str = facts.body.schema
            self.table: str = facts.body.table
            self.columns: list[Column] = facts.columns
            self.primary_key: str | tuple[str, ...] = facts.primary_key
        if body.version == 2:
            self.extra_data_length = 2 + len(body.extra_info)
            if body.extra_info:
                self._extra(body)

    def _extra(self, body: Any) -> None:
        extra = body.extra
        self.extra_data_type: int = body.extra_info[0]
        if extra.partition_id is not None:
            self.partition_id: int = extra.partition_id
            if extra.source_partition_id is not None:
                self.source_partition_id: int = extra.source_partition_id
        elif extra.ndb_data is not None:
            self.nbd_info_length: int = body.extra_info[1]
            self.nbd_info_format: int | None = extra.ndb_format
            self.nbd_info: bytes = extra.ndb_data
        else:
            self.extra_data: bytes = body.extra_info[1:]

    @property
    def _processed(self) -> bool:
        return self._facts is not None and bool(self._facts.wanted)

    @staticmethod
    def _is_null(null_bitmap: bytes, position: int) -> int:
        """Return a bit of a bitmap; not 0 when it is set."""
        return null_bitmap[position >> 3] & (1 << (position & 7))

    @staticmethod
    def charset_to_encoding(name: str) -> str:
        """Return the codec of a character set."""
        found = CHARSET.charset_by_name(name)
        return name if found is None else found.encoding

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows.

        Raises:
            BinlogDecodeError: the bytes are not rows of this table.
            UnicodeDecodeError: text that is not of its character set.
        """
        rows = self._rows
        if rows is None:
            if self._facts is None:
                raise ColumnDecodeError(f"no TABLE_MAP event announced table id {self.table_id}")
            try:
                rows = self._rows = self._decoded_rows(self._facts)
            except ColumnDecodeError as error:
                if isinstance(error.__cause__, UnicodeDecodeError):
                    raise error.__cause__ from None
                raise
        return rows

    def _decoded_rows(self, facts: TableFacts) -> list[dict[str, Any]]:
        if not self._images:
            return facts.rows(self.packet._event)
        return facts.rows_at(
            self._kind,
            self.columns_present_bitmap,
            state_of(self).get("columns_present_bitmap2"),
            self._data,
            self._images,
            self._end,
        )

    def _dump(self) -> None:
        print(f"Table: {self.schema}.{self.table}")  # noqa: T201
        print(f"Affected columns: {self.number_of_columns}")  # noqa: T201
        print(f"Changed rows: {len(self.rows)}")  # noqa: T201
        named = self.table_map[self.table_id].column_name_flag
        print(f"Column Name Information Flag: {named}")  # noqa: T201
        print("Values:")  # noqa: T201
        for row in self.rows:
            print("--")  # noqa: T201
            self._print(row)

    def _print(self, row: dict[str, Any]) -> None:
        for name, value in row["values"].items():
            source = row["none_sources"].get(name)
            text = f"{value} ({source})" if source else value
            print(f"* {name} : {text}")  # noqa: T201


class WriteRowsEvent(RowsEvent):
    """Rows that were inserted: ``values`` and ``none_sources``."""


class DeleteRowsEvent(RowsEvent):
    """Rows that were deleted: ``values`` and ``none_sources``."""

    _kind = "delete"


class UpdateRowsEvent(RowsEvent):
    """Rows that were updated: ``before_values``, ``after_values`` and their ``none_sources``."""

    _kind = "update"

    def _decode(self, body: Any) -> None:
        super()._decode(body)
        self.columns_present_bitmap2: bytes = body.columns_after

    def _print(self, row: dict[str, Any]) -> None:
        for name, old in row["before_values"].items():
            before = row["before_none_sources"].get(name)
            after = row["after_none_sources"].get(name)
            new = row["after_values"].get(name)
            left = (f"{old} ", f"{before} ") if before else old
            right = (f"{new} ", f"{after} ") if after else new
            print(f"*{name}:{left}=>{right}")  # noqa: T201


class PartialUpdateRowsEvent(UpdateRowsEvent):
    """Rows that were updated, JSON documents among them in part: a ``JsonDiff`` for each."""

    is_partial_json_update = True
