"""Compare a column of a table map with a column definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from replica_client.protocol.constants.column_types import FRACTION_TYPES, ColumnType
from replica_client.schema.character_sets import charset_of_id, max_length
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
)
from replica_client.schema.model import ColumnModel
from replica_client.schema.shape import ColumnShape

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
