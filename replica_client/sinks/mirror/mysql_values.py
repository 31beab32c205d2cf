"""Values and columns in a mirror on MySQL or MariaDB: the source's own types.

Text keeps its character set if the server has it (else utf8mb4). Its collation is binary, without
padding if possible: keys that differ on the source must differ here. UUID, INET4, INET6 (MariaDB)
and vectors are text or bytes on a server without these types.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from replica_client.errors import SinkError
from replica_client.protocol.binlog.values.binary_types import encode_geometry, encode_vector
from replica_client.protocol.binlog.values.enum_set import EnumValue
from replica_client.rows.special_values import RawJson
from replica_client.schema.kinds import NUMBERS, REALS, TEXT_KINDS, kinds_of, rules
from replica_client.schema.model import ColumnModel
from replica_client.schema.names import before_arguments, mysql_name
from replica_client.sinks.column_models import sql_type
from replica_client.sinks.mirror.collector import ValueEncoder

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
