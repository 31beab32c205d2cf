"""The Kafka sink on Apache Kafka's own broker: mistakes of an operator, rights, limits."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="the package confluent-kafka is not installed")

from confluent_kafka.admin import AclOperation, NewTopic, ResourceType

from replica_client.errors import ConfigError, SinkError
from replica_client.sinks.kafka.kafka_options import read_kafka_options
from replica_client.sinks.kafka.position_topic import read_position
from replica_client.sinks.kafka.topic_writer import TopicWriter
from replica_client.sinks.protocol import ProbedSink, Sink
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.growing import GrowingKeys
from replica_client.stream.position.stores.ownership import Claim, OwnedSink, Owner
from replica_client.stream.transactions.transaction import Transaction
from replica_client.testing.sink_conformance import SinkConformance
from tests.integration.apache_kafka import ApacheKafka, apache_kafka
from tests.integration.daemon_process import DaemonProcess
from tests.integration.kafka_broker import KafkaBroker
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
REASON_SECONDS = 12.0


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    with apache_kafka() as broker:
        yield broker


def transactions() -> list[Transaction]:
    return SinkConformance().transactions()


async def write(table: dict[str, Any], some: Sequence[Transaction]) -> None:
    sink = make_sink("kafka", table)
    try:
        await sink.open()
        for transaction in some:
            await sink.write(transaction)
        await sink.commit(Checkpoint(some[-1].position))
    finally:
        await sink.close()


async def failure(sink: Sink, *, probe: bool = False) -> SinkError:
    began = time.monotonic()
    try:
        with pytest.raises(SinkError) as caught:
            if probe:
                assert isinstance(sink, ProbedSink)
                await sink.probe()
            else:
                await sink.open()
    finally:
        await sink.close()
    assert time.monotonic() - began < REASON_SECONDS, caught.value
    return caught.value


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "password": ({"password": "wrong"}, "(?i)authentication failed"),
    "account": ({"username": "nobody"}, "(?i)authentication failed"),
    "mechanism": ({"sasl_mechanism": "PLAIN"}, "SCRAM-SHA-512"),
    "no authority": ({"tls_ca": ""}, "certificate verify failed|ssl.ca.location"),
    "other authority": ({"tls_ca": "@OTHER"}, "certificate verify failed|ssl.ca.location"),
    "no TLS": (
        {"security_protocol": "SASL_PLAINTEXT"},
        "another security_protocol than SASL_PLAINTEXT",
    ),
    "TLS at a plain listener": ({"bootstrap_servers": "@PLAIN"}, "(?i)ssl|security_protocol"),
    "plain at a TLS listener": (
        {"bootstrap_servers": "@TLS", "security_protocol": "PLAINTEXT", "sasl_mechanism": ""},
        "another security_protocol than PLAINTEXT",
    ),
    "SASL at a plain listener": (
        {"bootstrap_servers": "@PLAIN", "security_protocol": "SASL_PLAINTEXT"},
        "(?i)sasl|security_protocol",
    ),
}


@pytest.mark.parametrize(
    ("mistake", "probe"),
    [*((one, False) for one in MISTAKES), ("password", True), ("no TLS", True)],
)
async def test_a_mistake_of_security_is_named(
    kafka: ApacheKafka, mistake: str, probe: bool
) -> None:
    changed, reason = MISTAKES[mistake]
    known = {
        "@PLAIN": kafka.plain,
        "@TLS": f"127.0.0.1:{kafka.tls_port}",
        "@OTHER": str(kafka.certificates.other_ca),
    }
    table = {**kafka.secure, **{key: known.get(value, value) for key, value in changed.items()}}
    error = await failure(make_sink("kafka", table), probe=probe)
    assert error.retriable is False, error
    assert "127.0.0.1" in str(error)
    assert re.search(reason, str(error)), error
    assert "secret" not in str(error)


async def test_each_missing_right_is_named(kafka: ApacheKafka) -> None:
    """The rights of the page, given one after the other: each open says which one is next."""
    table = {**kafka.secure, "topic_prefix": "rights"}
    rights = (
        (ResourceType.TRANSACTIONAL_ID, "rights", (AclOperation.WRITE, AclOperation.DESCRIBE)),
        (
            ResourceType.TOPIC,
            "rights",
            (AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE),
        ),
        (ResourceType.GROUP, "rights", (AclOperation.READ,)),
        (ResourceType.TOPIC, "rights", (AclOperation.READ,)),
    )
    said = [str(await failure(owned(table)))]
    for kind, prefix, operations in rights[:-1]:
        kafka.allow(kind, prefix, *operations)
        said.append(str(await failure(owned(table))))
    for text, named in zip(
        said,
        (
            "on the transactional id rights",
            "on the topic rights.position",
            "READ on the group rights.position",
            "READ on the topic rights.position",
        ),
        strict=True,
    ):
        assert named in text, said
    assert "READ on the topic" in str(await failure(make_sink("kafka", table), probe=True))
    kafka.allow(*rights[-1][:2], *rights[-1][2])
    sink = owned(table)
    try:
        assert await sink.open() is None
    finally:
        await sink.close()
    await write(table, transactions())


def owned(table: dict[str, Any]) -> Sink:
    sink = make_sink("kafka", table)
    assert isinstance(sink, OwnedSink)
    owner = Owner("one", "service", "source", "kafka", "now", tables=("*.*",))
    sink.claim(Claim(owner, "here"))
    return sink


async def test_a_topic_that_is_not_to_be_made(kafka: ApacheKafka) -> None:
    table = {"bootstrap_servers": kafka.plain, "topic_prefix": "absent", "create_topics": False}
    for probe in (True, False):
        error = await failure(make_sink("kafka", table), probe=probe)
        assert "absent.position" in str(error)
        assert "create_topics" in str(error)
        assert not error.retriable
    admin = kafka.admin
    for made in admin.create_topics(
        [NewTopic(one, 1, 1) for one in ("absent.position", "absent")]
    ).values():
        made.result()
    with pytest.raises(SinkError, match=r"absent\.shop\.\w+.*create_topics = true"):
        await write(table, transactions())


def test_a_transaction_cannot_be_shorter_than_an_answer() -> None:
    with pytest.raises(ConfigError, match="transaction_timeout must be at least timeout"):
        read_kafka_options({"bootstrap_servers": "k:1", "transaction_timeout": 5.0})


async def test_a_limit_above_the_broker_is_named(kafka: ApacheKafka) -> None:
    table = {"bootstrap_servers": kafka.plain, "topic_prefix": "above"}
    error = await failure(make_sink("kafka", {**table, "transaction_timeout": 1000.0}))
    assert "transaction_timeout is 1000 s, above the broker's" in str(error)
    assert not error.retriable


async def test_a_broker_that_is_unavailable_is_no_noise(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    table = {"bootstrap_servers": "127.0.0.1:1", "topic_prefix": "nowhere"}
    error = await failure(make_sink("kafka", table))
    assert error.retriable
    assert "Connection refused" in str(error)
    assert capfd.readouterr().err == ""
    assert not caplog.records


async def test_topics_are_made_together(kafka: ApacheKafka) -> None:
    writer = TopicWriter(read_kafka_options({"bootstrap_servers": kafka.plain, "partitions": 1}))
    writer.begin()
    try:
        names = [f"many.shop.t{number}" for number in range(300)]
        began = time.monotonic()
        writer.make_topics(names)
        assert time.monotonic() - began < 30
    finally:
        writer.close()
    assert {*names} <= {*kafka.admin.list_topics(timeout=10).topics}


async def test_a_topic_that_the_broker_does_not_list_yet_is_waited_for(kafka: ApacheKafka) -> None:
    """librdkafka remembers that a topic is missing, and would not find it later."""
    table = {"bootstrap_servers": kafka.plain, "topic_prefix": "unlisted", "timeout": 15.0}
    options = read_kafka_options(table)
    name, admin = options.named(options.position_topic), kafka.admin
    # Only beside other topics does it remember that.
    admin.create_topics([NewTopic("unlisted.other", 1, 1)])["unlisted.other"].result()
    reading = asyncio.create_task(asyncio.to_thread(read_position, options, GrowingKeys()))
    await asyncio.sleep(2)
    assert not reading.done()
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    assert (await reading).checkpoint is None


async def test_a_transaction_that_takes_too_long_gets_more_time(
    kafka: ApacheKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"bootstrap_servers": kafka.plain, "topic_prefix": "slow", "partitions": 1}
    table |= {"timeout": 6.0, "transaction_timeout": 6.0}
    some = [one for one in transactions() if one.rows and one.complete and not one.part]

    async def slowly() -> None:
        sink = make_sink("kafka", table)
        try:
            await sink.open()
            for transaction in some[:2]:
                await sink.write(transaction)
                await sink._batches.flush()  # type: ignore[attr-defined]
                if transaction is some[0]:
                    await asyncio.sleep(8)
            await sink.commit(Checkpoint(some[1].position))
        finally:
            await sink.close()

    with pytest.raises(SinkError, match=r"ended it after transaction_timeout \(6 s\)") as caught:
        await slowly()
    assert "another process" not in str(caught.value)
    assert caught.value.retriable
    await slowly()
    found = KafkaBroker.read_from(kafka.plain, "slow.")
    assert sum(len(records) for name, records in found.items() if name != "slow.position") >= 2


def test_the_start_is_kept_while_the_broker_is_unavailable(
    kafka: ApacheKafka, server: Callable[[str], LocalServer], tmp_path: Path
) -> None:
    """What is written between the first start of the service and that of its sink is delivered.

    Of a key that changes, Debezium's JDBC sink reads the headers: they have no schema, and the tombstone has one, too.
    """

    def delivered() -> Sequence[tuple[Any, ...]]:
        found = KafkaBroker.read_from(kafka.plain, "unseen.unseen", headers=True)
        return found.get("unseen.unseen.t", ())

    source = server("mysql-9.7")
    source.execute("DROP DATABASE IF EXISTS unseen")
    source.execute("CREATE DATABASE unseen")
    source.execute("CREATE TABLE unseen.t (id INT PRIMARY KEY)")
    daemon = DaemonProcess(
        tmp_path,
        {"url": source.url(), "start": "latest", "tables": ["unseen.t"]},
        [
            {
                "name": "k",
                "type": "kafka",
                "bootstrap_servers": kafka.plain,
                "topic_prefix": "unseen",
                "partitions": 1,
                "format": "debezium",
                "format_options": {"schemas_enable": True},
            }
        ],
    )
    kafka.server.kill()
    try:
        with daemon:
            daemon.until(lambda one: one.route("k")["state"] == "retrying")
            for number in range(5):
                source.execute("INSERT INTO unseen.t VALUES (%s)", (number,))
            kafka.server.restart()
            source.execute("INSERT INTO unseen.t VALUES (5)")
            source.execute("UPDATE unseen.t SET id = 100 WHERE id = 1")
            daemon.until(lambda _: len(delivered()) >= 9, timeout=120)
    finally:
        source.execute("DROP DATABASE unseen")
    moved = [(value is None, dict(headers)) for _, value, headers in delivered() if headers]
    new, old = {"__debezium.newkey": b'{"id":100}'}, {"__debezium.oldkey": b'{"id":1}'}
    assert moved == [(False, new), (True, new), (False, old)]
    assert len(delivered()) == 9
