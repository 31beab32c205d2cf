"""CloudEvents as the reader of its own project reads them, and around the lines of the other formats."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest

from replica_client import open_binlog
from replica_client.errors import ConfigError
from replica_client.sinks.formats.line_format import make_format
from replica_client.sinks.formats.message import KeyChoice
from replica_client.sinks.registry import make_sink
from replica_client.stream.transactions.transaction import Transaction
from tests.unit.sinks.formats.cases import LINES, NOW_NS, SERVERS


def transactions(server: str) -> list[Transaction]:
    return list(open_binlog(LINES / f"{server}.binlog", tables=["kinds.*"]).transactions())


@pytest.mark.parametrize("data", ["native", "debezium", "maxwell", "canal"])
@pytest.mark.parametrize("server", SERVERS)
def test_data_and_key_are_those_of_the_other_format(server: str, data: str) -> None:
    with mock.patch("time.time_ns", lambda: NOW_NS):
        inner = make_format(data, {}, KeyChoice())
        wanted = [one for each in transactions(server) for one in inner.messages(each)]
        found = {}
        for mode in ("structured", "binary"):
            outer = make_format("cloudevents", {"data": data, "mode": mode}, KeyChoice())
            found[mode] = [one for each in transactions(server) for one in outer.messages(each)]
    ids = set()
    for message, whole, binary in zip(wanted, found["structured"], found["binary"], strict=True):
        event = json.loads(whole.value)
        assert event.pop("data") == json.loads(message.value)
        assert event.pop("datacontenttype") == "application/json"
        assert binary.value == message.value
        headers = dict(binary.headers)
        assert headers.pop("content-type") == "application/json"
        assert {f"ce_{name}": text for name, text in event.items()}.items() <= headers.items()
        assert dict(whole.headers)["content-type"].startswith("application/cloudevents+json")
        assert event.get("partitionkey") == message.key == whole.key == binary.key
        assert whole.gone == message.gone
        ids.add(event["id"])
    assert len(ids) == len(wanted) > 60


@pytest.mark.parametrize("server", SERVERS)
def test_the_reader_of_the_project_takes_them(server: str) -> None:
    http = pytest.importorskip(
        "cloudevents.v1.http", reason="the package cloudevents is not installed"
    )
    kafka = pytest.importorskip("cloudevents.v1.kafka")
    structured: Any = make_format("cloudevents", {"source": "/shop"}, KeyChoice())
    binary: Any = make_format("cloudevents", {"source": "/shop", "mode": "binary"}, KeyChoice())
    count = 0
    for transaction in transactions(server):
        for one, two in zip(
            structured.messages(transaction), binary.messages(transaction), strict=True
        ):
            headers = {name: text.encode() for name, text in two.headers}
            read = http.from_json(one.value)
            message = kafka.KafkaMessage(headers, two.key, two.value.encode())
            again = kafka.from_binary(message, data_unmarshaller=json.loads)
            assert read["source"] == again["source"] == "/shop"
            assert read["id"] == again["id"]
            assert read["time"] == again["time"]
            assert read.data == again.data
            count += 1
    assert count > 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": "avro"}, "data: invalid enum value 'avro'; there are"),
        ({"source": ""}, "source: it must be printable ASCII without blanks"),
        ({"type_prefix": "a b"}, "type_prefix: it must be printable ASCII"),
        ({"mode": "batch"}, "mode: invalid enum value"),
        ({"data": "canal", "data_options": {"x": 1}}, "the canal format has none"),
        ({"nothing": 1}, "nothing: no such key"),
        ({"mode": "binary"}, "needs messages with headers, which only the sink kafka has"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_sink("stdout", {"format": "cloudevents", "format_options": options})
    assert message in str(caught.value)
