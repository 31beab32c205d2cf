"""Facts that servers leave out of the binlog, by flavour, version and setting.

Readers look a fact up here before they trust the binlog. A listed fact is unverified. The size in
the table map may rule it out; otherwise the definition is needed, from a schema history or the
source; without a definition the column is refused by name.

Each row was seen on MySQL 5.6 and 9.7, MariaDB 10.11 and 11.8, or is in the release notes of the
version.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from replica_client.errors import SchemaError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.column_types import (
    CHARACTER_TYPES,
    INTEGER_TYPES,
    LABEL_TYPES,
)
from replica_client.schema.character_sets import BINARY, representative_id
from replica_client.schema.kinds import HIDDEN_KINDS, KINDS, SIGNED, TEXT_KINDS, TYPE_CODES
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.shape import ColumnShape, TableShape

Version = tuple[int, int, int]
UNKNOWN_VERSION: Final[Version] = (0, 0, 0)

_BINARY_COLLATION: Final = 63
TEXT_CODES: Final = CHARACTER_TYPES | LABEL_TYPES
"""Type codes of values that are text or bytes, by their collation."""

MODE_FOREIGN: Final = 0x100 | 0x200 | 0x400 | 0x800 | 0x1000 | 0x40000
"""POSTGRESQL, ORACLE, MSSQL, DB2, MAXDB and ANSI."""
MODE_NO_TABLE_OPTIONS: Final = 0x4000
MODE_NO_FIELD_OPTIONS: Final = 0x8000
MODE_WITHOUT_CHARSETS: Final = 0x10000 | 0x20000
"""MYSQL323 and MYSQL40."""


class UnwrittenByMode(NamedTuple):
    """A part that a server leaves out of its own CREATE TABLE (for CREATE … SELECT).

    Attributes:
        part: ``"table charset"``: the table's character set, so that columns without their own have
            an unknown one; ``"column charset"``: that of columns, too.
        modes: bits of ``sql_mode``, any of which omits the part.
        flavor: of the servers that do so.
        until: the first version that no longer does so; None while all do.
    """

    part: str
    modes: int
    flavor: ServerFlavor
    until: Version | None = None


UNWRITTEN_BY_MODE: Final = (
    UnwrittenByMode("column charset", MODE_WITHOUT_CHARSETS, ServerFlavor.MARIADB),
    UnwrittenByMode("column charset", MODE_WITHOUT_CHARSETS, ServerFlavor.MYSQL, (8, 0, 0)),
    UnwrittenByMode("table charset", MODE_FOREIGN | MODE_NO_TABLE_OPTIONS, ServerFlavor.MARIADB),
    UnwrittenByMode("table charset", MODE_FOREIGN | MODE_NO_TABLE_OPTIONS, ServerFlavor.MYSQL),
)


class DoubtfulName(NamedTuple):
    """A name of a character set whose meaning depends on a setting that no event has.

    Attributes:
        name: as written in a statement.
        meanings: character sets that it can mean.
        setting: the setting that decides.
        flavor: of the servers that have the setting.
        since: the first version that has it.
    """

    name: str
    meanings: tuple[str, ...]
    setting: str
    flavor: ServerFlavor
    since: Version


DOUBTFUL_NAMES: Final = (
    DoubtfulName(
        "utf8", ("utf8mb3", "utf8mb4"), "old_mode=UTF8_IS_UTF8MB3", ServerFlavor.MARIADB, (10, 6, 1)
    ),
)
"""``default_collation_for_utf8mb4`` and ``character_set_collations`` only choose a collation."""


def hidden_kinds(
    column: ColumnShape, flavor: ServerFlavor, version: Version = UNKNOWN_VERSION
) -> tuple[str, ...]:
    """Return the types that a column may have without the table map naming them.

    Args:
        column: of the table map.
        flavor: of the server that wrote it.
        version: of that server; (0, 0, 0) when it is not known, which is any.
    """
    if column.collation_id != _BINARY_COLLATION or column.definition is not None:
        return ()
    return tuple(
        hidden.name
        for hidden in HIDDEN_KINDS
        if flavor == ServerFlavor.MARIADB
        and hidden.hidden_in[0] == column.type_code
        and (version >= hidden.since or version == UNKNOWN_VERSION)
        and 0 < column.length <= hidden.most
        and column.length % hidden.size == 0
    )


def hiding_columns(
    shape: TableShape, flavor: ServerFlavor, version: Version = UNKNOWN_VERSION
) -> dict[str, tuple[str, ...]]:
    """Return the columns, by name, whose type a table map may hide, with the possible types."""
    found = {column.name: hidden_kinds(column, flavor, version) for column in shape.columns}
    return {name: kinds for name, kinds in found.items() if kinds}


def describes_rows(
    shape: TableShape, flavor: ServerFlavor, version: Version = UNKNOWN_VERSION
) -> bool:
    """Return whether a table map alone is enough to read its rows.

    That needs ``binlog_row_metadata=FULL``.
    """
    return shape.names_resolved and all(
        _is_described(column) and not hidden_kinds(column, flavor, version)
        for column in shape.columns
    )


def _is_described(column: ColumnShape) -> bool:
    if column.type_code in LABEL_TYPES and column.labels is None:
        return False
    if column.type_code in TEXT_CODES and column.collation_id is None:
        return False
    return column.type_code not in INTEGER_TYPES or column.unsigned is not None


def unwritten_parts(
    sql_mode: int, flavor: ServerFlavor, version: Version = UNKNOWN_VERSION
) -> frozenset[str]:
    """Return the parts that a server omits from its own CREATE TABLE under an SQL mode."""
    return frozenset(
        row.part
        for row in UNWRITTEN_BY_MODE
        if row.flavor == flavor
        and row.modes & sql_mode
        and (row.until is None or version < row.until)
    )


def is_doubtful_name(name: str, flavor: ServerFlavor, version: Version = UNKNOWN_VERSION) -> bool:
    """Return whether the name of a character set in a statement can mean several."""
    return any(
        row.name == name.lower()
        and row.flavor == flavor
        and (version >= row.since or version == UNKNOWN_VERSION)
        for row in DOUBTFUL_NAMES
    )


def shape_of(model: TableModel, flavor: ServerFlavor) -> TableShape:
    """Return a table's columns as a current server writes them, without hidden columns.

    Sizes in bytes are left out: only reading row images needs them.

    Raises:
        SchemaError: a column's type has no form in the binlog.
    """
    names = [name for name, _ in model.primary_key]
    columns = [column for column in model.columns if not column.hidden]
    return TableShape(
        model.database,
        model.name,
        tuple(
            _column(column, names.index(column.name) if column.name in names else None, flavor)
            for column in columns
        ),
    )


def _column(column: ColumnModel, key_index: int | None, flavor: ServerFlavor) -> ColumnShape:
    codes = TYPE_CODES.get(column.kind)
    if codes is None:
        raise SchemaError(f"column {column.name} has the type {column.kind}, which is not known")
    kind = KINDS[column.kind]
    is_hidden = bool(kind.hidden_in) and (flavor == ServerFlavor.MARIADB or not kind.codes)
    code = kind.hidden_in[0] if is_hidden else codes[0]
    collation = None
    if code in TEXT_CODES:
        charset = column.charset if column.kind in TEXT_KINDS else BINARY
        collation = None if charset is None else representative_id(charset)
    return ColumnShape(
        name=column.name,
        type_code=code,
        nullable=column.nullable is not False,
        unsigned=column.unsigned if column.kind in SIGNED else None,
        collation_id=collation,
        labels=column.labels,
        unknown_labels=column.unknown_labels,
        primary_key_index=key_index,
        visible=column.visible,
        length=(column.length or 0) if kind.form in ("decimal", "bit") else 0,
        scale=column.scale,
        fraction_digits=column.fraction_digits,
        logical_type=kind.name if is_hidden else None,
        definition=column,
    )
