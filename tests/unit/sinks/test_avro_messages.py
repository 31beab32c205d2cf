"""Messages as Avro with a schema registry on loopback, read back by two independent readers."""

from __future__ import annotations

import io
import json
import struct
from base64 import b64decode
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="the package confluent-kafka is not installed")
pytest.importorskip("avro", reason="the package avro is not installed")
pytest.importorskip("fastavro", reason="the package fastavro is not installed")

import fastavro
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from replica_client.errors import ConfigError, PoisonChangeError, SinkError
from replica_client.sinks.formats.line_format import make_message_format
from replica_client.sinks.formats.message import KeyChoice, Message
from replica_client.sinks.kafka.avro_messages import AvroMessages
from replica_client.sinks.kafka.kafka_options import RegistryOptions
from replica_client.stream.transactions.transaction import Transaction
from replica_client.testing.sink_conformance import SinkConformance
from tests.integration.schema_registry import SchemaRegistry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as registry:
        yield registry


@pytest.fixture
def avro(registry: SchemaRegistry) -> Iterator[AvroMessages]:
    avro = AvroMessages(RegistryOptions(url=registry.url))
    yield avro
    avro.close()


def transactions() -> list[Transaction]:
    return SinkConformance().transactions()


def messages(**options: object) -> list[Message]:
    line_format = make_message_format("avro", options, KeyChoice())
    return [message for one in transactions() for message in line_format.messages(one)]


def topic_of(message: Message) -> str:
    return f"{message.kind}.{message.database}.{message.table}"


def without_logical_types(schema: Any) -> Any:
    """So that a reader gives bytes, days and milliseconds."""
    if isinstance(schema, list):
        return [without_logical_types(one) for one in schema]
    if isinstance(schema, dict):
        return {
            name: without_logical_types(one)
            for name, one in schema.items()
            if name not in ("logicalType", "default", "connect.default")
        }
    return schema


def as_connect(value: Any, schema: dict[str, Any]) -> Any:
    """JSON of a Connect schema as the values that a reader of Avro gives."""
    if value is None:
        return None
    if schema["type"] == "bytes":
        return b64decode(value)
    if schema["type"] == "float":
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if schema["type"] == "struct":
        return {one["field"]: as_connect(value[one["field"]], one) for one in schema["fields"]}
    if schema["type"] == "array":
        return [as_connect(one, schema["items"]) for one in value]
    return value


def test_all_that_is_written_reads_back(registry: SchemaRegistry, avro: AvroMessages) -> None:
    registry.set_level("NONE")
    kinds = set()
    for message in messages(provide_transaction_metadata=True):
        parts = [(message.schemas[1], message.value, avro.value(topic_of(message), message))]
        if message.key is not None:
            key = avro.key(topic_of(message), message, message.key)
            assert key is not None
            parts.append((message.schemas[0], message.key, key))
        for schema, text, data in parts:
            assert data[0] == 0
            written = registry.schema(int.from_bytes(data[1:5], "big"))
            parsed = fastavro.parse_schema(without_logical_types(written))
            body = io.BytesIO(data[5:])
            value = fastavro.schemaless_reader(body, parsed)
            assert not body.read()
            expected = as_connect(json.loads(text), json.loads(schema))
            assert value == expected
        kinds.add(message.kind)
    assert kinds == {"row", "schema", "transaction"}
    assert {name.rpartition("-")[2] for name in registry.subjects} == {"key", "value"}


def test_confluents_own_deserializer_reads_it(registry: SchemaRegistry, avro: AvroMessages) -> None:
    registry.set_level("NONE")
    message = next(one for one in messages() if (one.kind, one.table) == ("row", "orders"))
    client = SchemaRegistryClient({"url": registry.url})
    try:
        read = AvroDeserializer(client)
        context = SerializationContext("row.shop.orders", MessageField.VALUE)
        value = read(avro.value("row.shop.orders", message), context)
    finally:
        client.close()
    assert isinstance(value, dict)
    expected = json.loads(message.value)
    assert value["op"] == expected["op"]
    assert value["source"]["gtid"] == expected["source"]["gtid"]
    columns = json.loads(message.schemas[1])["fields"][1]["fields"]
    decimals = [one for one in columns if one.get("name", "").endswith(".Decimal")]
    assert decimals
    for one in decimals:
        unscaled = int.from_bytes(b64decode(expected["after"][one["field"]]), "big", signed=True)
        scale = int(one["parameters"]["scale"])
        assert value["after"][one["field"]] == Decimal(unscaled).scaleb(-scale)


def envelope(*columns: dict[str, Any], after: dict[str, Any]) -> Message:
    """A message with few fields."""
    row = {"type": "struct", "name": "p.d.t.Value", "optional": True, "field": "after"}
    fields = [{**row, "fields": list(columns)}]
    schema = {"type": "struct", "name": "p.d.t.Envelope", "version": 2, "fields": fields}
    schemas = "", json.dumps({**schema, "optional": False})
    return Message("row", "d", "t", None, json.dumps({"after": after}), schemas=schemas)


ID = {"type": "int32", "optional": False, "field": "id"}


