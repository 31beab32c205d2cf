"""Pieces of binlog files as record batches, in order, several decoded at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from replica_client.archive.contents import PIECE_SIZE, Contents, Piece, files_between
from replica_client.archive.unified import fitted
from replica_client.binlog.options import DecodeOptions
from replica_client.errors import DataLossError
from replica_client.position.losses import loss_kinds
from replica_client.position.prepared import PreparedLedger
from replica_client.readers.assembler import AssemblyOptions, TransactionAssembler
from replica_client.readers.event_feed import EventFeed
from replica_client.readers.fast.row_fast_path import RowFastPath
from replica_client.readers.files.file_batches import FileBatches, FileSteps
from replica_client.readers.files.file_bytes import open_events
from replica_client.readers.files.file_prepared import FilePrepared
from replica_client.readers.prepared_rows import PreparedRows
from replica_client.readers.transaction import Transaction
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.conditions import matches
from replica_client.rows.where import Condition
from replica_client.schema.history import SchemaHistory

_LARGE = 8
"""A piece of so many times the usual size is not decoded ahead, as its batches would be in memory."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How rows are decoded.

    Attributes:
        assembly: which tables and columns.
        decode: how values are decoded.
        where: what one of a change's rows must meet; None: nothing.
        max_rows: rows that a batch has at most.
    """

    assembly: AssemblyOptions
    decode: DecodeOptions
    where: Condition | None
    max_rows: int


def piece_batches(contents: Contents, piece: Piece, how: Decoding) -> Iterator[pa.RecordBatch]:
    """The rows of a piece.

    Raises:
        BinlogDecodeError: the first fault; what stands before it was given.
        DataLossError: a change that cannot be delivered as rows.
    """
    for loss in piece.gaps:
        if loss.kind not in loss_kinds(how.assembly.record_losses):
            raise DataLossError(loss.reason)
    history = contents.history_at(piece.start)
    feed = EventFeed(how.decode, piece.start, mode="file")

    def again(known: SchemaHistory, rows: PreparedRows) -> TransactionAssembler:
        return TransactionAssembler(how.assembly, how.decode, None, known, rows)

    prepared = FilePrepared(PreparedLedger(), lambda: contents.files, how.decode, history, again)
    assembler = TransactionAssembler(how.assembly, how.decode, None, history, prepared)
    batches = BatchAssembler(how.max_rows, how.decode)
    if how.where is None:
        steps: FileSteps = FileBatches(
            feed, assembler, batches, piece.stop, lambda _: None, notices=False, shares=True
        )
    else:
        steps = FileSteps(feed, assembler, RowFastPath(feed, assembler, True), piece.stop)
    for start, file in files_between(piece.files, piece.start, piece.stop):
        feed.new_decoder(file.name)
        with file.open() as stream:
            source = open_events(stream, file.name, how.decode)
            for ready in steps.read(source, file.name, start.offset):
                if how.where is None:
                    yield from ready
                    continue
                for transaction in ready:
                    yield from chosen_rows(batches, transaction, how.where)
        if steps.stopped:
            break
    yield from batches.flush()


def chosen_rows(
    batches: BatchAssembler, transaction: Transaction, where: Condition
) -> Iterator[pa.RecordBatch]:
    """The batches that the changes of a transaction fill that meet a condition.

    Raises:
        ConfigError: the condition does not fit the table.
        DataLossError: a row image lacks what decides.
    """
    version, stamp = transaction.commit_version, transaction.commit_timestamp_us
    if stamp is None and transaction.xa_commit:
        stamp = transaction.timestamp * 1_000_000
    for rows in transaction.rows:
        for change in rows:
            if matches(where, change):
                known = change.timestamp * 1_000_000 if stamp is None else stamp
                yield from batches.add_change(rows, change, version, known)


def batches_in_order(
    contents: Contents, pieces: Sequence[Piece], how: Decoding, threads: int
) -> Iterator[pa.RecordBatch]:
    """The rows of pieces in the order of the binlog, decoded by so many threads.

    Args:
        contents: of the files.
        pieces: in order.
        how: they are decoded.
        threads: 1 decodes where the batches are taken.

    Raises:
        ReplicaClientError: as of :func:`piece_batches`; what stands before it was given.
    """
    if threads < 2 or len(pieces) < 2:
        for piece in pieces:
            yield from piece_batches(contents, piece, how)
        return
    left = iter(pieces)
    ahead: deque[tuple[Piece, Future[_Decoded] | None]] = deque()
    with ThreadPoolExecutor(threads, "replica_client decoding") as pool:
        try:
            while True:
                while len(ahead) <= threads and (one := next(left, None)) is not None:
                    large = one.size > _LARGE * PIECE_SIZE
                    begun = None if large else pool.submit(_decode, contents, one, how)
                    ahead.append((one, begun))
                if not ahead:
                    return
                piece, work = ahead.popleft()
                if work is None:
                    yield from piece_batches(contents, piece, how)
                    continue
                decoded = work.result()
                yield from decoded.batches
                if decoded.fault is not None:
                    raise decoded.fault
        finally:
            for _, work in ahead:
                if work is not None:
                    work.cancel()


def reader_of(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], columns: Sequence[str]
) -> pa.RecordBatchReader:
    """Batches as a stream of some columns of a unified schema."""
    wanted = pa.schema([schema.field(name) for name in columns], schema.metadata)
    return pa.RecordBatchReader.from_batches(wanted, (fitted(one, wanted) for one in batches))


@dataclass(slots=True)
class _Decoded:
    """The batches of a piece, and what came behind them instead of the rest."""

    batches: list[pa.RecordBatch]
    fault: Exception | None = None


def _decode(contents: Contents, piece: Piece, how: Decoding) -> _Decoded:
    found = _Decoded([])
    try:
        found.batches += piece_batches(contents, piece, how)
    except Exception as fault:  # noqa: BLE001 - it is raised where the batches are taken
        found.fault = fault
    return found
