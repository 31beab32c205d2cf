"""Avro schemas and values of Connect's, beside what Confluent's AvroConverter makes of them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("avro", reason="the package avro is not installed")
pytest.importorskip("fastavro", reason="the package fastavro is not installed")

import fastavro

from replica_client.protocol.constants.column_types import ColumnType
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.formats.avro import (
    AbsentFieldError,
    avro_reader,
    avro_schema,
    field_names,
)
from replica_client.sinks.formats.debezium_connect import column_schema
from replica_client.sinks.formats.debezium_values import ValueModes
from tests.integration.schema_registry import normal

# scripts/proofs/avro --capture made it: the longest message of each kind, of a table with all types.
CAPTURED = json.loads(Path(__file__).with_name("avro_converter.json").read_text())
NAMES = [case["connect"]["schema"]["name"] for case in CAPTURED]


@pytest.mark.parametrize("case", CAPTURED, ids=NAMES)
def test_schemas_and_bytes_are_those_of_avro_converter(case: dict[str, Any]) -> None:
    connect = case["connect"]["schema"]
    made = avro_schema(connect)
    assert normal(made) == normal(case["avro"])
    assert isinstance(made, dict)
    read, value = avro_reader(connect), case["connect"]["payload"]
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(made), read(value) if read else value)
    assert data.getvalue().hex() == case["bytes"]


def test_what_was_captured_has_all_types() -> None:
    (at,) = (at for at, name in enumerate(NAMES) if name.endswith(".Envelope"))
    envelope = CAPTURED[at]
    text = json.dumps(envelope["avro"])
    for name in (
        "Decimal",
        "Enum",
        "EnumSet",
        "Json",
        "Bits",
        "Date",
        "MicroTime",
        "Timestamp",
        "MicroTimestamp",
        "ZonedTimestamp",
        "Year",
        "Point",
        "Geometry",
        "FloatVector",
    ):
        assert f'.{name}"' in text
    assert '"connect.default"' in text


def column(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "int32", "optional": False, "field": name, **more}


def test_names_that_avro_does_not_allow() -> None:
    names = ["id", "größe", "a b", "1st", "", "a.b", "_x"]
    assert field_names([column(name) for name in names]) == [
        "id",
        "gr__e",
        f"a_b_{DIGESTS['a b']}",
        "_1st",
        "_",
        f"a_b_{DIGESTS['a.b']}",
        "_x",
    ]
    schema = {"type": "struct", "name": "p.my-db.1t.Value", "fields": [column("a-b")]}
    made = avro_schema(schema)
    assert made == {
        "type": "record",
        "name": "Value",
        "namespace": "p.my_db._1t",
        "fields": [{"name": "a_b", "type": "int"}],
        "connect.name": "p.my_db._1t.Value",
    }
    fastavro.parse_schema(made)
    read = avro_reader(schema)
    assert read is not None
    assert read({"a-b": 7}) == {"a_b": 7}


DIGESTS = {"a b": "c8687a08aa5d6ed2", "a.b": "2e7336dc8eba87ef"}


def test_a_name_that_was_allowed_stays_beside_one_that_becomes_the_same() -> None:
    plain, changed = field_names([column("a_b"), column("a-b")])
    assert plain == "a_b"
    assert changed.startswith("a_b_")


def test_a_record_that_comes_again_is_named_alone() -> None:
    point = {"type": "struct", "name": "g.Point", "version": 1, "fields": [column("x")]}
    fields = [{**point, "field": "a", "optional": True}, {**point, "field": "b", "optional": False}]
    made = avro_schema({"type": "struct", "name": "t.Value", "fields": fields})
    assert isinstance(made, dict)
    assert made["fields"][1]["type"] == "g.Point"
    fastavro.parse_schema(made)


def test_a_row_without_a_column_is_refused() -> None:
    fields = [column("id"), column("n", optional=True)]
    read = avro_reader({"type": "struct", "name": "t.Value", "fields": fields})
    assert read is not None
    with pytest.raises(AbsentFieldError) as caught:
        read({"id": 1})
    assert caught.value.field == "n"


def test_bytes_in_arrays_and_defaults() -> None:
    some = {"type": "bytes", "optional": False}
    read = avro_reader({"type": "array", "items": some, "optional": True})
    assert read is not None
    assert read(["AP8=", ""]) == [b"\0\xff", b""]
    assert read(None) is None
    made = avro_schema(
        {"type": "struct", "name": "V", "fields": [{**some, "field": "b", "default": "AP8="}]}
    )
    assert made == {
        "type": "record",
        "name": "V",
        "fields": [
            {
                "name": "b",
                "type": {"type": "bytes", "connect.default": "\0\xff"},
                "default": "\0\xff",
            }
        ],
        "connect.name": "V",
    }


def test_a_vector_of_mariadb_is_an_array() -> None:
    """Its column is one of bytes, and the definition tells what it is."""
    kind = ColumnType.MYSQL_TYPE_VARCHAR
    column = ColumnShape(
        "v", kind, length=12, collation_id=63, nullable=True, logical_type="vector"
    )
    found = column_schema(column, ValueModes())
    assert (found["type"], found["name"]) == ("array", "io.debezium.data.FloatVector")
    assert found["items"] == {"type": "float", "optional": False}
