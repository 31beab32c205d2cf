"""Values after an ALTER TABLE: converted, or in an added column."""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

from replica_client.schema.character_sets import storable
from replica_client.schema.ddl.lexer import NUMBER, STRING, WORD, Token
from replica_client.schema.kinds import (
    BLOBS,
    BYTES,
    CLOCKS,
    INTEGERS,
    KINDS,
    LABELLED,
    LIMITS,
    REALS,
    STRINGS,
    TEXT_KINDS,
    WHOLE,
)
from replica_client.schema.model import ColumnModel
from replica_client.stream.tables.alterations import CannotFollowError, ColumnSource

Conversion = Callable[[Any], Any]
"""Makes the new value of a stored one that is not NULL."""

# Python's default context would round to 28 digits; MySQL has up to 65.
EXACT: Final = Context(prec=100)
_BITS: Final = {name: 8 * KINDS[name].size for name in INTEGERS}
_BYTES: Final = frozenset((*BLOBS, "varbinary"))


def conversion(old: ColumnModel, new: ColumnModel) -> Conversion | None:
    """Return how stored values change with their column's definition, or None if they stay.

    Raises:
        CannotFollowError: the result on the source depends on more than is known.
    """
    if _stored_alike(old, new):
        return None
    if old.kind in _BITS and new.kind in _BITS:
        return _whole(new)
    if old.kind in _BITS and new.kind == "decimal":
        return _checked_decimal(new)
    if old.kind in _BITS and new.kind in STRINGS:
        if "ZEROFILL" in (old.type_name or ""):
            raise CannotFollowError(f"{new.name}: the source writes numbers with zeros")
        return _text(new, str)
    if old.kind in _BITS and new.kind == "double":
        return float
    if old.kind == "decimal" and new.kind == "decimal":
        return _checked_decimal(new)
    if old.kind in STRINGS and new.kind in STRINGS:
        return _text(new, str)
    if old.kind in _BYTES and new.kind in _BYTES:
        return _bytes(new)
    if old.kind == new.kind and old.kind in LABELLED:
        return _labels(new)
    if old.kind == new.kind and old.kind in CLOCKS:
        return _fraction(new.fraction_digits)
    if old.kind == "float" and new.kind == "double":
        return lambda value: struct.unpack("<f", struct.pack("<f", value))[0]
    if old.kind == "date" and new.kind == "datetime":
        digits = new.fraction_digits
        zeros = " 00:00:00" + ("." + "0" * digits if digits else "")
        return lambda value: value + zeros
    raise CannotFollowError(f"{new.name}: values change from {old.kind} to {new.kind}")


def widens(old: ColumnModel, new: ColumnModel) -> bool:
    """Return whether a changed definition has a value for each of the old one, so that none need be looked at."""
    if old.kind in _BITS and new.kind in _BITS:
        if old.unsigned == new.unsigned:
            return _BITS[new.kind] >= _BITS[old.kind]
        return old.unsigned and _BITS[new.kind] > _BITS[old.kind]
    if old.kind == new.kind == "varchar" and (new.charset in (old.charset, "utf8mb4")):
        return (new.length or 0) >= (old.length or 0) > 0
    return old.kind == "float" and new.kind == "double"


def _stored_alike(old: ColumnModel, new: ColumnModel) -> bool:
    if old.kind in TEXT_KINDS and new.charset not in (old.charset, "utf8mb4"):
        return False
    same = replace(
        old,
        name=new.name,
        charset=new.charset,
        nullable=new.nullable,
        visible=new.visible,
        compressed=new.compressed,
        hidden=new.hidden,
    )
    return same == new


def _whole(new: ColumnModel) -> Conversion:
    bits = _BITS[new.kind]
    low, high = (0, 1 << bits) if new.unsigned else (-(1 << (bits - 1)), 1 << (bits - 1))

    def convert(value: Any) -> Any:
        if not low <= int(value) < high:
            raise CannotFollowError(f"{new.name}: a value does not fit into {new.kind}")
        return value

    return convert


