"""A table map against a definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count, islice
from typing import Final

from replica_client.errors import SchemaMismatchError
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.column_types import FRACTION_TYPES, ColumnType
from replica_client.schema.catalog import are_shared
from replica_client.schema.character_sets import (
    BINARY,
    charset_of_id,
    max_length,
    representative_id,
)
from replica_client.schema.kinds import (
    BYTES,
    CLOCKS,
    HIDDEN_KINDS,
    KINDS,
    LABELLED,
    LIMITS,
    SIGNED,
    STRINGS,
    TEXT_KINDS,
    TYPE_CODES,
    kinds_of,
)
from replica_client.schema.left_out import TEXT_CODES
from replica_client.schema.model import HASH_NAME, ColumnModel, TableModel
from replica_client.schema.shape import ColumnDefinition, ColumnShape, TableShape

_T = ColumnType
_WIDTHS: Final = (1, 2, 3, 4)


def misfit(shape: ColumnShape, model: ColumnModel) -> str:
    """Return why a table map's column does not fit a definition; ``""`` when it does."""
    if shape.type_code not in TYPE_CODES.get(model.kind, ()):
        return f"type {_type_name(shape.type_code)} is not {model.kind}"
    if shape.resolved and shape.name.lower() != model.name.lower():
        return f"name {shape.name!r} is not {model.name!r}"
    if model.nullable is not None and shape.nullable != model.nullable:
        return f"it can{'' if shape.nullable else 'not'} be NULL"
    if model.kind in SIGNED and shape.unsigned is not None and shape.unsigned != model.unsigned:
        return "it is " + ("unsigned" if shape.unsigned else "signed")
    if _labels_differ(shape, model):
        return "its labels differ"
    if model.kind in TEXT_KINDS and shape.collation_id is not None and model.charset is not None:
        charset = charset_of_id(shape.collation_id)
        if charset is not None and charset != model.charset:
            return f"its character set is {charset}"
    return _size_misfit(shape, model)


def _labels_differ(shape: ColumnShape, model: ColumnModel) -> bool:
    if shape.labels is None or model.labels is None:
        return False
    if not model.unknown_labels:
        return shape.labels != model.labels
    unknown = frozenset(model.unknown_labels)
    pairs = zip(shape.labels, model.labels, strict=False)
    return len(shape.labels) != len(model.labels) or any(
        one != other and at not in unknown for at, (one, other) in enumerate(pairs, 1)
    )


def _type_name(code: int) -> str:
    try:
        return ColumnType(code).name.removeprefix("MYSQL_TYPE_")
    except ValueError:
        return str(code)


def _size_misfit(shape: ColumnShape, model: ColumnModel) -> str:
    check = _CHECKS.get(model.kind)
    if check is None or check(shape, model):
        return ""
    return f"size {shape.length} (metadata {shape.metadata}) is not that of {model.kind}"


def _string(shape: ColumnShape, model: ColumnModel) -> bool:
    length = model.length or 0
    # A compressed column has one more byte, for its header.
    size = shape.length - (shape.type_code == _T.MYSQL_TYPE_VARCHAR_COMPRESSED)
    if model.kind in BYTES:
        return size == length
    if model.charset is None:
        return size in [length * width for width in _WIDTHS]
    return size == length * max_length(model.charset)


def _blob(shape: ColumnShape, model: ColumnModel) -> bool:
    return shape.metadata == KINDS[model.kind].size


def _decimal(shape: ColumnShape, model: ColumnModel) -> bool:
    if shape.type_code == _T.MYSQL_TYPE_DECIMAL:
        return True
    return (shape.length, shape.scale) == (model.length, model.scale)


def _labelled(shape: ColumnShape, model: ColumnModel) -> bool:
    if model.labels is None:
        return True
    count = len(model.labels)
    if model.kind == "enum":
        return shape.length == (1 if count < 256 else 2)
    size = (count + 7) // 8
    return shape.length == (size if size <= 4 else 8)


def _temporal(shape: ColumnShape, model: ColumnModel) -> bool:
    is_new = shape.type_code in FRACTION_TYPES
    return not is_new or shape.metadata == model.fraction_digits


