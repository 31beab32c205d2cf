"""Row changes as Parquet files by table and time: exactly once.

``DATABASE/TABLE/DAY/TIME-SEGMENT-NUMBER.parquet`` with the columns of ``.batches()``; schema
changes in ``_schema_changes/``. Rows of a snapshot have the ``_change_type`` ``read``. Committed
changes wait in a journal in ``_open/`` until they are published; the checkpoint
``parquet.checkpoint.json`` has its committed length. A segment is published when it is large or old
enough, and after a crash when the sink is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa

from replica_client.errors import SinkError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.rows.batching import BatchAssembler
from replica_client.schema.history import SchemaChange
from replica_client.sinks.event_sink import schema_changes_batch, snapshot_batches
from replica_client.sinks.parquet_segments import Journal, SegmentWriter, read_journal
from replica_client.sinks.protocol import Guarantee, SnapshotRows
from replica_client.sinks.registry import Count, PathText, Period, read_options
from replica_client.sinks.writing import (
    Batches,
    CheckpointFile,
    DirectoryLock,
    Worker,
    check_file_owner,
    check_writable,
    in_thread,
    os_errors,
    owners_of_file,
)
from replica_client.storage.durable import ignores_case
from replica_client.storage.location import local_path
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.ownership import Claim, Owner
from replica_client.stream.transactions.transaction import Transaction

_BATCH_ROWS = 16_384
_MOST_COLLECTED = 32 << 20


class ParquetOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``parquet``.

    Attributes:
        path: the directory; created if it does not exist.
        compression: compression of the files.
        roll_rows: rows of all tables after which a segment is published.
        roll_bytes: bytes of its journal after which a segment is published.
        roll_seconds: age in seconds after which a segment is published.
        file_rows: maximum rows of a file; a single larger batch is not divided.
    """

    path: PathText
    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] = "zstd"
    roll_rows: Count = 5_000_000
    roll_bytes: Count = 256 << 20
    roll_seconds: Period = 300.0
    file_rows: Count = 5_000_000


def make(table: Mapping[str, object]) -> ParquetSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(ParquetOptions, table, "sink parquet")
    return ParquetSink(options)