def _checked_decimal(new: ColumnModel) -> Conversion:
    step, most = Decimal(1).scaleb(-new.scale), (new.length or 10) - new.scale

    def convert(value: Any) -> str:
        rounded = Decimal(value).quantize(step, ROUND_HALF_UP, EXACT)
        if abs(rounded) >= Decimal(10) ** most or (new.unsigned and rounded < 0):
            raise CannotFollowError(f"{new.name}: a value does not fit into its DECIMAL")
        return f"{rounded:f}"

    return convert


def _text(new: ColumnModel, to_text: Callable[[Any], str]) -> Conversion:
    limit = new.length
    if new.kind in LIMITS:
        limit = LIMITS[new.kind] // 4
    plain = new.charset == "utf8mb4"

    def convert(value: Any) -> str:
        text = to_text(value)
        if limit is not None and len(text) > limit:
            raise CannotFollowError(f"{new.name}: a text is longer than {limit} characters")
        # Not even ASCII is certain: swe7 has no backslash, and the server puts ? there.
        if not plain and (not text.isascii() or storable(text, new.charset) != text):
            raise CannotFollowError(f"{new.name}: a text changes its character set")
        if new.kind == "char" and text.endswith(" "):
            raise CannotFollowError(f"{new.name}: a text ends with a space, which CHAR loses")
        return text

    return convert


def _bytes(new: ColumnModel) -> Conversion:
    limit = LIMITS.get(new.kind, new.length)

    def convert(value: bytes) -> bytes:
        if limit is not None and len(value) > limit:
            raise CannotFollowError(f"{new.name}: a value is longer than {limit} bytes")
        return value

    return convert


def _labels(new: ColumnModel) -> Conversion:
    known = frozenset(new.labels or ())

    def convert(value: str) -> str:
        used = {value} if new.kind == "enum" else set(value.split(","))
        if not used - {""} <= known:
            raise CannotFollowError(f"{new.name}: a label is used that goes")
        if new.kind == "set":
            return ",".join(label for label in new.labels or () if label in used)
        return value

    return convert


def _fraction(digits: int) -> Conversion:
    def convert(value: str) -> str:
        whole, _, fraction = value.partition(".")
        if fraction[digits:].strip("0"):
            raise CannotFollowError("the source rounds a time")
        return whole + ("." + fraction[:digits].ljust(digits, "0") if digits else "")

    return convert


StoredValue = int | float | str | bytes | None

_DECIMAL: Final = re.compile(r"[0-9.]+(?:[eE][-+]?[0-9]+)?")
"""Numbers other than hexadecimal ones and bits."""
_PRINTED: Final = re.compile(r"-?[1-9][0-9]{0,17}|0")
"""Numbers that servers print as they are written."""
_NOW: Final = frozenset(("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"))
_ZEROS: Final = {
    "date": "0000-00-00",
    "time": "00:00:00",
    "datetime": "0000-00-00 00:00:00",
}
_TEMPORAL: Final = {
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "time": re.compile(r"-?[0-9]{2,3}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"),
    "datetime": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"),
}


def added_value(source: ColumnSource, timestamp: int | None) -> StoredValue:
    """Return the value of a new column in an existing row, as SQLite stores it.

    Args:
        source: the new column.
        timestamp: seconds since 1970 of the statement; None: not known.

    Raises:
        CannotFollowError: the statement does not determine the value.
    """
    column, text = source.column, source.text
    if text is None or text.computed or text.row_bound:
        raise CannotFollowError(f"the source computes the values of {column.name}")
    if not text.default:
        if column.nullable:
            return None
        if column.nullable is None:
            raise CannotFollowError(f"whether {column.name} can be NULL depends on a setting")
        return _implicit(column)
    if column.kind in REALS and text.type.display_scale is not None:
        raise CannotFollowError(f"the default of {column.name} is rounded by the source")
    return _literal(column, text.default, timestamp)


def _implicit(column: ColumnModel) -> StoredValue:
    kind = column.kind
    if kind in WHOLE or kind in REALS:
        return 0
    if kind == "decimal":
        return _decimal(column, "0")
    if kind in STRINGS or kind == "set":
        return ""
    if kind == "enum" and column.labels:
        return column.labels[0]
    if kind in _ZEROS:
        return _digits(_ZEROS[kind], column.fraction_digits)
    if kind == "binary":
        return bytes(column.length or 1)
    if kind in BYTES:
        return b""
    raise CannotFollowError(f"the value that {column.name} gets in old rows is not known")


