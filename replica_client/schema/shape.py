"""The shape of a table: its columns, as far as a TABLE_MAP event and its optional metadata describe them.

Most metadata fields have one entry per column of some kind, in column order. The event does not say
which columns are of that kind: it follows from the real types, and partly from the server.

Always known: the types, their sizes, which columns can be NULL. ``binlog_row_metadata=MINIMAL``
(the default of MySQL 8) adds signedness, character sets and geometry types; ``FULL`` adds names,
labels, primary key and visibility. MySQL before 8.0.1 and MariaDB (default ``NO_LOG``) add nothing.
Unknown attributes are None; :meth:`TableShape.resolved_with` fills them in from other sources.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from typing import Self, TypeVar

from replica_client.errors import BinlogDecodeError, ColumnDecodeError, SchemaMismatchError
from replica_client.protocol.binlog.events.table_map import (
    DefaultCharset,
    TableMapEvent,
    TableMetadata,
    is_nullable,
    parse_table_metadata,
)
from replica_client.protocol.codec.charsets import (
    UndecodableTextError,
    UnknownCollationError,
    decode_text,
    text_decoder,
)
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.column_types import (
    COUNTED_FIELDS,
    FRACTION_TYPES,
    LABEL_TYPES,
    MARIADB_CHARACTER_TYPES,
    MYSQL_CHARACTER_TYPES,
    ColumnType,
)
from replica_client.schema.kinds import kind_name, kinds_of
from replica_client.schema.model import HASH_NAME, ColumnModel, column_length, real_type

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


@dataclass(frozen=True, slots=True)
class OutboxColumns:
    """The columns of an outbox table, in Debezium's terms.

    Attributes:
        id: the message's unique id; its header ``id``.
        key: the message's key.
        route: the column whose value names the destination.
        payload: the message.
        topic: template of the destination; ``{route}`` is the value of :attr:`route`.
        headers: names of further headers, and their columns.
    """

    id: str
    key: str
    route: str
    payload: str
    topic: str
    headers: tuple[tuple[str, str], ...] = ()

    def columns(self) -> Iterator[str]:
        """Yield the names of all these columns."""
        yield from (self.id, self.key, self.route, self.payload)
        for _, column in self.headers:
            yield column


LogicalType = str
"""A kind that MariaDB's table maps show as a plain binary string: UUID, INET4 …"""

_BINARY_COLLATION = 63
_GEOMETRIES = kinds_of("spatial")


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """The shape of a column.

    Attributes:
        name: the column's name; ``col_1``, ``col_2`` … by position while it is not known.
        type_code: the real type: ENUM and SET have their own code, not STRING's.
        metadata: the type's metadata as
            :class:`~replica_client.protocol.binlog.events.table_map.TableMapEvent` has it.
        nullable: whether it can be NULL.
        unsigned: whether a number is unsigned; None where that is not known (read as signed) or
            makes no sense.
        collation_id: of text, ENUM and SET; 63 is ``binary``: the values are bytes; None where it
            is not known (values are bytes) or makes no sense.
        labels: of ENUM and SET; None while they are not known.
        unknown_labels: numbers (from 1) of labels that are not known; a value that has one is
            refused.
        geometry_type: 0 GEOMETRY, 1 POINT, 2 LINESTRING …; None where not known.
        vector_dimension: dimensions of MySQL's vectors; None where not known.
        primary_key_index: 0 for the first column of the primary key, 1 for the second …; None for
            others.
        primary_key_prefix: characters that a prefix key takes; 0 for the whole column.
        visible: False for an invisible column.
        length: bytes that a string or BLOB can have, digits of a DECIMAL, bits of a BIT, bytes of
            an ENUM, SET or number.
        scale: digits after the point of a DECIMAL.
        fraction_digits: digits after the point of a TIME, DATETIME or TIMESTAMP.
        resolved: whether ``name`` is the column's own.
        logical_type: the kind of a MariaDB column that a table map shows as a binary string (UUID,
            INET4 …), from the table's definition.
        definition: the column's definition, if it is known; ignored when columns are compared.

    Examples:
        >>> change = next(rc.open_binlog("shop-bin.000001").changes())
        >>> column = change.shape.columns[0]
        >>> column.name, column.unsigned, column.nullable
        ('id', True, False)
    """

    name: str
    type_code: int
    metadata: int = 0
    nullable: bool = True
    unsigned: bool | None = None
    collation_id: int | None = None
    labels: tuple[str, ...] | None = None
    geometry_type: int | None = None
    vector_dimension: int | None = None
    primary_key_index: int | None = None
    primary_key_prefix: int = 0
    visible: bool = True
    length: int = 0
    scale: int = 0
    fraction_digits: int = 0
    resolved: bool = True
    logical_type: LogicalType | None = None
    unknown_labels: tuple[int, ...] = ()
    definition: ColumnModel | None = field(default=None, compare=False, repr=False)

    @property
    def computed(self) -> bool:
        """Whether the source computes the column: generated, or the hash of a long unique key.

        MariaDB 11.8.9 omits these columns from all row images except those of plain INSERTs.
        """
        return is_hash(self) or (self.definition is not None and self.definition.generated)


