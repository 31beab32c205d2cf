"""A reader of committed messages by another implementation (aiokafka), that watches a topic while it is written."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from confluent_kafka import Consumer, TopicPartition as Partition


class _OpenAborts(threading.local):
    """Aborted transactions whose ends this thread's reader has seen: producer and first offset."""

    def __init__(self) -> None:
        self.ended: set[tuple[int, int]] = set()


_ABORTS = _OpenAborts()


class _PartitionRecords(fetcher.PartitionRecords):  # type: ignore[misc]
    """Records of one answer, with those aborted transactions only that Kafka would name.

    Kafka names with an answer the aborted transactions that lie in it. The tests' broker names all that there ever
    were, so that a reader takes what a producer committed after an abort for aborted, too, where an answer begins
    behind the abort's end. The watcher reads from the first record on, and thus knows which are over.
    """

    def __init__(self, tp: Any, records: Any, aborted: Any, *arguments: Any) -> None:
        self._named = [one for one in aborted or () if tuple(one[:2]) not in _ABORTS.ended]
        super().__init__(tp, records, list(self._named), *arguments)

    def _contains_abort_marker(self, next_batch: Any) -> bool:
        found = bool(super()._contains_abort_marker(next_batch))
        if found:
            producer, end = next_batch.producer_id, next_batch.base_offset
            _ABORTS.ended.update(
                (one[0], one[1]) for one in self._named if one[0] == producer and one[1] <= end
            )
        return found


fetcher.PartitionRecords = _PartitionRecords


class KafkaWatcher:
    """Reads partition 0 of a topic for as long as it lives.

    Attributes:
        values: of all messages that it saw, in order.
        offsets: of all messages that it saw.
        breaks: where it stood when a connection was lost, and why.
        ends: how many it had seen at each moment at which it had read all that was stable: there a source
            transaction must be whole.
    """

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self._partition = TopicPartition(topic, 0)
        self._next_offset = 0
        self._halt = threading.Event()
        self.values: list[str] = []
        self.offsets: list[int] = []
        self.breaks: list[tuple[int, str]] = []
        self.ends: set[int] = set()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def again(self) -> KafkaWatcher:
        """Another one of the same topic, from its beginning."""
        return KafkaWatcher(self._servers, self._topic)

    def state(self) -> str:
        """What the broker says of the topic: up to where transactions are over, its end, and all that is there."""
        plain = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "state",
                "isolation.level": "read_uncommitted",
            }
        )
        committed = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "state",
                "isolation.level": "read_committed",
            }
        )
        try:
            partition = Partition(self._topic, 0)
            _, end = plain.get_watermark_offsets(partition, timeout=30)
            _, stable = committed.get_watermark_offsets(partition, timeout=30)
        finally:
            plain.close()
            committed.close()
        return f"the topic ends at {end}, and transactions are over up to {stable}"

    def close(self) -> None:
        """End it."""
        self._halt.set()
        self._thread.join(60)

    def until(self, count: int, seconds: float) -> None:
        """Wait until it has seen so many messages, and a moment more for those that are too many."""
        deadline = time.monotonic() + seconds
        while len(self.values) < count and time.monotonic() < deadline and self.error is None:
            time.sleep(0.05)
        if self.error is not None:
            raise self.error
        time.sleep(0.5)

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except BaseException as error:
            self.error = error

    async def _watch(self) -> None:
        while not self._halt.is_set():
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._servers,
                isolation_level="read_committed",
                enable_auto_commit=False,
                # A broker that was away says for a moment that an offset is not there: nothing is passed over then.
                auto_offset_reset="none",
                request_timeout_ms=5000,
                metadata_max_age_ms=2000,
            )
            try:
                await consumer.start()
                if self._partition.topic in await consumer.topics():
                    consumer.assign([self._partition])
                    consumer.seek(self._partition, self._next_offset)
                    while not self._halt.is_set():
                        await self._read(consumer)
            except (KafkaError, OSError) as error:
                # The broker is away for a while.
                self.breaks.append((self._next_offset, repr(error)))
                passing = isinstance(error, OffsetOutOfRangeError | OSError) or error.retriable
                if not passing:
                    raise
            finally:
                await consumer.stop()
            await asyncio.sleep(0.2)

    async def _read(self, consumer: AIOKafkaConsumer) -> None:
        found = await consumer.getmany(self._partition, timeout_ms=200)
        for record in found.get(self._partition, ()):
            self.values.append("" if record.value is None else record.value.decode())
            self.offsets.append(record.offset)
            self._next_offset = record.offset + 1
        stable = consumer.last_stable_offset(self._partition)
        if stable is not None and stable == await consumer.position(self._partition):
            self.ends.add(len(self.values))


def _explain(
    watcher: KafkaWatcher, got: list[str], expected: list[str], clean: Callable[[str], str]
) -> NoReturn:
    """Tell whether the topic is wrong, or what was seen of it."""
    again = watcher.again()
    try:
        again.until(len(expected), 120)
        whole = [clean(line) for line in again.values] == expected
    finally:
        again.close()
    seen = f"who reads the topic now sees {'the right messages' if whole else 'that, too'}; {watcher.state()}"
    for at, (mine, theirs) in enumerate(zip(got, expected, strict=False)):
        if mine != theirs:
            offsets = watcher.offsets[max(at - 2, 0) : at + 2]
            raise AssertionError(
                f"message {at}: {mine[:400]} instead of {theirs[:400]}; offsets {offsets}, breaks "
                f"{watcher.breaks}; {seen}"
            )
    raise AssertionError(f"{len(got)} messages instead of {len(expected)}; {seen}")


def check_watched(
    watcher: KafkaWatcher, transactions: list[list[str]], clean: Callable[[str], str]
) -> int:
    """Compare what was seen with the lines of each source transaction; how many lines there are.

    Raises:
        AssertionError: something was lost, came twice, in another order, or a transaction was seen in part.
    """
    expected = [clean(line) for lines in transactions for line in lines]
    watcher.until(len(expected), 120)
    got = [clean(line) for line in watcher.values]
    if got != expected:
        _explain(watcher, got, expected, clean)
    edges, total = {0}, 0
    for lines in transactions:
        total += len(lines)
        edges.add(total)
    torn = sorted(watcher.ends - edges)
    assert not torn, f"readers saw parts of transactions: {torn[:5]}"
    return len(expected)