def _literal(column: ColumnModel, tokens: tuple[Token, ...], timestamp: int | None) -> StoredValue:
    first = tokens[0]
    if first.upper in _NOW:
        return _now(column, tokens, timestamp)
    sign = ""
    while first.upper in ("+", "-"):
        sign = "" if first.upper == "+" else "-"
        tokens = tokens[1:]
        first = tokens[0]
    if len(tokens) != 1:
        raise CannotFollowError(f"the default of {column.name} is an expression")
    if first.kind == WORD:
        if first.upper == "NULL":
            return None
        if first.upper in ("TRUE", "FALSE"):
            return _of_number(column, "1" if first.upper == "TRUE" else "0")
    if first.kind == NUMBER and _DECIMAL.fullmatch(first.text):
        return _of_number(column, sign + first.text)
    if first.kind == STRING and not sign and column.kind != "bit":  # a string is bits of its bytes
        return _of_text(column, first.text)
    raise CannotFollowError(f"the default of {column.name} is not understood")


def _of_number(column: ColumnModel, text: str) -> StoredValue:
    """Return the value of a number's text; of a label it would be the index, of text it is printed again."""
    printed = column.kind not in TEXT_KINDS and column.kind not in _BYTES
    negative_zero = column.kind in REALS and text.startswith("-") and not float(text)
    if column.kind in LABELLED or negative_zero or not (printed or _PRINTED.fullmatch(text)):
        raise CannotFollowError(f"the default of {column.name} is converted by the source")
    return _of_text(column, text)


def _of_text(column: ColumnModel, text: str) -> StoredValue:
    kind = column.kind
    try:
        if kind == "year" and not 1901 <= int(text) <= 2155:
            raise CannotFollowError(f"the default of {column.name} is completed by the source")
        if kind in WHOLE:
            number = int(text)
            return number if number < 1 << 63 else str(number)
        if kind in REALS:
            return float(text)
        if kind == "decimal":
            return _decimal(column, text)
    except (ValueError, InvalidOperation):
        raise CannotFollowError(
            f"the default of {column.name} is converted by the source"
        ) from None
    if kind in STRINGS:
        stripped = text.rstrip(" ") if kind == "char" else text
        return stripped
    if kind == "enum" and text in (column.labels or ()):
        return text
    if kind == "set" and (not text or set(text.split(",")) <= set(column.labels or ())):
        return ",".join(label for label in column.labels or () if label in text.split(","))
    if kind in _TEMPORAL and _TEMPORAL[kind].fullmatch(text):
        return _digits(text, column.fraction_digits)
    # Others depend on the session's character set.
    if kind in ("varbinary", "blob") and text.isascii():
        return text.encode()
    raise CannotFollowError(f"the default of {column.name} is converted by the source")


def _decimal(column: ColumnModel, text: str) -> str:
    value = Decimal(text).quantize(Decimal(1).scaleb(-column.scale), ROUND_HALF_UP, EXACT)
    return f"{value:f}"


def _digits(text: str, digits: int) -> str:
    """Return the text with ``digits`` fraction digits.

    Raises:
        CannotFollowError: digits other than zeros would be lost.
    """
    whole, _, fraction = text.partition(".")
    if fraction[digits:].strip("0"):
        raise CannotFollowError("a default is rounded by the source")
    return whole + ("." + fraction[:digits].ljust(digits, "0") if digits else "")


def _now(column: ColumnModel, tokens: tuple[Token, ...], timestamp: int | None) -> str:
    if (
        timestamp is None
        or column.kind != "timestamp"
        or column.fraction_digits
        or any(token.kind == NUMBER for token in tokens)
    ):
        raise CannotFollowError(
            f"the time that {column.name} gets in old rows is not in the binlog"
        )
    moment = datetime.datetime.fromtimestamp(timestamp, datetime.UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}"