def test_a_column_that_is_added_is_a_new_version(
    registry: SchemaRegistry, avro: AvroMessages
) -> None:
    added = {"type": "string", "optional": True, "field": "name"}
    first = avro.value("t", envelope(ID, after={"id": 1}))
    second = avro.value("t", envelope(ID, added, after={"id": 2, "name": "ä"}))
    assert avro.value("t", envelope(ID, after={"id": 1})) == first
    old, new = registry.subjects["t-value"]
    assert int.from_bytes(first[1:5], "big") != int.from_bytes(second[1:5], "big")
    # Readers of the new schema read what was written before.
    found = fastavro.schemaless_reader(io.BytesIO(first[5:]), old, new)
    assert found == {"after": {"id": 1, "name": None}}
    assert fastavro.schemaless_reader(io.BytesIO(second[5:]), new)["after"]["name"] == "ä"


def test_a_change_that_is_not_compatible_stops_the_sink(
    registry: SchemaRegistry, avro: AvroMessages
) -> None:
    needed = {"type": "string", "optional": False, "field": "name"}
    avro.value("t", envelope(ID, after={"id": 1}))
    with pytest.raises(SinkError, match="subject t-value: the table's new schema is not") as caught:
        avro.value("t", envelope(ID, needed, after={"id": 2, "name": "x"}))
    assert not caught.value.retriable
    assert len(registry.subjects["t-value"]) == 1
    registry.set_level("FORWARD", "t-value")
    avro.value("t", envelope(ID, needed, after={"id": 2, "name": "x"}))
    assert len(registry.subjects["t-value"]) == 2


def test_a_schema_is_asked_for_once(registry: SchemaRegistry, avro: AvroMessages) -> None:
    for number in range(5):
        avro.value("t", envelope(ID, after={"id": number}))
    assert registry.requests == ["POST /subjects/t-value/versions"]


def test_schemas_that_must_be_there(registry: SchemaRegistry, avro: AvroMessages) -> None:
    strict = AvroMessages(RegistryOptions(url=registry.url, register=False))
    message = envelope(ID, after={"id": 1})
    with pytest.raises(
        SinkError, match="is not registered, and registry.register is off"
    ) as caught:
        strict.value("t", message)
    assert not caught.value.retriable
    assert not registry.subjects
    expected = avro.value("t", message)
    assert strict.value("t", message) == expected
    strict.close()


def test_a_registry_that_is_away_comes_back(registry: SchemaRegistry, avro: AvroMessages) -> None:
    message = envelope(ID, after={"id": 1})
    registry.down = True
    with pytest.raises(SinkError, match=r"schema registry at 127\.0\.0\.1:\d+") as caught:
        avro.value("t", message)
    assert caught.value.retriable
    registry.down = False
    assert avro.value("t", message)[:1] == b"\0"
    avro.probe()


def test_a_registry_that_is_nowhere() -> None:
    avro = AvroMessages(RegistryOptions(url="http://127.0.0.1:1", timeout=1))
    with pytest.raises(
        SinkError, match=r"schema registry at 127\.0\.0\.1:1: ConnectError"
    ) as caught:
        avro.probe()
    assert caught.value.retriable
    avro.close()


def test_the_password_is_in_no_message() -> None:
    with SchemaRegistry("user:hush") as registry:
        message = envelope(ID, after={"id": 1})
        for password, works in (("wrong-hush", False), ("hush", True)):
            options = RegistryOptions(url=registry.url, username="user", password=password)
            assert "hush" not in repr(options)
            avro = AvroMessages(options)
            if works:
                avro.value("t", message)
            else:
                with pytest.raises(SinkError, match="Unauthorized") as caught:
                    avro.value("t", message)
                assert not caught.value.retriable
                assert "hush" not in str(caught.value)
            avro.close()


def test_a_row_without_a_column_is_named(avro: AvroMessages) -> None:
    name = {"type": "string", "optional": True, "field": "name"}
    with pytest.raises(SinkError, match=r"d\.t: the row image has no column name"):
        avro.value("t", envelope(ID, name, after={"id": 1}))


def test_a_change_that_cannot_be_written_is_named_without_its_value(avro: AvroMessages) -> None:
    rows = next(one.rows[0] for one in transactions() if one.rows)
    message = envelope(ID, after={"id": 123_456_789_012_345})._replace(rows=rows, row_index=0)
    with pytest.raises(PoisonChangeError, match=r"as Avro: fields .*\.id$") as caught:
        avro.value("t", message)
    assert "123456789012345" not in str(caught.value)
    assert caught.value.file == rows.event.file


def test_a_message_without_a_schema_is_a_string(
    registry: SchemaRegistry, avro: AvroMessages
) -> None:
    message = Message("row", "d", "outbox", "17", '{"total": 3}', topic="orders")
    key, value = avro.key("orders", message, message.key), avro.value("orders", message)
    assert registry.subjects == {
        "orders-key": [{"type": "string"}],
        "orders-value": [{"type": "string"}],
    }
    assert key is not None
    assert key[5:] == b"\x0417"
    assert value[5:] == b'\x18{"total": 3}'


def test_numbers_that_no_schema_has_are_refused() -> None:
    with pytest.raises(ConfigError, match="'number' has no schema"):
        make_message_format("avro", {"bigint_unsigned_handling_mode": "number"})
