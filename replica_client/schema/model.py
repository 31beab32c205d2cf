"""Column and table definitions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, fields, replace
from functools import cached_property
from typing import Any, Final, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from replica_client.errors import SchemaError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import (
    LABEL_TYPES,
    PREFIXED_TYPES,
    TYPE_FACTS,
    ColumnType,
    types_of,
)
from replica_client.schema.character_sets import BEYOND_UTF8MB3, BINARY, storable
from replica_client.schema.kinds import KINDS, TEXT_KINDS, target_type

HASH_NAME: Final = "DB_ROW_HASH_"
"""Name prefix of MariaDB's hidden columns at a table's end: hashes of long unique keys."""

_BY_CHOICE: Final = {"by_choice": True}
"""Marks fields that are only saved on request."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ColumnModel:
    """The definition of a column.

    Attributes:
        name: the column's name.
        kind: the type's plain name: ``int``, ``decimal``, ``varchar``, ``varbinary``, ``text``,
            ``blob``, ``enum``, ``geometry``, ``uuid`` …; synonyms are resolved.
        length: characters of a CHAR or VARCHAR, bytes of a BINARY or VARBINARY, digits of a
            DECIMAL, bits of a BIT; see :class:`~replica_client.schema.kinds.ColumnKind`; None where the kind
            has none.
        scale: digits after the point of a DECIMAL.
        fraction_digits: of temporal kinds.
        unsigned: of numbers.
        charset: of text; None while it is not known.
        labels: of ENUM and SET.
        unknown_labels: numbers (from 1) of labels that are not known: the source lists ``?`` for a
            character that it cannot show.
        labels_are_stored: the labels are those of the table although its character set is not
            known: the server wrote them, and lost none of their characters.
        nullable: None where the definition leaves it to the server's settings.
        visible: False for an invisible column.
        compressed: a MariaDB COMPRESSED column.
        hidden: made by the server and in no listing (the period columns of a MariaDB table with
            implicit system versioning).
        type_name: the type as written, in upper case, with its attributes, where it differs from
            the kind and UNSIGNED: ``POINT``, ``INTEGER``, ``BOOLEAN``, ``INT UNSIGNED ZEROFILL``.
        display_width: the first number in brackets after a numeric type, if no other attribute
            has it.
        display_scale: the second number in brackets.
        auto_increment: AUTO_INCREMENT.
        on_update: ON UPDATE CURRENT_TIMESTAMP.
        default: text of the literal default; ``CURRENT_TIMESTAMP`` for the current time; None for
            none, NULL or an expression.
        comment: the comment.
        generated: the source computes the values by an expression.

    The last eight attributes do not affect how rows are read, and are ignored when columns are
    compared: servers list them differently from statements. Defaults and comments are only saved on
    request, as a transform may hide their content.
    """

    name: str
    kind: str
    length: int | None = None
    scale: int = 0
    fraction_digits: int = 0
    unsigned: bool = False
    charset: str | None = None
    labels: tuple[str, ...] | None = None
    nullable: bool | None = True
    visible: bool = True
    compressed: bool = False
    hidden: bool = False
    unknown_labels: tuple[int, ...] = ()
    labels_are_stored: bool = False
    type_name: str = field(default="", compare=False)
    display_width: int | None = field(default=None, compare=False)
    display_scale: int | None = field(default=None, compare=False)
    auto_increment: bool = field(default=False, compare=False)
    on_update: bool = field(default=False, compare=False)
    default: str | None = field(default=None, compare=False, metadata=_BY_CHOICE)
    comment: str = field(default="", compare=False, metadata=_BY_CHOICE)
    generated: bool = field(default=False, compare=False)

    @property
    def annotations(self) -> tuple[object, ...]:
        """The attributes that are ignored when columns are compared."""
        return (
            *(self.type_name, self.display_width, self.display_scale, self.auto_increment),
            *(self.on_update, self.default, self.comment, self.generated),
        )

    @property
    def needs_charset(self) -> bool:
        """Whether this is a text column whose character set is not known."""
        return self.charset is None and self.kind in TEXT_KINDS

    @property
    def doubtful_labels(self) -> tuple[int, ...]:
        """Numbers (from 1) of labels with ``?``, which may differ from those in utf8mb3."""
        if self.charset is not None and self.charset not in BEYOND_UTF8MB3:
            return ()
        return tuple(at for at, label in enumerate(self.labels or (), 1) if "?" in label)

    @property
    def has_doubtful_labels(self) -> bool:
        """Whether a label may differ in the column's character set, which is not known."""
        return (
            self.needs_charset
            and not self.labels_are_stored
            and not all(map(str.isascii, self.labels or ()))
        )

    def in_charset(self, charset: str) -> Self:
        """Return the column in a character set; labels lose characters that the set lacks."""
        labels = self.labels
        if labels is not None and not self.labels_are_stored:
            # Only labels of binary columns keep trailing spaces.
            kept = labels if charset == BINARY else (label.rstrip(" ") for label in labels)
            labels = tuple(storable(label, charset) for label in kept)
        return replace(self, charset=charset, labels=labels, labels_are_stored=False)

    def to_json(self, *, defaults: bool = False) -> dict[str, Any]:
        """Return the column as JSON, without the attributes that have their usual value.

        Args:
            defaults: include the column's default and comment.
        """
        return _sparse(self, by_choice=defaults)

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the column that :meth:`to_json` saved.

        Raises:
            SchemaError: the value is not a valid column.
        """
        key = None
        if isinstance(value, Mapping) and "labels" not in value and "unknown_labels" not in value:
            key = (cls, *value.items())
            try:
                known = _COLUMNS.get(key)
            except TypeError:  # a value that is no value of a column
                key = known = None
            if known is not None:
                return known  # type: ignore[return-value]
        members = _members(value, cls, "column")
        if members.get("labels") is not None:
            members["labels"] = tuple(members["labels"])
        if "unknown_labels" in members:
            members["unknown_labels"] = tuple(map(int, members["unknown_labels"]))
        column = cls(**members)
        if key is not None:
            _COLUMNS[key] = column
        return column


SEQUENCE_COLUMNS: Final = (
    *("next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment"),
    *("cache_size", "cycle_option", "cycle_count"),
)
"""The columns of a MariaDB sequence."""


@dataclass(frozen=True)
class TableModel:
    """The definition of a table.

    Attributes:
        database: the database's name.
        name: the table's name.
        columns: all columns in order, with hidden ones.
        primary_key: column names and prefix lengths (0: the whole column), in the key's order.
        charset: default character set of new columns; None while it is not known.
        versioned: a MariaDB table WITH SYSTEM VERSIONING.
        takes_default: a character set that is not known is the default of the database.
    """

    database: str
    name: str
    columns: tuple[ColumnModel, ...]
    primary_key: tuple[tuple[str, int], ...] = ()
    charset: str | None = None
    versioned: bool = False
    takes_default: bool = False

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def needs_charset(self) -> bool:
        """Whether a text column's character set is not known."""
        return any(column.needs_charset for column in self.columns)

    @property
    def is_sequence(self) -> bool:
        """Whether this is a MariaDB sequence.

        Its only row is replaced by INSERT events without an old row.
        """
        return not self.primary_key and self.column_names == SEQUENCE_COLUMNS

    @property
    def untracked(self) -> str:
        """Return why row events do not show which rows the table has; ``""`` where they do."""
        if self.versioned:
            return "it keeps its old rows itself (WITH SYSTEM VERSIONING); exclude it"
        if self.is_sequence:
            return (
                "it is a sequence, whose row the binlog replaces without its old values; exclude it"
            )
        return ""

    def with_charset(self, charset: str) -> Self:
        """Return the table with the default of its database wherever no character set is known."""
        columns = tuple(
            column.in_charset(charset) if column.needs_charset else column
            for column in self.columns
        )
        charset = self.charset or charset
        return replace(self, columns=columns, charset=charset, takes_default=False)

    def renamed(self, database: str, name: str) -> Self:
        """Return the table under another name."""
        takes_default = self.takes_default and database == self.database
        return type(self)(
            *(database, name, self.columns, self.primary_key, self.charset, self.versioned),
            takes_default,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON, without its name, and without defaults and comments."""
        found = _sparse(self)
        del found["database"], found["name"]
        found["columns"] = [column.to_json() for column in self.columns]
        return found

    def json_text(self, *, defaults: bool = False) -> str:
        """Return :meth:`to_json` as compact text; the texts of columns are cached.

        Args:
            defaults: include the defaults and comments of columns.
        """
        found = _sparse(self)
        del found["database"], found["name"], found["columns"]
        rest = json.dumps(found, separators=(",", ":"))
        columns = ",".join([_column_text(column, defaults) for column in self.columns])
        return f'{{"columns":[{columns}]{"," if found else ""}{rest[1:]}'

    @classmethod
    def from_json(cls, database: str, name: str, value: object) -> Self:
        """Return the table that :meth:`to_json` saved.

        Raises:
            SchemaError: the value is not a valid table.
        """
        members = _members(value, cls, "table")
        try:
            members["columns"] = tuple(map(ColumnModel.from_json, members["columns"]))
            key = members.get("primary_key", ())
            members["primary_key"] = tuple((str(column), int(prefix)) for column, prefix in key)
            return cls(database, name, **members)
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaError(f"{database}.{name}: not a table definition: {error!r}") from error

    def __str__(self) -> str:
        columns = ", ".join(f"{column.name} {describe(column)}" for column in self.columns)
        return f"{self.database}.{self.name} ({columns})"


@dataclass(frozen=True, slots=True)
class DatabaseModel:
    """The definition of a database.

    Attributes:
        charset: default character set of new tables; None while it is not known.
        complete: whether all its tables are known, so that an unknown table does not exist.
        changed_by: the thread that changed the character set. Sessions already in the database keep
            the old one: in MariaDB for new tables, and everywhere for CONVERT TO … DEFAULT.
        last_charset: the character set when the database was dropped.
    """

    charset: str | None = None
    complete: bool = False
    changed_by: int | None = None
    last_charset: str | None = None

    def altered(self, charset: str, thread_id: int) -> DatabaseModel:
        """Return the database after a session changed its character set."""
        changed_by = self.changed_by if self.charset == charset else thread_id
        return DatabaseModel(charset, self.complete, changed_by)

    def made(self, charset: str | None, thread_id: int) -> DatabaseModel:
        """Return the database after a session created it again."""
        before = self.charset or self.last_charset
        changed_by = self.changed_by if before in (None, charset) else thread_id
        return DatabaseModel(charset, complete=True, changed_by=changed_by)

    def charset_in(self, thread_id: int) -> str | None:
        """Return the database's character set as a session sees it; None if that is not known."""
        return self.charset if self.changed_by in (None, thread_id) else None


def column_type(target: str, column: ColumnModel) -> str:
    """Return a target's type for a column, from :data:`~replica_client.schema.kinds.TARGETS`.

    Raises:
        SchemaError: the column's kind is not known.
    """
    return target_type(target, column.kind, unsigned=column.unsigned).format(
        length=column.length or KINDS[column.kind].default,
        scale=column.scale,
        digits=column.fraction_digits,
    )


def describe(column: ColumnModel) -> str:
    """Return a column's type in SQL."""
    text = column.kind
    if column.labels is not None:
        text += (
            "(" + ",".join("'" + label.replace("'", "''") + "'" for label in column.labels) + ")"
        )
    elif column.kind == "decimal":
        text += f"({column.length},{column.scale})"
    elif column.length is not None:
        text += f"({column.length})"
    elif column.fraction_digits:
        text += f"({column.fraction_digits})"
    if column.unsigned:
        text += " unsigned"
    if column.charset is not None:
        text += f" charset {column.charset}"
    if column.nullable is False:
        text += " not null"
    if not column.visible:
        text += " invisible"
    return text


# Tables of one application have many equal columns.
_COLUMNS: WeakValueDictionary[tuple[Any, ...], ColumnModel] = WeakValueDictionary()


# After an ALTER of one column, the texts of the others are reused.
_TEXTS: WeakKeyDictionary[ColumnModel, tuple[tuple[object, ...], str]] = WeakKeyDictionary()


def _column_text(column: ColumnModel, defaults: bool) -> str:
    known = _TEXTS.get(column)
    # Equal columns may have different annotations.
    kind = (defaults, *column.annotations)
    if known is None or known[0] != kind:
        value = column.to_json(defaults=defaults)
        known = kind, json.dumps(value, separators=(",", ":"))
        _TEXTS[column] = known
    return known[1]


def _sparse(value: Any, *, by_choice: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in fields(value):
        member = getattr(value, one.name)
        if member != one.default and (by_choice or "by_choice" not in one.metadata):
            found[one.name] = member
    return found


def _members(value: object, kind: type, what: str) -> dict[str, Any]:
    known = {one.name for one in fields(kind)}
    if not isinstance(value, Mapping) or not known.issuperset(value):
        raise SchemaError(f"not a {what} definition: {str(value)[:80]!r}")
    return dict(value)


__all__ = ["TEXT_KINDS", "ColumnModel", "DatabaseModel", "TableModel", "describe"]


_T = ColumnType
_WITH_SIZE: Final = types_of("integer", "real", "year")
_STRINGS: Final = types_of("string")
_VARCHARS: Final = types_of("varchar")
_IN_STRING: Final = _STRINGS | LABEL_TYPES


def split_string(type_code: int, metadata: int) -> tuple[int, int]:
    """Return the real type and the length of a column with the type code STRING.

    The metadata is the real type (ENUM, SET or STRING) and the length in bytes. A length of 256 to
    1023 has its two upper bits, inverted, in bits 4 and 5 of the real type, which are set in all
    real types.

    Returns:
        type code and length; for ENUM and SET the length is the size of the number.
    """
    real, length = metadata & 0xFF, metadata >> 8
    if real | 0x30 not in _IN_STRING or (type_code == _T.MYSQL_TYPE_VAR_STRING and not length):
        # Some writers store a plain length for VAR_STRING, as for VARCHAR.
        return type_code, metadata
    length |= ((real & 0x30) ^ 0x30) << 4
    real |= 0x30
    return (real if real != _T.MYSQL_TYPE_VAR_STRING else type_code), length


def real_type(type_code: int, metadata: int) -> int:
    """Return the real type code: ENUM and SET instead of STRING."""
    if type_code in _STRINGS:
        return split_string(type_code, metadata)[0]
    return type_code


def column_length(type_code: int, metadata: int) -> int:
    """Return the length of a column; see :class:`~replica_client.schema.shape.ColumnShape`."""
    if type_code in _WITH_SIZE:
        return TYPE_FACTS[type_code].size
    if type_code in _VARCHARS:
        return metadata
    if type_code in _STRINGS:
        return split_string(type_code, metadata)[1]
    if type_code in LABEL_TYPES:
        return metadata >> 8
    if type_code == _T.MYSQL_TYPE_NEWDECIMAL:
        return metadata & 0xFF
    if type_code == _T.MYSQL_TYPE_BIT:
        return (metadata & 0xFF) + 8 * (metadata >> 8)
    if type_code in PREFIXED_TYPES:
        return (1 << 8 * min(metadata, 4)) - 1
    return 0