class ParquetSink:
    """The sink ``parquet``; see the module.

    Args:
        options: what the user chose.
    """

    guarantee = Guarantee.EXACTLY_ONCE
    holds_position = True
    takes_snapshot = True

    def __init__(self, options: ParquetOptions) -> None:
        self._options = options
        self._directory = local_path(options.path, "sink parquet: path")
        self._checkpoints = CheckpointFile(self._directory, "parquet")
        self._worker = Worker()
        self._batches = Batches(in_thread(self._worker, self._take))
        self._lock: DirectoryLock | None = None
        self._ignores_case = False
        self._journal: Journal | None = None
        self._segment, self._begun, self._committed = 1, 0.0, 0
        self._assembler = BatchAssembler(_BATCH_ROWS, DecodeOptions())
        self._collected = 0
        self._checkpoint: Checkpoint | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rolling: asyncio.Task[None] | None = None
        self._failure: SinkError | None = None
        self._claim: Claim | None = None
        self._owner = ""

    def claim(self, claim: Claim) -> None:
        self._claim = claim

    async def owners(self) -> Sequence[Owner]:
        found = await self._worker.run(self._checkpoints.load)
        return owners_of_file(None if found is None else found[1], str(self._directory))

    async def saved(self) -> Checkpoint | None:
        found = await self._worker.run(self._checkpoints.load)
        return None if found is None else found[0]

    async def probe(self) -> None:
        await self._worker.run(check_writable, self._directory)

    async def open(self) -> Checkpoint | None:
        return await self._worker.run(self._open)

    async def write(self, transaction: Transaction) -> None:
        self._raise_failure()
        await self._batches.add(transaction)

    async def write_some(self, transactions: Sequence[Transaction], size: int) -> None:
        self._raise_failure()
        await self._batches.add_some(transactions, size)

    async def write_snapshot(self, rows: SnapshotRows) -> None:
        self._raise_failure()
        await self._batches.flush()
        await self._worker.run(self._take_snapshot, rows)

    async def commit(self, checkpoint: Checkpoint) -> None:
        self._raise_failure()
        await self._batches.flush()
        await self._worker.run(self._commit, checkpoint)
        self._set_timer()

    async def close(self) -> None:
        self._batches.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._rolling is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._rolling
        await self._worker.run(self._close)
        self._worker.stop()

    # A segment is published when it is old enough, even if no further commit comes.

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        journal = self._journal
        if journal is not None and journal.length:
            left = self._begun + self._options.roll_seconds - time.time()
            self._timer = asyncio.get_running_loop().call_later(max(left, 0.0), self._on_timer)

    def _on_timer(self) -> None:
        if self._rolling is None or self._rolling.done():
            self._rolling = asyncio.get_running_loop().create_task(self._roll_later())

    async def _roll_later(self) -> None:
        try:
            await self._worker.run(self._roll_committed)
        except SinkError as error:
            self._failure = error

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # In the worker's thread.

    def _open(self) -> Checkpoint | None:
        with os_errors(str(self._directory)):
            (self._directory / "_open").mkdir(parents=True, exist_ok=True)
            found = self._checkpoints.load()
            self._owner = check_file_owner(
                self._claim, None if found is None else found[1], str(self._directory)
            )
            self._lock = DirectoryLock(self._directory)
            self._ignores_case = ignores_case(self._directory / "_open")
            found = self._checkpoints.load()
            length = 0
            self._begun = time.time()
            if found is not None:
                self._checkpoint, saved = found
                self._segment, length = int(saved["segment"]), int(saved["length"])
                self._begun = float(saved["begun"])
            self._remove_orphans()
            self._journal = Journal(self._journal_path(), length)
            if length:
                self._publish()
            elif self._checkpoint is not None and found is not None:
                if found[1].get("owner") != self._owner:
                    self._save(self._checkpoint, 0)  # a standby has this configuration, too
            return self._checkpoint

    def _journal_path(self) -> Path:
        return self._directory / "_open" / f"{self._segment:08d}.journal"

    def _remove_orphans(self) -> None:
        kept = self._journal_path()
        for path in (self._directory / "_open").iterdir():
            if path != kept:
                path.unlink()

    def _take(self, transactions: list[Transaction]) -> None:
        journal = self._opened()
        with os_errors(str(journal.path)):
            for transaction in transactions:
                changes = [one for one in transaction.items if isinstance(one, SchemaChange)]
                if changes:
                    self._flush(journal)
                    journal.append(schema_changes_batch(transaction, changes))
                added = self._assembler.add(
                    transaction.rows, transaction.commit_version, transaction.commit_us
                )
                _append(journal, added)
                self._collected += sum(rows.event_size for rows in transaction.rows)
                if self._collected >= _MOST_COLLECTED:
                    self._flush(journal)

    def _take_snapshot(self, rows: SnapshotRows) -> None:
        journal = self._opened()
        with os_errors(str(journal.path)):
            self._flush(journal)
            _append(journal, snapshot_batches(rows, DecodeOptions(), _BATCH_ROWS))

    def _flush(self, journal: Journal) -> None:
        is_large, self._collected = self._collected >= _MOST_COLLECTED, 0
        _append(journal, self._assembler.flush())
        if is_large:
            # Otherwise Arrow keeps the memory of a row of hundreds of megabytes.
            pa.default_memory_pool().release_unused()

    def _commit(self, checkpoint: Checkpoint) -> None:
        journal = self._opened()
        with os_errors(str(journal.path)):
            self._flush(journal)
            journal.sync()
            self._save(checkpoint, journal.length)
            options = self._options
            if (
                journal.length >= options.roll_bytes
                or journal.rows >= options.roll_rows
                or time.time() - self._begun >= options.roll_seconds
            ):
                self._publish()

    def _save(self, checkpoint: Checkpoint, length: int) -> None:
        with_it = {
            "segment": self._segment,
            "length": length,
            "begun": self._begun,
            "owner": self._owner,
        }
        self._checkpoints.save(checkpoint, with_it)
        self._checkpoint = checkpoint
        self._committed = length

    def _roll_committed(self) -> None:
        """Publish the segment if nothing was written after the last commit."""
        journal = self._journal
        if journal is not None and journal.length and journal.length == self._committed:
            with os_errors(str(journal.path)):
                self._publish()

    def _publish(self) -> None:
        journal, checkpoint = self._opened(), self._checkpoint
        assert checkpoint is not None
        journal.close()
        listed = self._directory / "_segments" / f"{self._segment:08d}.json"
        if journal.length and not listed.exists():
            compression = self._options.compression
            SegmentWriter(
                self._directory,
                self._segment,
                self._begun,
                compression,
                self._options.file_rows,
                ignores_case=self._ignores_case,
            ).publish(read_journal(journal.path, journal.length))
            pa.default_memory_pool().release_unused()
        done = journal.path
        self._segment, self._begun = self._segment + 1, time.time()
        self._journal = Journal(self._journal_path(), 0)
        self._save(checkpoint, 0)
        done.unlink()

    def _opened(self) -> Journal:
        if self._journal is None:
            raise SinkError(f"{self._directory}: the sink is not open")
        return self._journal

    def _close(self) -> None:
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()
        if self._lock is not None:
            self._lock.release()


def _append(journal: Journal, batches: Iterable[pa.RecordBatch]) -> None:
    """Append batches without keeping a reference to any of them."""
    for batch in batches:
        journal.append(batch)
