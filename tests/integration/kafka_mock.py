"""The cluster inside librdkafka that answers with errors on demand.

It hands messages of transactions that were given up to every reader: only what needs no such transaction is told
by what it holds.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import confluent_kafka

PRODUCE, ADD_PARTITIONS, END_TXN = 0, 24, 26


class KafkaMock:
    """Three brokers in this process."""

    def __init__(self) -> None:
        folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
        self._library = library = ctypes.CDLL(str(next(folder.glob("librdkafka-*.so*"))))
        for name, kind in (
            ("rd_kafka_new", ctypes.c_void_p),
            ("rd_kafka_mock_cluster_new", ctypes.c_void_p),
            ("rd_kafka_mock_cluster_bootstraps", ctypes.c_char_p),
        ):
            getattr(library, name).restype = kind
        self._handle = ctypes.c_void_p(
            library.rd_kafka_new(0, None, ctypes.create_string_buffer(512), ctypes.c_size_t(512))
        )
        self._cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(self._handle, 3))
        self.servers = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def make_topic(self, name: str) -> None:
        self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), 1, 3)

    def answer(self, request: int, *codes: int) -> None:
        """The next requests of a kind get these errors."""
        errors = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(request), ctypes.c_size_t(len(codes)), errors
        )

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)
