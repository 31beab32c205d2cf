"""JSON lines on standard output.

A position store saves the position after the lines were written: after a crash between the two, the
lines are written again. Parts of a large transaction wait in a temporary file until it is complete.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from replica_client.sinks.formats.line_format import LineFormat, chosen_format
from replica_client.sinks.formats.message import Message
from replica_client.sinks.formats.native import NativeFormat
from replica_client.sinks.formats.outbox import OutboxFormat
from replica_client.sinks.output_directory import os_errors
from replica_client.sinks.protocol import Guarantee, SnapshotRows
from replica_client.sinks.registry import Count, read_options
from replica_client.sinks.worker import Batches, Worker, in_thread
from replica_client.storage.durable import write_all
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.transaction import Transaction

_PIECE_SIZE = 256 << 10
"""Characters after which a piece is encoded."""


def encode_lines(
    line_format: LineFormat, transactions: Iterable[Transaction]
) -> Iterator[bytes | bytearray]:
    """Yield all lines in UTF-8 with line ends.

    A piece has many lines, or a part of a large line. Bytes that are not UTF-8 (in a name) are
    written as a JSON escape.
    """
    if isinstance(line_format, NativeFormat):
        yield from line_format.encoded(transactions)
        return
    for transaction in transactions:
        yield from _encoded(line_format.lines(transaction))


def encode_messages(messages: Iterable[Message]) -> Iterator[bytes]:
    """Yield the values of messages in UTF-8 with line ends; see :func:`encode_lines`."""
    yield from _encoded(message.value for message in messages)


def _encoded(lines: Iterable[str]) -> Iterator[bytes]:
    waiting: list[str] = []
    size = 0
    for line in lines:
        if len(line) >= _PIECE_SIZE:
            yield from _pieces(waiting)
            size = 0
        waiting.append(line)
        size += len(line) + 1
        if size >= _PIECE_SIZE:
            del line  # free it before the next line is built
            yield from _pieces(waiting)
            size = 0
    yield from _pieces(waiting)


def _pieces(lines: list[str]) -> Iterator[bytes]:
    """Yield the lines as encoded pieces, and empty the list.

    A large line, which is alone in the list, is encoded part by part instead of being copied whole.
    """
    if not lines:
        return
    text = "\n".join(lines)
    lines.clear()
    if len(text) < 2 * _PIECE_SIZE:
        yield f"{text}\n".encode("utf-8", "backslashreplace")
        return
    for at in range(0, len(text), _PIECE_SIZE):
        yield text[at : at + _PIECE_SIZE].encode("utf-8", "backslashreplace")
    yield b"\n"


_STDOUT = 1
_PIECE = 1 << 20


class StdoutOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``stdout``.

    Attributes:
        format: ``native``, ``debezium``, ``maxwell``, ``canal`` or ``cloudevents``.
        format_options: options of the format.
        memory_bytes: bytes of an incomplete transaction's lines that are kept in memory; further
            lines go to a temporary file.
    """

    format: str = "native"
    format_options: dict[str, Any] = {}
    memory_bytes: Count = 16 << 20


def make(table: Mapping[str, object]) -> StdoutSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(StdoutOptions, table, "sink stdout")
    return StdoutSink(options, chosen_format(options))


class StdoutSink:
    """The sink ``stdout``; see the module.

    Args:
        options: what the user chose.
        line_format: makes the lines.
        descriptor: file descriptor to write to.
    """

    guarantee = Guarantee.AT_LEAST_ONCE
    holds_position = False

    def __init__(
        self, options: StdoutOptions, line_format: LineFormat, descriptor: int = _STDOUT
    ) -> None:
        self._options = options
        self._format = line_format
        self._descriptor = descriptor
        self._worker = Worker()
        self._batches = Batches(in_thread(self._worker, self._take))
        self._spool: tempfile.SpooledTemporaryFile[bytes] | None = None

    def route_outbox(self) -> None:
        self._format = OutboxFormat(self._format)

    async def open(self) -> Checkpoint | None:
        return None

    async def write(self, transaction: Transaction) -> None:
        await self._batches.add(transaction)

    async def write_some(self, transactions: Sequence[Transaction], size: int) -> None:
        await self._batches.add_some(transactions, size)

    @property
    def takes_snapshot(self) -> bool:
        return True

    async def write_snapshot(self, rows: SnapshotRows) -> None:
        await self._batches.flush()
        await self._worker.run(self._take_snapshot, rows)

    async def commit(self, checkpoint: Checkpoint) -> None:
        await self._batches.flush()

    async def close(self) -> None:
        self._batches.clear()
        await self._worker.run(self._drop)
        self._worker.stop()

    def _take(self, transactions: list[Transaction]) -> None:
        with os_errors("standard output"):
            for transaction in transactions:
                if transaction.complete and self._spool is None:
                    for data in encode_lines(self._format, (transaction,)):
                        write_all(self._descriptor, data)
                else:
                    self._spool_part(transaction)

    def _take_snapshot(self, rows: SnapshotRows) -> None:
        with os_errors("standard output"):
            for data in encode_messages(self._format.snapshot(rows)):
                write_all(self._descriptor, data)

    def _spool_part(self, transaction: Transaction) -> None:
        if self._spool is None:
            # Closed by _drop, in another call.
            self._spool = tempfile.SpooledTemporaryFile(self._options.memory_bytes)  # noqa: SIM115
        for data in encode_lines(self._format, (transaction,)):
            self._spool.write(data)
        if transaction.complete:
            self._spool.seek(0)
            while piece := self._spool.read(_PIECE):
                write_all(self._descriptor, piece)
            self._drop()

    def _drop(self) -> None:
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()
