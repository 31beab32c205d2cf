"""Optional metadata of a TABLE_MAP event, per column.

Most metadata fields have one entry per column of some kind, in column order. The event does not say
which columns are of that kind: it follows from the real types, and partly from the server.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TypeVar

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.events.table_metadata import (
    DefaultCharset,
    TableMetadata,
)
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.column_types import (
    COUNTED_FIELDS,
    LABEL_TYPES,
    MARIADB_CHARACTER_TYPES,
    MYSQL_CHARACTER_TYPES,
    ColumnType,
)

_Entry = TypeVar("_Entry")


@dataclass(slots=True)
class ColumnFacts:
    """The metadata of one column; None for missing fields."""

    unsigned: bool | None = None
    collation_id: int | None = None
    name: bytes | None = None
    labels: tuple[bytes, ...] | None = None
    geometry_type: int | None = None
    vector_dimension: int | None = None
    primary_key_index: int | None = None
    primary_key_prefix: int = 0
    visible: bool = True


def column_facts(
    metadata: TableMetadata, types: Sequence[int], flavor: ServerFlavor | None = None
) -> list[ColumnFacts]:
    """Return the metadata of every column.

    Args:
        metadata: of the table map.
        types: real type codes, with ENUM and SET instead of STRING.
        flavor: the server that wrote it; None detects it as far as the metadata allows.

    Raises:
        BinlogDecodeError: a field's number of entries does not match the columns.
    """
    facts = [ColumnFacts() for _ in types]
    _collations(metadata, types, flavor, facts)
    for counted, name, attribute in COUNTED_FIELDS:
        what = name.replace("_", " ")
        for at, entry in _entries(getattr(metadata, name), types, counted, what):
            setattr(facts[at], attribute, entry)
    if metadata.column_names is not None:
        for fact, column_name in zip(facts, metadata.column_names, strict=True):
            fact.name = column_name
    if metadata.visibility is not None:
        for fact, visible in zip(facts, metadata.visibility, strict=True):
            fact.visible = visible
    for index, (column, prefix) in enumerate(metadata.primary_key or ()):
        facts[column].primary_key_index, facts[column].primary_key_prefix = index, prefix
    return facts


def _collations(
    metadata: TableMetadata,
    types: Sequence[int],
    flavor: ServerFlavor | None,
    facts: list[ColumnFacts],
) -> None:
    kinds = _character_types(metadata, types, flavor)
    for default, listed, wanted in (
        (metadata.default_charset, metadata.column_charset, kinds),
        (
            metadata.enum_and_set_default_charset,
            metadata.enum_and_set_column_charset,
            LABEL_TYPES,
        ),
    ):
        if default is not None:
            count = sum(code in wanted for code in types)
            listed = _spread(default, count)
        for at, collation in _entries(listed, types, wanted, "character sets"):
            facts[at].collation_id = collation


def _character_types(
    metadata: TableMetadata, types: Sequence[int], flavor: ServerFlavor | None
) -> frozenset[ColumnType]:
    """Return the types that count as columns with a character set."""
    if flavor is None and ColumnType.MYSQL_TYPE_GEOMETRY in types:
        flavor = ServerFlavor.MYSQL
        count = sum(code in MYSQL_CHARACTER_TYPES for code in types)
        listed, default = metadata.column_charset, metadata.default_charset
        last = max((at for at, _ in default.exceptions), default=0) if default is not None else 0
        if (listed is not None and len(listed) != count) or last >= count > 0:
            flavor = ServerFlavor.MARIADB
    return MARIADB_CHARACTER_TYPES if flavor == ServerFlavor.MARIADB else MYSQL_CHARACTER_TYPES


def _spread(charset: DefaultCharset, count: int) -> tuple[int, ...]:
    collations = [charset.collation_id] * count
    for at, collation in charset.exceptions:
        if at >= count:
            raise BinlogDecodeError(
                f"table metadata names the character set of column {at} of {count} of its kind"
            )
        collations[at] = collation
    return tuple(collations)


def _entries(
    field: Sequence[_Entry] | None, types: Sequence[int], kinds: Container[int], what: str
) -> list[tuple[int, _Entry]]:
    """Yield pairs of column index and entry."""
    if field is None:
        return []
    columns = [at for at, code in enumerate(types) if code in kinds]
    if len(columns) != len(field):
        raise BinlogDecodeError(
            f"table metadata has {len(field)} {what} for {len(columns)} columns of that kind"
        )
    return list(zip(columns, field, strict=True))