def _hidden(shape: ColumnShape, model: ColumnModel) -> bool:
    kind = KINDS[model.kind]
    return shape.type_code in kind.codes or shape.length == kind.size * (model.length or 1)


_Check = Callable[[ColumnShape, ColumnModel], bool]
_CHECKS: Final[dict[str, _Check]] = {
    **dict.fromkeys((*STRINGS, *BYTES), _string),
    **dict.fromkeys(LIMITS, _blob),
    **dict.fromkeys(LABELLED, _labelled),
    **dict.fromkeys(CLOCKS, _temporal),
    **dict.fromkeys((kind.name for kind in HIDDEN_KINDS), _hidden),
    "decimal": _decimal,
    "bit": lambda shape, model: shape.length == model.length,
}


_HASHED: Final = frozenset(kinds_of("string", "bytes", "json", "spatial"))
_COLUMN_SIZE: Final = 256
_FITTING: SizedCache[
    tuple[int, int, tuple[tuple[str, int], ...]],
    tuple[tuple[ColumnShape, ...], tuple[ColumnModel, ...], tuple[ColumnShape, ...] | None],
] = SizedCache(256)


def lacks_charset(shape: TableShape, model: TableModel, *, of_labels: bool = True) -> bool:
    """Return whether a text column's character set is neither in the binlog nor the definition.

    Args:
        shape: of the table map.
        model: the definition.
        of_labels: include ENUM and SET columns with labels that are not ASCII.
    """
    return len(shape.columns) == len(model.columns) and any(
        known.needs_charset
        and column.collation_id is None
        and (known.labels is None or (of_labels and known.has_doubtful_labels))
        for column, known in zip(shape.columns, model.columns, strict=True)
    )


def with_hash_columns(shape: TableShape, model: TableModel, flavor: ServerFlavor) -> TableModel:
    """Return the definition with the columns that MariaDB hides at the end of a table.

    A unique key of a BLOB, TEXT or long VARCHAR column is a key of its hash, in a hidden BIGINT
    column ``DB_ROW_HASH_n``. No listing has this column; every table map has it.
    """
    surplus = shape.columns[len(model.columns) :]
    if not surplus or flavor != ServerFlavor.MARIADB:
        return model
    can_be_hashed = any(column.kind in _HASHED for column in model.columns)
    if not can_be_hashed or not all(map(_can_be_hash, surplus)):
        return model
    hidden = tuple(
        ColumnModel(
            column.name if column.resolved else _hash_name(model, at),
            "bigint",
            unsigned=column.unsigned is not False,
            nullable=None,
            visible=False,
            hidden=True,
        )
        for at, column in enumerate(surplus, 1)
    )
    return replace(model, columns=model.columns + hidden)


def _hash_name(model: TableModel, at: int) -> str:
    """Return the name of the n-th hash column, skipping names that the table's columns have."""
    taken = {name.upper() for name in model.column_names}
    free = (f"{HASH_NAME}{number}" for number in count(1) if f"{HASH_NAME}{number}" not in taken)
    return next(islice(free, at - 1, None))


def hash_columns(
    shape: TableShape, model: TableModel | None, flavor: ServerFlavor
) -> frozenset[str]:
    """Return the names of the hash columns, which SELECT omits; none without a definition."""
    if model is None or with_hash_columns(shape, model, flavor) is model:
        return frozenset()
    return frozenset(shape.column_names[len(model.columns) :])


def may_have_hash_columns(shape: TableShape, flavor: ServerFlavor) -> bool:
    """Return whether the last column may be a hash column, by its name and type."""
    last = shape.columns[-1] if shape.columns else None
    return (
        flavor == ServerFlavor.MARIADB and last is not None and last.resolved and _can_be_hash(last)
    )


def _can_be_hash(column: ColumnShape) -> bool:
    named = not column.resolved or column.name.startswith(HASH_NAME)
    return named and column.type_code == _T.MYSQL_TYPE_LONGLONG