def is_hash(column: ColumnShape) -> bool:
    """Return whether a column is the hash of a long unique key.

    MariaDB hides such a column at the end of a table.
    """
    known = column.definition
    return known is not None and known.hidden and known.name.startswith(HASH_NAME)


def kind_of(column: ColumnShape) -> str:
    """Return the kind of a column, as far as its table map or its definition shows it."""
    if column.logical_type is not None:
        return column.logical_type
    binary = column.collation_id in (None, _BINARY_COLLATION)
    name = kind_name(column.type_code, binary=binary, length=column.length)
    subtype = column.geometry_type or 0
    is_spatial = name == _GEOMETRIES[0] and subtype < len(_GEOMETRIES)
    return _GEOMETRIES[subtype] if is_spatial else name


# Many tables of a source are alike: one per tenant, shard or month.
_COLUMNS: SizedCache[tuple[object, ...], tuple[ColumnShape, ...]] = SizedCache(128)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """Facts about a column from other sources (``information_schema``, DDL).

    Attributes as in :class:`ColumnShape`; None for unknown ones.
    """

    name: str
    unsigned: bool | None = None
    collation_id: int | None = None
    labels: tuple[str, ...] | None = None
    primary_key_index: int | None = None
    visible: bool = True
    fraction_digits: int | None = None
    length: int | None = None
    logical_type: LogicalType | None = None
    unknown_labels: tuple[int, ...] = ()
    definition: ColumnModel | None = None


@dataclass(frozen=True)
class TableShape:
    """The columns of a table, as a row image has them.

    Attributes:
        database: the table's database (schema).
        table: the table's name.
        columns: the columns, in order.
        merged: whether a transform merges several tables, whose definitions may differ.
        keeps_deleted: whether a transform turns deletes into updates, so that a row may be inserted
            again.
        outbox: the columns that route the rows, if the table is an outbox.

    Examples:
        >>> change = next(rc.open_binlog("shop-bin.000001").changes())
        >>> [column.name for column in change.shape.columns][:3]
        ['id', 'name', 'email']
    """

    database: str
    table: str
    columns: tuple[ColumnShape, ...]
    merged: bool = False
    keeps_deleted: bool = False
    outbox: OutboxColumns | None = None

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def primary_key(self) -> tuple[int, ...]:
        """Indexes of the primary key's columns, in the key's order; empty when not known."""
        keyed = [
            (column.primary_key_index, at)
            for at, column in enumerate(self.columns)
            if column.primary_key_index is not None
        ]
        return tuple(at for _, at in sorted(keyed))

    @property
    def names_resolved(self) -> bool:
        """Whether all names are the columns' own."""
        return all(column.resolved for column in self.columns)

    @classmethod
    def from_table_map(cls, event: TableMapEvent, flavor: ServerFlavor | None = None) -> Self:
        """Return the shape that a table map describes.

        Args:
            event: the table map.
            flavor: the server that wrote it (``BinlogFormat.flavor``). MySQL and MariaDB count
                columns differently in tables with GEOMETRY columns; without a flavor the difference
                is detected where the metadata shows it.

        Raises:
            BinlogDecodeError: the optional metadata does not fit the columns.
        """
        try:
            columns = _kept_columns(event, flavor)
        except ColumnDecodeError as error:
            raise ColumnDecodeError(f"{event.schema}.{event.table}: {error}") from error.__cause__
        return cls(event.schema, event.table, columns)

    def resolved_with(self, definitions: Sequence[ColumnDefinition]) -> Self:
        """Return the shape with unknown attributes filled in; attributes from the binlog stay.

        Raises:
            SchemaMismatchError: the number of columns differs, or a name.
        """
        if len(definitions) != len(self.columns):
            raise SchemaMismatchError(
                f"{self.database}.{self.table}: the binlog has {len(self.columns)} columns, "
                f"the definition {len(definitions)}"
            )
        columns = []
        for column, known in zip(self.columns, definitions, strict=True):
            if column.resolved and column.name != known.name:
                raise SchemaMismatchError(
                    f"{self.database}.{self.table}: column {column.name} in the binlog is "
                    f"{known.name} in the definition"
                )
            columns.append(_filled(column, known))
        return replace(self, columns=tuple(columns))


