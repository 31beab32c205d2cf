"""Avro: schemas and values.

==========================  ==========================================================================================
Connect                     Avro
==========================  ==========================================================================================
int8, int16                 ``int`` with ``connect.type``
int32, int64                ``int``, ``long``
float, double               the same
boolean, string, bytes      the same
array                       the same
struct                      ``record``; the second time it is named alone
optional                    union with ``null``, first where the default is null
Decimal, Date, Time,        with ``logicalType``
Timestamp of Connect
name, version, doc,         ``connect.name``, ``connect.version``, ``connect.doc``, ``connect.parameters``,
parameters, default         ``connect.default``
==========================  ==========================================================================================

Characters that Avro does not allow in names become ``_``, as with Debezium's
``schema.name.adjustment.mode=avro`` and ``field.name.adjustment.mode=avro``; if two columns would
get the same name, a digest is appended to the changed names.

Bytes are base64 in JSON, and fields may have other names in Avro. Days, milliseconds and unscaled
decimals are the same in both.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

Schema = Mapping[str, Any]
AvroType = str | dict[str, Any] | list[Any]

_PLAIN: Final = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_SHORT: Final = ("int8", "int16")
_CONNECT: Final = "org.apache.kafka.connect.data."
_LOGICAL: Final = {
    f"{_CONNECT}Date": "date",
    f"{_CONNECT}Time": "time-millis",
    f"{_CONNECT}Timestamp": "timestamp-millis",
}
_DECIMAL: Final = f"{_CONNECT}Decimal"
_OTHER: Final = re.compile(r"[^A-Za-z0-9_]")


def avro_schema(schema: Schema) -> AvroType:
    """Return the Avro schema for a Connect schema."""
    return _avro(schema, set())


def field_names(fields: Sequence[Schema]) -> list[str]:
    """Return the Avro names of a struct's fields, in order and unique."""
    names = [str(field["field"]) for field in fields]
    changed = [_name(name) for name in names]
    return [
        one if one == name or changed.count(one) == 1 else f"{one}_{_digest(name)}"
        for name, one in zip(names, changed, strict=True)
    ]


def _avro(schema: Schema, known: set[str]) -> AvroType:
    base = _base(schema, known)
    if not schema.get("optional"):
        return base
    return ["null", base] if schema.get("default") is None else [base, "null"]


def _base(schema: Schema, known: set[str]) -> AvroType:
    kind = schema["type"]
    if kind == "struct":
        return _record(schema, known)
    more = _properties(schema)
    if kind in _SHORT:
        more["connect.type"] = kind
    if kind == "array":
        return {"type": "array", "items": _avro(schema["items"], known), **more}
    name = schema.get("name")
    if name == _DECIMAL:
        digits = schema["parameters"]
        more["scale"] = int(digits["scale"])
        more["precision"] = int(digits["connect.decimal.precision"])
        more["logicalType"] = "decimal"
    elif name in _LOGICAL:
        more["logicalType"] = _LOGICAL[name]
    return {"type": _PLAIN[kind], **more} if more else _PLAIN[kind]


def _record(schema: Schema, known: set[str]) -> AvroType:
    full = full_name(schema["name"])
    if full in known:
        return full
    known.add(full)
    namespace, _, name = full.rpartition(".")
    members = schema["fields"]
    fields = [
        _field(member, field_name, known)
        for member, field_name in zip(members, field_names(members), strict=True)
    ]
    record: dict[str, Any] = {"type": "record", "name": name}
    if namespace:
        record["namespace"] = namespace
    return {**record, "fields": fields, **_properties(schema)}


def _field(schema: Schema, name: str, known: set[str]) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name, "type": _avro(schema, known)}
    default = schema.get("default")
    if default is not None:
        field["default"] = _default(schema, default)
    elif schema.get("optional"):
        field["default"] = None
    return field


def _properties(schema: Schema) -> dict[str, Any]:
    """Return the attributes of a Connect schema that Avro lacks, as ``connect.…`` properties."""
    found: dict[str, Any] = {}
    for name in ("doc", "version", "parameters"):
        if schema.get(name) is not None:
            found[f"connect.{name}"] = schema[name]
    if schema.get("default") is not None:
        found["connect.default"] = _default(schema, schema["default"])
    if schema.get("name") is not None:
        is_record = schema["type"] == "struct"
        found["connect.name"] = full_name(schema["name"]) if is_record else schema["name"]
    return found


def _default(schema: Schema, default: Any) -> Any:
    """Return a default in Avro's JSON form, where each byte is a character."""
    return b64decode(default).decode("latin-1") if schema["type"] == "bytes" else default


def full_name(name: str) -> str:
    """Return the Avro name of a record, with each part made valid."""
    return ".".join(_name(part) for part in name.split("."))


def _name(text: str) -> str:
    name = _OTHER.sub("_", text)
    return f"_{name}" if not name or name[0].isdigit() else name


def _digest(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]


AvroReader = Callable[[Any], Any]


class AbsentFieldError(Exception):
    """A value lacks a field of its schema.

    Attributes:
        field: its name.
    """

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def avro_reader(schema: Schema) -> AvroReader | None:
    """Return the function that converts a decoded JSON value to Avro's, or None if they are equal.

    A struct that may be null becomes a pair of its record's name and its fields, as fastavro takes
    it. The function raises :class:`AbsentFieldError` if a struct lacks a field, because a reader
    would take the default for its value.
    """
    kind = schema["type"]
    read: AvroReader | None = None
    if kind == "bytes":
        read = b64decode
    elif kind == "struct":
        read = _struct(schema)
    elif kind == "array":
        read = _array(schema)
    if read is None or not schema.get("optional"):
        return read
    given = read
    return lambda value: None if value is None else given(value)


def _struct(schema: Schema) -> AvroReader:
    fields = [
        (member["field"], name, avro_reader(member))
        for member, name in zip(schema["fields"], field_names(schema["fields"]), strict=True)
    ]

    def read(value: Any) -> Any:
        found = {}
        for member, name, convert in fields:
            try:
                given = value[member]
            except KeyError:
                raise AbsentFieldError(member) from None
            found[name] = given if convert is None else convert(given)
        return found

    return read


def _array(schema: Schema) -> AvroReader | None:
    convert = avro_reader(schema["items"])
    if convert is None:
        return None
    return lambda value: [convert(one) for one in value]
