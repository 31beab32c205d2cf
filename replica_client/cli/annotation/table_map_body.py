"""Layout of TABLE_MAP, its optional metadata included."""

from __future__ import annotations

from replica_client.cli.annotation.annotator import Annotator, require
from replica_client.cli.annotation.control import extra_post_header
from replica_client.protocol.binlog.context import EventContext
from replica_client.protocol.constants.column_types import (
    FRACTION_TYPES,
    METADATA_SIZES,
    NUMBER_FIELDS,
    NUMERIC_TYPES,
    ColumnType,
    MetadataFieldType,
    types_of,
)

_T = ColumnType
_F = MetadataFieldType


def type_name(code: int) -> str:
    """A column type's code and upstream name."""
    try:
        return f"{code} {ColumnType(code).name.removeprefix('MYSQL_TYPE_')}"
    except ValueError:
        return f"{code} unknown"


def table_map(a: Annotator, ctx: EventContext) -> None:
    """TABLE_MAP."""
    a.section = "post-header"
    size = ctx.post_header_size(8)
    id_size = 4 if size == 6 else 6
    a.uint("table_id", id_size)
    a.uint("flags", 2, "flags", hex)
    extra_post_header(a, ctx, id_size + 2)
    a.section = "body"
    for name in ("schema", "table"):
        a.short_string(name)
        a.nul(f"{name} end")
    count = a.lenenc("column count")
    require(a, count, "column types")
    types = [a.uint(f"column_types[{i}]", 1, "column type", type_name) for i in range(count)]
    if not a.remaining:
        return
    a.lenenc("column_metadata length", "bytes")
    for index, code in enumerate(types):
        _column_metadata(a, index, code)
    a.take("null_bitmap", (count + 7) // 8, "bit per column, 1: nullable", bits)
    a.section = "metadata"
    while a.remaining:
        field = a.uint("field type", 1, "", _field_name)
        name = _field_name(field).split(" ", 1)[1].lower()
        _optional_field(a, field, name, a.lenenc(f"{name} length", "bytes"), types)


def bits(data: bytes) -> str:
    """A bitmap for people, its first bit last."""
    return "0b" + "".join(f"{byte:08b}" for byte in reversed(data)) if len(data) < 9 else data.hex()


def _field_name(code: int) -> str:
    try:
        return f"{code} {MetadataFieldType(code).name}"
    except ValueError:
        return f"{code} field"


def _column_metadata(a: Annotator, index: int, code: int) -> None:
    name = f"column_metadata[{index}]"
    if code == _T.MYSQL_TYPE_TYPED_ARRAY:
        element = a.uint(f"{name} element type", 1, "column type", type_name)
        size = 3 if element == _T.MYSQL_TYPE_VARCHAR else METADATA_SIZES[element]
        if size:
            a.uint(name, size, "of the element")
        return
    size = METADATA_SIZES[code]
    if not size:
        return
    if code == _T.MYSQL_TYPE_NEWDECIMAL:
        a.uint(f"{name} precision", 1, "digits")
        a.uint(f"{name} scale", 1, "digits")
    elif code in types_of("string", "label"):
        a.uint(f"{name} real type", 1, "column type, with high bits of the length", str)
        a.uint(f"{name} length", 1, "bytes")
    elif code == _T.MYSQL_TYPE_BIT:
        a.uint(f"{name} bits", 1, "bits beyond whole bytes")
        a.uint(f"{name} bytes", 1, "whole bytes")
    elif code in FRACTION_TYPES:
        a.uint(name, size, "fraction digits")
    elif code in types_of("varchar"):
        a.uint(name, size, "bytes at most")
    else:
        a.uint(name, size, "bytes of the value or of its length")


def _optional_field(a: Annotator, code: int, name: str, size: int, types: list[int]) -> None:
    require(a, size, name)
    end = a.offset + size
    if code == _F.SIGNEDNESS:
        count = sum(column in NUMERIC_TYPES for column in types)
        a.take(name, size, f"bit per numeric column ({count}), from the top, 1: unsigned", bits)
    elif code == _F.COLUMN_VISIBILITY:
        a.take(name, size, "bit per column, from the top, 1: visible", bits)
    elif code in (_F.DEFAULT_CHARSET, _F.ENUM_AND_SET_DEFAULT_CHARSET):
        a.lenenc(name, "collation id")
        while a.offset < end:
            a.lenenc(f"{name} exception", "index among its kind")
            a.lenenc(f"{name} of it", "collation id")
    elif code in NUMBER_FIELDS:
        _numbers(a, name, end, NUMBER_FIELDS[_F(code)][1])
    elif code == _F.COLUMN_NAME:
        index = 0
        while a.offset < end:
            a.lenenc_string(f"column_names[{index}]")
            index += 1
    elif code in (_F.SET_STR_VALUE, _F.ENUM_STR_VALUE):
        index = 0
        while a.offset < end:
            count = a.lenenc(f"{name}[{index}] count", "labels")
            require(a, count, "labels")
            for at in range(count):
                a.lenenc_string(f"{name}[{index}][{at}]")
            index += 1
    elif code == _F.SIMPLE_PRIMARY_KEY:
        _numbers(a, name, end, "column index")
    elif code == _F.PRIMARY_KEY_WITH_PREFIX:
        index = 0
        while a.offset < end:
            a.lenenc(f"{name}[{index}]", "column index")
            a.lenenc(f"{name}[{index}] prefix", "characters, 0: whole")
            index += 1
    else:
        a.take(name, size, "not known")
    if a.offset < end:
        a.take(f"{name} rest", end - a.offset, "left over")


def _numbers(a: Annotator, name: str, end: int, unit: str) -> None:
    index = 0
    while a.offset < end:
        a.lenenc(f"{name}[{index}]", unit)
        index += 1
