"""A Kafka broker of the test's own: a process on a free port of loopback, ended by its id."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.cutting_proxy import CuttingProxy
from tests.servers.plugin import unavailable

START_TIMEOUT = 30
_STOP_SECONDS = 120  # it writes all that it has
Record = tuple[str | None, str | None]


def _program() -> Path:
    try:
        import noida_db
    except ImportError:
        unavailable("no Kafka broker is installed (the package noida-db)")
    return Path(noida_db.__file__).parent / "noida-db"


class KafkaBroker:
    """A running broker that keeps Kafka's transaction semantics, on one file.

    What was acknowledged in the last second before a kill it loses: end it with :meth:`stop`.
    """

    def __init__(self, directory: Path) -> None:
        self._program = _program()
        self._directory = directory
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.servers = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start, on what the last one left."""
        command = [str(self._program), "start", "--data-dir", str(self._directory)]
        command += ["--host", "127.0.0.1", "--only", "kafka", "--kafka-port", str(self.port)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5):
                    return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def stop(self) -> None:
        """End it; what it acknowledged it keeps."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(_STOP_SECONDS)

    def topics(self) -> list[str]:
        """Those of data."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        names = admin.list_topics(timeout=START_TIMEOUT).topics
        return sorted(name for name in names if not name.startswith("__"))

    def read(
        self, prefix: str, *, headers: bool = False, binary: bool = False
    ) -> Mapping[str, list[tuple[object, ...]]]:
        """See :meth:`read_from`."""
        return self.read_from(self.servers, prefix, headers=headers, binary=binary)

    @staticmethod
    def read_from(
        servers: str, prefix: str, *, headers: bool = False, binary: bool = False
    ) -> Mapping[str, list[tuple[object, ...]]]:
        """Committed keys and values of all topics whose names begin so, in the order of each partition.

        Args:
            servers: of the broker.
            prefix: of the names.
            headers: the third of each record.
            binary: values are given as bytes, as are keys.
        """
        shown = _bytes if binary else _text
        found: dict[str, list[tuple[object, ...]]] = {}
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "test",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
            }
        )
        try:
            topics = consumer.list_topics(timeout=START_TIMEOUT).topics
            wanted = [
                TopicPartition(name, partition, 0)
                for name, topic in topics.items()
                if name.startswith(prefix)
                for partition in topic.partitions
            ]
            if not wanted:
                return found
            consumer.assign(wanted)
            left = {(one.topic, one.partition) for one in wanted}
            deadline = time.monotonic() + START_TIMEOUT
            while left and time.monotonic() < deadline:
                message = consumer.poll(1)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    record: tuple[object, ...] = (shown(message.key()), shown(message.value()))
                    if headers:
                        record = (*record, message.headers())
                    found.setdefault(message.topic(), []).append(record)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard((message.topic(), message.partition()))
                else:
                    raise KafkaException(error)
            assert not left, f"not read to the end: {left}"
            return found
        finally:
            consumer.close()


class FaultyBroker(KafkaBroker):
    """A broker behind a proxy: clients of :attr:`servers` see it die, in the middle of requests, and come back.

    The program itself goes on: when it is started again it gives up transactions that are open, forgets that there were
    any, and then tells their producer that its commit took place, none of which Kafka does.

    Attributes:
        direct: the broker itself, for readers.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.direct = self.servers
        self._proxy = _KafkaProxy(self.port)
        self.servers = f"127.0.0.1:{self._proxy.port}"

    def kill(self) -> None:
        """Cut all connections, also in the middle of a request, and take no new ones."""
        self._proxy.refuse(True)
        self._proxy.cut()

    def restart(self) -> None:
        """Come back."""
        self._proxy.refuse(False)

    def stop(self) -> None:
        """End it."""
        self._proxy.close()
        super().stop()


class _KafkaProxy(CuttingProxy):
    """Tells clients that the broker is where it is itself."""

    def _changed(self, data: bytes) -> bytes:
        there, here = (b"127.0.0.1" + struct.pack(">i", one) for one in (self._target, self.port))
        return data.replace(there, here)


def _bytes(value: object) -> bytes | None:
    return value if isinstance(value, bytes) else None


def _text(value: bytes | str | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