def _columns(
    column_types: bytes,
    column_metadata: tuple[int, ...],
    null_bitmap: bytes,
    optional_metadata: bytes,
    flavor: ServerFlavor | None,
) -> tuple[ColumnShape, ...]:
    """Return the columns that the fields of a table map describe.

    Raises:
        ColumnDecodeError: a name or label is no text, or a name occurs twice; without the table's
            name.
        BinlogDecodeError: the optional metadata does not fit the columns.
    """
    types = [
        real_type(code, metadata)
        for code, metadata in zip(column_types, column_metadata, strict=True)
    ]
    metadata = parse_table_metadata(optional_metadata, column_types, column_metadata)
    facts = column_facts(metadata, types, flavor)
    try:
        columns = tuple(
            _column(at, code, column_metadata[at], is_nullable(null_bitmap, at), fact)
            for at, (code, fact) in enumerate(zip(types, facts, strict=True))
        )
    except UnknownCollationError as error:
        raise ColumnDecodeError(f"label: {error}") from error
    if len({column.name for column in columns}) != len(columns):
        raise ColumnDecodeError("a column name occurs twice")
    return columns


def _kept_columns(event: TableMapEvent, flavor: ServerFlavor | None) -> tuple[ColumnShape, ...]:
    """Return the columns of a table map, from a cache of equal definitions."""
    of_columns = event.definition[2:]
    columns = _COLUMNS.get((of_columns, flavor))
    if columns is None:
        columns = _columns(
            event.column_types,
            event.column_metadata,
            event.null_bitmap,
            event.optional_metadata,
            flavor,
        )
        size = len(event.column_types) + len(event.optional_metadata)
        _COLUMNS.put((of_columns, flavor), columns, size)
    return columns


def _column(at: int, code: int, metadata: int, nullable: bool, fact: ColumnFacts) -> ColumnShape:
    labels = None
    if fact.labels is not None:
        # CONVERT TO can leave labels whose bytes are invalid in the new character set.
        with suppress(UndecodableTextError):
            labels = _labels_of(fact.labels, fact.collation_id)
    return ColumnShape(
        name=f"col_{at + 1}" if fact.name is None else _name(fact.name),
        type_code=code,
        metadata=metadata,
        nullable=nullable,
        unsigned=fact.unsigned,
        collation_id=fact.collation_id,
        labels=labels,
        geometry_type=fact.geometry_type,
        vector_dimension=fact.vector_dimension,
        primary_key_index=fact.primary_key_index,
        primary_key_prefix=fact.primary_key_prefix,
        visible=fact.visible,
        length=column_length(code, metadata),
        scale=metadata >> 8 if code == ColumnType.MYSQL_TYPE_NEWDECIMAL else 0,
        fraction_digits=metadata if code in FRACTION_TYPES else 0,
        resolved=fact.name is not None,
    )


def _name(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise ColumnDecodeError(f"the column name {name!r} is not UTF-8") from error


def _labels_of(labels: tuple[bytes, ...], collation_id: int | None) -> tuple[str, ...]:
    if collation_id is None or collation_id == _BINARY_COLLATION:
        return tuple(label.decode("utf-8", "surrogateescape") for label in labels)
    try:
        return tuple(map(text_decoder(collation_id), labels))
    except UnicodeDecodeError:
        # Decode one by one, so that the error names the label.
        return tuple(decode_text(label, collation_id) for label in labels)


def _filled(column: ColumnShape, known: ColumnDefinition) -> ColumnShape:
    key = column.primary_key_index
    digits, length = known.fraction_digits, known.length
    return replace(
        column,
        name=known.name,
        resolved=True,
        unsigned=known.unsigned if column.unsigned is None else column.unsigned,
        collation_id=known.collation_id if column.collation_id is None else column.collation_id,
        labels=known.labels if column.labels is None else column.labels,
        unknown_labels=known.unknown_labels if column.labels is None else (),
        primary_key_index=known.primary_key_index if key is None else key,
        visible=column.visible and known.visible,
        fraction_digits=column.fraction_digits or digits or 0,
        length=column.length or length or 0,
        logical_type=known.logical_type or column.logical_type,
        definition=known.definition,
    )
