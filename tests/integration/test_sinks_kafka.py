"""The Kafka sink on a broker that keeps Kafka's transaction semantics."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("confluent_kafka", reason="the package confluent-kafka is not installed")
pytest.importorskip("aiokafka", reason="the package aiokafka is not installed")

from confluent_kafka import KafkaError, KafkaException, Producer

from replica_client.errors import PoisonChangeError, SinkError
from replica_client.protocol.position import Position
from replica_client.sinks.formats.line_format import make_format
from replica_client.sinks.formats.message import KeyChoice
from replica_client.sinks.kafka.kafka_options import read_kafka_options
from replica_client.sinks.kafka.topic_writer import TopicWriter
from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.transaction import Transaction
from replica_client.testing import sink_conformance
from replica_client.testing.sink_conformance import SimulatedCrashError, SinkConformance
from tests.integration.kafka_broker import START_TIMEOUT, FaultyBroker, KafkaBroker
from tests.integration.kafka_mock import ADD_PARTITIONS, END_TXN, PRODUCE, KafkaMock

KILLED: list[Producer] = []
# When an event was made, in rows and in definitions.
CLOCK = re.compile(r',"ts_ms":[0-9]+(?:,"ts_us":[0-9]+,"ts_ns":[0-9]+|(?=,"databaseName"))')


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with tempfile.TemporaryDirectory() as directory:
        broker = KafkaBroker(Path(directory))
        yield broker
        for producer in KILLED:
            with contextlib.suppress(KafkaException):  # most were fenced
                producer.abort_transaction(START_TIMEOUT)
        KILLED.clear()
        broker.stop()


def prefix_of(target: Path) -> str:
    return str(target).strip("/").replace("/", "-")


class TestKafka(SinkConformance):
    options: dict[str, Any] = {}
    step_stride = 20

    @pytest.fixture(autouse=True)
    def _server(self, broker: KafkaBroker) -> None:
        self.broker = broker

    def make_sink(self, target: Path) -> Sink:
        table = {"bootstrap_servers": self.broker.servers, "topic_prefix": prefix_of(target)}
        return make_sink("kafka", {**table, "partitions": 1, **self.options})

    async def abandon(self, sink: Any) -> None:
        # A process that is gone aborts nothing; to free a producer in the middle of a transaction ends this one.
        if sink._writer is not None and sink._writer._producer is not None:
            KILLED.append(sink._writer._producer)
            sink._writer._producer = None

    async def content(self, target: Path) -> Any:
        prefix = prefix_of(target)
        return {
            name.removeprefix(prefix): records
            for name, records in sorted(self.broker.read(prefix).items())
            if name.removeprefix(prefix)[:1] in ("", ".") and not name.endswith(".position")
        }


class TestKafkaInSeveralTransactions(TestKafka):
    """Commits of several Kafka transactions, of which any can be the last."""

    options = {
        "transaction_messages": 3,
        "topic": "{prefix}.rows",
        "format": "debezium",
        "format_options": {"topic_prefix": "shop"},
    }

    async def content(self, target: Path) -> Any:
        found = await super().content(target)
        return {
            name: [(key, value and CLOCK.sub("", value)) for key, value in records]
            for name, records in found.items()
        }

    def test_killed_between_transactions(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original, calls, limit = TopicWriter.commit, 0, 10**9

        def commit(writer: TopicWriter) -> None:
            nonlocal calls
            if calls >= limit:
                raise SimulatedCrashError
            calls += 1
            original(writer)

        monkeypatch.setattr(TopicWriter, "commit", commit)
        expected = self._expected(tmp_path)
        total, ahead = calls, 0
        for number in range(1, total, 9):
            target, saved = self._target(tmp_path, f"commit-{number}"), sink_conformance._Saved()
            calls, limit = 0, number
            assert self._killed(target, saved, lambda: None)
            (*_, (_, position)) = [
                record
                for record in self.broker.read(f"{prefix_of(target)}.position").popitem()[1]
                if record[0] == "position"
            ]
            ahead += json.loads(position)["ahead"] > 0
            limit = 10**9
            self._run(target, saved)
            self._assert_same(target, expected)
        assert ahead

    # Readers see the first messages of a commit that takes several.
    test_a_part_is_not_shown = None
    test_what_is_not_committed_is_not_kept = None
    test_names_stay_apart_and_inside = None
    test_killed_at_every_step = None
    test_killed_again_and_again = None


class TestKafkaAvro(TestKafka):
    """What a reader of Avro finds."""

    step_stride = 60

    @pytest.fixture(autouse=True)
    def _registry(self) -> Iterator[None]:
        pytest.importorskip("fastavro", reason="the package fastavro is not installed")
        from tests.integration.schema_registry import SchemaRegistry

        with SchemaRegistry() as self.registry:
            self.registry.set_level("NONE")
            registry = {"url": self.registry.url}
            self.options = {"format": "avro", "registry": registry}
            yield

    async def content(self, target: Path) -> Any:
        prefix = prefix_of(target)
        found = self.broker.read(prefix, binary=True)
        return {
            name.removeprefix(prefix): [
                (self._read(key), self._read(value)) for key, value in records
            ]
            for name, records in sorted(found.items())
            if name.removeprefix(prefix)[:1] in ("", ".") and not name.endswith(".position")
        }

    def _read(self, data: Any) -> Any:
        import fastavro

        if data is None:
            return None
        assert data[0] == 0
        schema = self.registry.schema(int.from_bytes(data[1:5], "big"))
        value = fastavro.schemaless_reader(io.BytesIO(data[5:]), schema)
        assert isinstance(value, dict)
        # When it was made, and the prefix, which is another one for each run.
        for name in ("ts_ms", "ts_us", "ts_ns"):
            value.pop(name, None)
        if "source" in value:
            value["source"].pop("name")
        return value

    test_names_stay_apart_and_inside = None
    test_killed_again_and_again = None


class TestKafkaArrow(TestKafka):
    step_stride = 40
    options = {"format": "arrow"}

    async def content(self, target: Path) -> Any:
        pa = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
        prefix = prefix_of(target)
        found = {}
        for name, records in sorted(self.broker.read(prefix, binary=True).items()):
            if name.removeprefix(prefix)[:1] in ("", ".") and not name.endswith(".position"):
                assert {key for key, _ in records} == {None}
                found[name.removeprefix(prefix)] = [
                    (table.schema.metadata[b"table"], table.to_pylist())
                    for table in (pa.ipc.open_stream(value).read_all() for _, value in records)
                ]
        return found

    test_names_stay_apart_and_inside = None
    test_killed_again_and_again = None


class TestKafkaAtLeastOnce(TestKafka):
    step_stride = 25
    options = {
        "guarantee": "at-least-once",
        "topic": "{prefix}.all",
        "schema_topic": "{prefix}.all",
    }

    test_names_stay_apart_and_inside = None
    test_killed_again_and_again = None

    async def content(self, target: Path) -> Any:
        return (await super().content(target)).get(".all", [])


def transactions() -> list[Transaction]:
    return SinkConformance().transactions()


async def write(table: dict[str, Any], some: Sequence[Transaction]) -> None:
    sink = make_sink("kafka", {"partitions": 1, **table})
    try:
        await sink.open()
        for transaction in some:
            await sink.write(transaction)
        await sink.commit(Checkpoint(some[-1].position))
    finally:
        await sink.close()


@pytest.mark.parametrize("name", ["native", "debezium", "maxwell", "canal"])
async def test_each_message_is_a_line_of_the_format(name: str, broker: KafkaBroker) -> None:
    prefix = f"lines-{name}"
    table = {"bootstrap_servers": broker.servers, "topic_prefix": prefix, "format": name}
    table |= {"topic": "{prefix}.all", "schema_topic": "{prefix}.all"}
    with mock.patch("time.time_ns", lambda: 1_795_000_000_123_456_789):
        await write(table, transactions())
        options = {"topic_prefix": prefix} if name == "debezium" else {}
        # A message of Canal is of one row, where a line may be of several.
        keys = KeyChoice() if name == "canal" else None
        line_format = make_format(name, options, keys)
        expected = [line for one in transactions() for line in line_format.lines(one)]
    records = broker.read(f"{prefix}.all")[f"{prefix}.all"]
    values = [value for _, value in records if value is not None]
    assert values == expected
    keys_of = {key for key, value in records if value is not None and key is not None}
    begins = {"maxwell": '{"database":"shop","table":"', "native": '{"', "canal": '{"'}
    assert len(keys_of) > 10
    assert all(key.startswith(begins.get(name, "{")) for key in keys_of)
    tombstones = [key for key, value in records if value is None]
    assert bool(tombstones) == (name in ("native", "debezium"))


async def test_binary_cloud_events_have_their_attributes_as_headers(broker: KafkaBroker) -> None:
    table: dict[str, Any] = {"bootstrap_servers": broker.servers, "topic_prefix": "events"}
    table |= {"format": "cloudevents", "format_options": {"mode": "binary", "source": "/shop"}}
    await write(table, transactions())
    plain = make_format("native", {}, KeyChoice())
    expected = [
        message.value
        for one in transactions()
        for message in plain.messages(one)
        if (message.kind, message.table) == ("row", "orders")
    ]
    records = broker.read("events.shop.orders", headers=True)["events.shop.orders"]
    rows = [(value, dict(headers)) for _, value, headers in records if value is not None]
    assert [value for value, _ in rows] == expected
    assert len({headers["ce_id"] for _, headers in rows}) == len(expected) > 2
    for _, headers in rows:
        assert headers["content-type"] == b"application/json"
        assert headers["ce_source"] == b"/shop"
        assert headers["ce_subject"] == b"shop.orders"


async def test_keys_are_those_that_were_chosen(broker: KafkaBroker) -> None:
    table: dict[str, Any] = {"bootstrap_servers": broker.servers, "topic_prefix": "chosen"}
    table |= {"key_columns": {"*.orders": ["customer_id"]}, "headers": True}
    await write(table, transactions())
    records = broker.read("chosen.shop.orders", headers=True)["chosen.shop.orders"]
    assert {json.loads(key).keys() == {"customer_id"} for key, *_ in records} == {True}
    # A tombstone of such a key would take rows away that are there.
    assert all(value is not None for _, value, _ in records)
    assert {name for *_, headers in records for name, _ in headers} == {
        "replica_client.transaction",
        "replica_client.order",
    }


async def test_the_last_writer_fences_the_others(broker: KafkaBroker) -> None:
    table = {"bootstrap_servers": broker.servers, "topic_prefix": "fenced"}
    first, second = (make_sink("kafka", table) for _ in range(2))
    try:
        await first.open()
        await first.write(next(one for one in transactions() if one.rows))
        await second.open()
        with pytest.raises(SinkError, match="another process writes with this") as caught:
            await first.commit(Checkpoint(Position("b.000001", 4)))
        assert not caught.value.retriable
        await second.commit(Checkpoint(Position("b.000001", 8)))
    finally:
        await first.close()
        await second.close()


async def test_a_position_behind_an_open_transaction_is_not_passed_over(
    broker: KafkaBroker,
) -> None:
    """Readers of committed records are told that the topic ends in front of it."""
    table = {"bootstrap_servers": broker.servers, "topic_prefix": "open", "timeout": 3.0}
    stranger = Producer({"bootstrap.servers": broker.servers, "transactional.id": "stranger"})
    first, second = Position("b.000001", 4), Position("b.000001", 8)
    sink = make_sink("kafka", table)
    await sink.open()
    await sink.commit(Checkpoint(first))
    stranger.init_transactions(START_TIMEOUT)
    stranger.begin_transaction()
    try:
        (topic,) = (name for name in broker.topics() if name.startswith("open"))
        stranger.produce(topic, "x", "x", 0)
        stranger.flush(START_TIMEOUT)
        await sink.commit(Checkpoint(second))
        await sink.close()
        sink = make_sink("kafka", table)
        with pytest.raises(SinkError, match="has an open transaction there") as caught:
            await sink.open()
        assert caught.value.retriable
        await sink.close()
    finally:
        stranger.abort_transaction(START_TIMEOUT)
    sink = make_sink("kafka", {**table, "timeout": 30.0})
    found = await sink.open()
    assert found is not None and found.position == second
    await sink.close()


async def test_a_message_that_is_too_large_is_named(broker: KafkaBroker) -> None:
    table = {"bootstrap_servers": broker.servers, "topic_prefix": "large" + "-" * 200}
    some = [one for one in transactions() if one.rows]
    with pytest.raises(PoisonChangeError, match="does not take a message of") as caught:
        await write({**table, "max_message_bytes": 1000, "format": "debezium"}, some)
    places = {(rows.event.file, rows.event.position) for one in some for rows in one.rows}
    assert (caught.value.file, caught.value.position) in places
    assert not broker.read("large.")
    # What the broker itself does not take: a row without a key, of a compacted topic.
    keyless = {"key_columns": {"*": []}, "topic_config": {"cleanup.policy": "compact"}}
    with contextlib.suppress(PoisonChangeError):  # this one may take it
        await write({**table, **keyless, "topic_prefix": "keyless"}, some)


async def test_a_broker_that_goes_and_comes_back(tmp_path: Path) -> None:
    faulty = FaultyBroker(tmp_path)
    table = {"bootstrap_servers": faulty.servers, "timeout": 4.0, "partitions": 1}
    sink = make_sink("kafka", table)
    some = [one for one in transactions() if one.rows and one.complete and not one.part]
    try:
        await sink.open()
        await sink.write(some[0])
        await sink.commit(Checkpoint(some[0].position))
        await sink.write(some[1])
        faulty.kill()
        with pytest.raises(SinkError, match=r"Kafka at 127\.0\.0\.1") as caught:
            await sink.commit(Checkpoint(some[1].position))
        assert caught.value.retriable
        await sink.close()
        faulty.restart()
        sink = make_sink("kafka", {**table, "timeout": 30.0})
        checkpoint = await sink.open()
        assert checkpoint is not None and checkpoint.position == some[0].position
        await sink.write(some[1])
        await sink.commit(Checkpoint(some[1].position))
    finally:
        await sink.close()
        faulty.stop()


async def test_the_password_is_in_no_message() -> None:
    table = {
        "bootstrap_servers": "127.0.0.1:1",
        "timeout": 0.5,
        "username": "user",
        "password": "hush",
    }
    sink = make_sink(
        "kafka", {**table, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    )
    with pytest.raises(SinkError, match=r"127\.0\.0\.1:1") as caught:
        await sink.open()
    assert caught.value.retriable
    assert "hush" not in f"{caught.value} {sink!r} {vars(sink)!r}"
    await sink.close()


# Errors that brokers answer.


@pytest.fixture
def cluster() -> Iterator[KafkaMock]:
    cluster = KafkaMock()
    for name in ("all", "replica_client.position"):
        cluster.make_topic(name)
    yield cluster
    cluster.close()


def mocked(cluster: KafkaMock) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.servers,
        "topic": "all",
        "schema_topic": "all",
        "create_topics": False,
        "tombstones_on_delete": False,
    }


async def test_errors_that_pass_repeat_nothing(cluster: KafkaMock) -> None:
    for codes in ((6, 7, 6), (19, 7), (5,)):
        cluster.answer(PRODUCE, *codes)
    cluster.answer(END_TXN, 14, 15, 16, 51)
    await write(mocked(cluster), transactions())
    expected = [line for one in transactions() for line in make_format("native", {}).lines(one)]
    found = KafkaBroker.read_from(cluster.servers, "all")["all"]
    assert [value for _, value in found] == expected


@pytest.mark.parametrize(
    ("request_kind", "code", "message", "retriable"),
    [
        (PRODUCE, 87, "INVALID_RECORD", False),
        (PRODUCE, 29, "TOPIC_AUTHORIZATION_FAILED", False),
        (END_TXN, 90, "another process writes with this", False),
        (END_TXN, 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", False),
    ],
)
async def test_errors_that_stay_are_told(
    cluster: KafkaMock, request_kind: int, code: int, message: str, retriable: bool
) -> None:
    cluster.answer(request_kind, *[code] * 5)
    with pytest.raises(SinkError, match=message) as caught:
        await write(mocked(cluster), transactions())
    assert caught.value.retriable is retriable


def test_a_producer_that_was_fenced_meanwhile_says_so(cluster: KafkaMock) -> None:
    """librdkafka itself says only "Local: Fatal error" to who produces after that."""
    cluster.answer(ADD_PARTITIONS, *[KafkaError.PRODUCER_FENCED] * 3)
    writer = TopicWriter(read_kafka_options(mocked(cluster)))
    writer.begin()
    try:
        deadline = time.monotonic() + 5
        with pytest.raises(SinkError, match="another process writes with this") as caught:
            while time.monotonic() < deadline:
                writer.write("all", None, "a line")
                time.sleep(0.02)
        assert not caught.value.retriable
    finally:
        writer.close()
