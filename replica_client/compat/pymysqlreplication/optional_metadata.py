"""The optional metadata of a table map as python-mysql-replication gives it."""

from __future__ import annotations

from typing import Any

from replica_client.protocol.binlog.events.query_status import QueryStatus
from replica_client.protocol.binlog.events.table_map import TableMapEvent, TableMetadata
from replica_client.protocol.constants.column_types import (
    CHARACTER_TYPES,
    LABEL_TYPES,
    NUMERIC_TYPES,
    ColumnType,
)
from replica_client.schema.shape import TableShape


class OptionalMetaData:
    """The optional metadata of a table map; a list is empty where the table map has no such field."""

    def __init__(self) -> None:
        self.unsigned_column_list: list[bool] = []
        self.default_charset_collation: int | None = None
        self.charset_collation: dict[int, int] = {}
        self.column_charset: list[int] = []
        self.column_name_list: list[str] = []
        self.set_str_value_list: list[list[str]] = []
        self.set_enum_str_value_list: list[list[str]] = []
        self.geometry_type_list: list[int] = []
        self.simple_primary_key_list: list[int] = []
        self.primary_keys_with_prefix: dict[int, int] = {}
        self.enum_and_set_default_charset: int | None = None
        self.enum_and_set_charset_collation: dict[int, int] = {}
        self.enum_and_set_default_column_charset_list: list[int] = []
        self.charset_collation_list: list[int] = []
        self.enum_and_set_collation_list: list[int] = []
        self.visibility_list: list[bool] = []

    def dump(self) -> None:
        """Print it."""
        print(f"=== {self.__class__.__name__} ===")  # noqa: T201
        for label, name in _DUMPED:
            print(f"{label}: {getattr(self, name)}")  # noqa: T201

    @classmethod
    def _of(cls, body: TableMapEvent, shape: TableShape) -> OptionalMetaData:
        self = cls()
        if not body.optional_metadata:
            return self
        metadata = body.metadata
        self._fill(metadata, shape)
        return self

    def _fill(self, metadata: TableMetadata, shape: TableShape) -> None:
        if metadata.signedness is not None:
            signs = iter(metadata.signedness)
            self.unsigned_column_list = [
                column.type_code in NUMERIC_TYPES and next(signs, False) for column in shape.columns
            ]
        if metadata.default_charset is not None:
            self.default_charset_collation = metadata.default_charset.collation_id
            self.charset_collation = dict(metadata.default_charset.exceptions)
            self.charset_collation_list = _spread(metadata.default_charset, CHARACTER_TYPES, shape)
        if metadata.column_charset is not None:
            self.column_charset = list(metadata.column_charset)
            self.charset_collation_list = list(metadata.column_charset)
        if metadata.column_names is not None:
            self.column_name_list = [
                name.decode(errors="replace") for name in metadata.column_names
            ]
        self.set_str_value_list = _texts(metadata.set_labels)
        self.set_enum_str_value_list = _texts(metadata.enum_labels)
        self.geometry_type_list = list(metadata.geometry_types or ())
        self.visibility_list = list(metadata.visibility or ())
        if metadata.primary_key is not None:
            if any(prefix for _, prefix in metadata.primary_key):
                self.primary_keys_with_prefix = dict(metadata.primary_key)
            else:
                self.simple_primary_key_list = [column for column, _ in metadata.primary_key]
        if metadata.enum_and_set_default_charset is not None:
            default = metadata.enum_and_set_default_charset
            self.enum_and_set_default_charset = default.collation_id
            self.enum_and_set_charset_collation = dict(default.exceptions)
            self.enum_and_set_collation_list = _spread(default, LABEL_TYPES, shape)
        if metadata.enum_and_set_column_charset is not None:
            charsets = list(metadata.enum_and_set_column_charset)
            self.enum_and_set_default_column_charset_list = charsets
            self.enum_and_set_collation_list = list(charsets)


def _texts(labels: tuple[tuple[bytes, ...], ...] | None) -> list[list[str]]:
    return [[label.decode(errors="replace") for label in column] for column in labels or ()]


def _spread(default: Any, types: frozenset[ColumnType], shape: TableShape) -> list[int]:
    """Return the collation of each column of some types, from a default and its exceptions."""
    count = sum(column.type_code in types for column in shape.columns)
    exceptions = dict(default.exceptions)
    return [exceptions.get(at, default.collation_id) for at in range(count)]


_DUMPED = (
    ("unsigned_column_list", "unsigned_column_list"),
    ("default_charset_collation", "default_charset_collation"),
    ("charset_collation", "charset_collation"),
    ("column_charset", "column_charset"),
    ("column_name_list", "column_name_list"),
    ("set_str_value_list ", "set_str_value_list"),
    ("set_enum_str_value_list ", "set_enum_str_value_list"),
    ("geometry_type_list ", "geometry_type_list"),
    ("simple_primary_key_list", "simple_primary_key_list"),
    ("primary_keys_with_prefix", "primary_keys_with_prefix"),
    ("visibility_list", "visibility_list"),
    ("charset_collation_list", "charset_collation_list"),
    ("enum_and_set_collation_list", "enum_and_set_collation_list"),
)


_NAMES = {
    "flags2": "flags2",
    "sql_mode": "sql_mode",
    "auto_increment_increment": "auto_increment_increment",
    "auto_increment_offset": "auto_increment_offset",
    "character_set_client": "character_set_client",
    "collation_connection": "collation_connection",
    "collation_server": "collation_server",
    "time_zone": "time_zone",
    "lc_time_names": "lc_time_names_number",
    "character_set_database": "charset_database_number",
    "table_map_for_update": "table_map_for_update",
    "invoker_user": "user",
    "invoker_host": "host",
    "microseconds": "microseconds",
    "explicit_defaults_for_timestamp": "explicit_defaults_ts",
    "ddl_xid": "ddl_xid",
    "default_collation_for_utf8mb4": "default_collation_for_utf8mb4_number",
    "sql_require_primary_key": "sql_require_primary_key",
    "default_table_encryption": "default_table_encryption",
}
_MARIADB_NAMES = _NAMES | {"microseconds": "hrnow", "ddl_xid": "xid"}

STATUS_NAMES = frozenset(
    (*_NAMES.values(), *_MARIADB_NAMES.values(), "catalog_nz_code", "mts_accessed_db_names")
)
"""The names of all of them."""


def status_attributes(status: QueryStatus, dbms: str) -> dict[str, Any]:
    """Return the attributes of the status variables that are present."""
    present = status.present()
    names = _MARIADB_NAMES if dbms == "mariadb" else _NAMES
    found = {names[name]: value for name, value in present.items() if name in names}
    if status.catalog is not None:
        found["catalog_nz_code"] = status.catalog
    if status.updated_databases is not None:
        found["mts_accessed_db_names"] = list(status.updated_databases)
    return found
