"""The value that existing rows get in an added column, where the statement determines it."""

from __future__ import annotations

import datetime
import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Final

from replica_client.schema.ddl.lexer import NUMBER, STRING, WORD, Token
from replica_client.schema.kinds import BYTES, REALS, STRINGS, WHOLE
from replica_client.schema.model import ColumnModel
from replica_client.stream.tables.alterations import CannotFollowError, ColumnSource
from replica_client.stream.tables.conversions import EXACT

StoredValue = int | float | str | bytes | None

_DECIMAL: Final = re.compile(r"[0-9.]+(?:[eE][-+]?[0-9]+)?")
"""Numbers other than hexadecimal ones and bits."""
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


def added_value(source: ColumnSource, timestamp: int) -> StoredValue:
    """Return the value of a new column in an existing row, as SQLite stores it.

    Args:
        source: the new column.
        timestamp: seconds since 1970 of the statement.

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


def _literal(column: ColumnModel, tokens: tuple[Token, ...], timestamp: int) -> StoredValue:
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
            return _of_text(column, "1" if first.upper == "TRUE" else "0")
    if first.kind == STRING or (first.kind == NUMBER and _DECIMAL.fullmatch(first.text)):
        return _of_text(column, sign + first.text)
    raise CannotFollowError(f"the default of {column.name} is not understood")


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


def _now(column: ColumnModel, tokens: tuple[Token, ...], timestamp: int) -> str:
    if (
        column.kind != "timestamp"
        or column.fraction_digits
        or any(token.kind == NUMBER for token in tokens)
    ):
        raise CannotFollowError(
            f"the time that {column.name} gets in old rows is not in the binlog"
        )
    moment = datetime.datetime.fromtimestamp(timestamp, datetime.UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}"