def find_mismatch(shape: TableShape, model: TableModel) -> str:
    """Return why a table map does not fit a definition; ``""`` when it does."""
    if len(shape.columns) != len(model.columns):
        return f"{len(shape.columns)} columns in the binlog, {len(model.columns)} in the definition"
    for at, (column, known) in enumerate(zip(shape.columns, model.columns, strict=True), 1):
        reason = misfit(column, known)
        if reason:
            return f"column {at} ({known.name}): {reason} in the binlog"
    return ""


def resolve(shape: TableShape, model: TableModel) -> TableShape:
    """Return the table map's shape, completed by the definition.

    Raises:
        SchemaMismatchError: the definition does not fit the table map; the message has both.
    """
    found = resolve_if_fitting(shape, model)
    if found is None:
        raise SchemaMismatchError(
            f"{shape.database}.{shape.table}: {find_mismatch(shape, model)}; the binlog has "
            f"{describe_shape(shape)}; the definition is {model}"
        )
    return found


def resolve_if_fitting(shape: TableShape, model: TableModel) -> TableShape | None:
    """Return the table map's shape, completed by the definition; None if they do not fit.

    The result is cached for tables that share their columns' shapes and definitions.
    """
    if not are_shared(model.columns):
        return None if find_mismatch(shape, model) else _resolved(shape, model)
    # The entry keeps both alive, so that their ids are not reused.
    key = (id(shape.columns), id(model.columns), model.primary_key)
    known = _FITTING.get(key)
    if known is None:
        fits = not find_mismatch(shape, model)
        columns = _resolved(shape, model).columns if fits else None
        known = (shape.columns, model.columns, columns)
        _FITTING.put(key, known, _COLUMN_SIZE * len(model.columns))
    return None if known[2] is None else TableShape(shape.database, shape.table, known[2])


def _resolved(shape: TableShape, model: TableModel) -> TableShape:
    names = {column.name: at for at, column in enumerate(model.columns)}
    indexes = {names[name]: at for at, (name, _) in enumerate(model.primary_key) if name in names}
    definitions = [
        _definition(column, shape.columns[at], indexes.get(at))
        for at, column in enumerate(model.columns)
    ]
    return shape.resolved_with(definitions)


def _definition(model: ColumnModel, shape: ColumnShape, index: int | None) -> ColumnDefinition:
    collation = None
    stated = charset_of_id(shape.collation_id)
    if model.needs_charset and model.labels is not None:
        # Labels lose characters that their character set lacks.
        model = _with_doubts(model) if stated is None else model.in_charset(stated)
    if model.kind in TEXT_KINDS and model.charset is not None:
        collation = representative_id(model.charset)
    elif model.kind in BYTES:
        collation = representative_id(BINARY)
    return ColumnDefinition(
        shape.name if shape.resolved else model.name,
        unsigned=model.unsigned if model.kind in SIGNED else None,
        collation_id=collation,
        labels=model.labels,
        unknown_labels=model.unknown_labels,
        primary_key_index=index,
        visible=model.visible,
        fraction_digits=model.fraction_digits or None,
        logical_type=_logical_type(model.kind) if shape.type_code in TEXT_CODES else None,
        definition=model,
    )


def _logical_type(kind: str) -> str | None:
    """Return the logical type of a kind that a table map may hide in a binary string."""
    return kind if kind in KINDS and KINDS[kind].hidden_in else None


def _with_doubts(model: ColumnModel) -> ColumnModel:
    """Return a column of unknown character set, with labels that are not ASCII marked as unknown.

    A server may have replaced characters of such labels.
    """
    if not model.has_doubtful_labels:
        return model
    doubtful = {at for at, label in enumerate(model.labels or (), 1) if not label.isascii()}
    return replace(model, unknown_labels=tuple(sorted(doubtful.union(model.unknown_labels))))


def describe_shape(shape: TableShape) -> str:
    """Return a table map's columns as one line of text."""
    columns = []
    for column in shape.columns:
        name = ColumnType(column.type_code).name if column.type_code in _KNOWN else "?"
        text = f"{column.name} {name.removeprefix('MYSQL_TYPE_')}"
        if column.length:
            text += f"({column.length})"
        columns.append(text + ("" if column.nullable else " not null"))
    return "(" + ", ".join(columns) + ")"


_KNOWN: Final = frozenset(int(code) for code in ColumnType)
