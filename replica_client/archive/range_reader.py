"""The transactions of a range of binlog files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_client.binlog.options import DecodeOptions
from replica_client.position.position import Position
from replica_client.position.prepared import PreparedLedger
from replica_client.readers.assembler import AssemblyOptions, TransactionAssembler
from replica_client.readers.event_feed import EventFeed
from replica_client.readers.fast.row_fast_path import RowFastPath
from replica_client.readers.files.file_batches import FileSteps
from replica_client.readers.files.file_bytes import BinlogFile, open_events
from replica_client.readers.files.file_prepared import FilePrepared
from replica_client.readers.files.files_between import files_between
from replica_client.readers.prepared_rows import PreparedRows
from replica_client.readers.transaction import Transaction
from replica_client.schema.history import SchemaHistory


def transactions_between(
    files: Sequence[BinlogFile],
    all_files: Sequence[BinlogFile],
    history: SchemaHistory,
    start: Position,
    stop: Position,
    assembly: AssemblyOptions,
    decode: DecodeOptions,
) -> Iterator[Transaction]:
    """Yield the transactions from one position between transactions to another.

    Args:
        files: the files of the range, in order.
        all_files: the files that are searched for prepared XA transactions.
        history: the definitions of the tables at the start; updated with the statements.
        start: the position before the first transaction.
        stop: no transaction that begins there or later is yielded.
        assembly: which tables.
        decode: how values are decoded.

    Raises:
        BinlogDecodeError: the first fault; the transactions before it were yielded.
        DataLossError: a change cannot be delivered as rows.
    """
    feed = EventFeed(decode, start, mode="file")

    def again(known: SchemaHistory, rows: PreparedRows) -> TransactionAssembler:
        return TransactionAssembler(assembly, decode, None, known, rows)

    prepared = FilePrepared(PreparedLedger(), lambda: list(all_files), decode, history, again)
    assembler = TransactionAssembler(assembly, decode, None, history, prepared)
    steps = FileSteps(feed, assembler, RowFastPath(feed, assembler, True), stop)
    for first, file in files_between(files, start, stop):
        feed.new_decoder(file.name)
        with file.open() as stream:
            source = open_events(stream, file.name, decode)
            for ready in steps.read(source, file.name, first.offset):
                yield from ready
        if steps.stopped:
            return
