"""Conversion of table-map columns to column definitions, and of definitions to SQL types."""

from __future__ import annotations

import re
from typing import Final

from replica_client.errors import SchemaError
from replica_client.schema.character_sets import BINARY, charset_of_id, max_length
from replica_client.schema.kinds import KINDS, LABELLED, SIZED, TEXT_KINDS
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.names import mysql_text
from replica_client.schema.shape import ColumnShape, TableShape, kind_of

BINARY_COLLATION: Final = 63
_KIND: Final = re.compile(r"[a-z][a-z0-9]*")


def is_binary(column: ColumnShape) -> bool:
    """Return whether a string or BLOB column holds bytes.

    A column without a known collation counts as binary.
    """
    return column.collation_id in (None, BINARY_COLLATION)


def table_model(shape: TableShape, columns: tuple[ColumnShape, ...] | None = None) -> TableModel:
    """Return the definition of a table, as complete as its table map allows.

    Args:
        shape: shape of the table.
        columns: the columns to include; None for all.
    """
    wanted = shape.columns if columns is None else columns
    key = [shape.columns[at] for at in shape.primary_key]
    return TableModel(
        shape.database,
        shape.table,
        tuple(column_model(column) for column in wanted),
        tuple((column.name, column.primary_key_prefix) for column in key),
    )


def column_model(column: ColumnShape) -> ColumnModel:
    """Return the definition of a column, as complete as its table map allows."""
    kind, length, charset = kind_of(column), None, None
    unit = KINDS[kind].unit
    if kind in TEXT_KINDS:
        charset = charset_of_id(column.collation_id)
    if unit == "characters":
        length = column.length // max_length(charset or BINARY)
    elif unit == "dimensions":
        length = column.vector_dimension or column.length // KINDS[kind].size or None
    elif unit:
        length = column.length
    return ColumnModel(
        column.name,
        kind,
        length,
        column.scale,
        column.fraction_digits,
        bool(column.unsigned),
        charset,
        column.labels if kind in LABELLED else None,
        column.nullable,
        column.visible,
    )


def sql_type(column: ColumnModel) -> str:
    """Return the type as ``information_schema.columns.column_type`` writes it.

    Display widths are left out. In DDL the text has the same meaning if the session's ``sql_mode``
    lacks ``NO_BACKSLASH_ESCAPES``.

    Raises:
        SchemaError: the kind is no word.
    """
    if not _KIND.fullmatch(column.kind):
        raise SchemaError(f"column {column.name!r:.80}: {column.kind!r:.80} is not a type")
    text = column.kind
    if column.labels is not None:
        labels = (mysql_text(label, backslash_escapes=True) for label in column.labels)
        text += "(" + ",".join(labels) + ")"
    elif column.kind == "decimal":
        text += f"({column.length or 10},{column.scale})"
    elif column.kind in SIZED and column.length is not None:
        text += f"({column.length})"
    elif column.fraction_digits:
        text += f"({column.fraction_digits})"
    return text + (" unsigned" if column.unsigned else "")


def listed_type(column: ColumnModel) -> str:
    """Return the type as servers list it, with the display width of its definition.

    Raises:
        SchemaError: the kind is no word.
    """
    words = column.type_name.split()
    if column.kind == "geometry" and words:
        return words[0].lower()
    text = sql_type(column)
    if column.display_width is not None:
        width = str(column.display_width)
        if column.display_scale is not None:
            width += f",{column.display_scale}"
        text = text.replace(column.kind, f"{column.kind}({width})", 1)
    if "BOOL" in words or "BOOLEAN" in words:
        text = "tinyint(1)"
    return text + (" zerofill" if "ZEROFILL" in words else "")
