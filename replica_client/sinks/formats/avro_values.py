"""Conversion of Connect values in JSON to the values that Avro writes.

Bytes are base64 in JSON, and fields may have other names in Avro. Days, milliseconds and unscaled
decimals are the same in both.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any

from replica_client.sinks.formats.avro_schema import Schema, field_names

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
