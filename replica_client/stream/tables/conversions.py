"""Conversions of stored values to a changed definition, where the result is certain."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from replica_client.schema.kinds import (
    BLOBS,
    CLOCKS,
    INTEGERS,
    KINDS,
    LABELLED,
    LIMITS,
    STRINGS,
    TEXT_KINDS,
)
from replica_client.schema.model import ColumnModel
from replica_client.stream.tables.alterations import CannotFollowError

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
        if not plain and not text.isascii():
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
