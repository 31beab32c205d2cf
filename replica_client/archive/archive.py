"""An archive of binlog files: the history of a row, a column or a table."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replica_client.archive.binlog_archive import ArchiveSource, IndexedFile, IndexedFiles, keyed
from replica_client.archive.index_format import IndexedBlock
from replica_client.archive.question import BlockChoice, ChangeTest, Key, Question
from replica_client.archive.search_conditions import ColumnStep
from replica_client.archive.statement_texts import StatementTexts
from replica_client.archive.transaction_ranges import transactions_between
from replica_client.errors import USER_BOUNDARY, ConfigError, GtidFormatError
from replica_client.options import checked_arguments, checked_types
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.codec.printable import did_you_mean
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import quote
from replica_client.rows.row_change import Change
from replica_client.rows.selection import Selection
from replica_client.rows.where import Value, parse_where
from replica_client.schema.history import SchemaHistory
from replica_client.stream.position.losses import LOSS_KINDS, LossLedger
from replica_client.stream.transactions.arguments import parse_start, stop_of
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transactions.loss_watch import used_as
from replica_client.stream.transactions.transaction import Transaction

if TYPE_CHECKING:
    from replica_client.archive.as_of.table_state import TableState
    from replica_client.archive.statistics import ArchiveStatistics
    from replica_client.rows.batching import RecordBatch

When = Position | GtidSet | MariadbGtidSet | str | datetime.datetime | None
"""A position, a GTID set, a time, or one of them as text."""
_KINDS = ("insert", "update", "delete")
RECORDED = tuple(kind for kind in LOSS_KINDS if kind not in ("undecodable", "incomplete_row"))


@dataclass(frozen=True, slots=True)
class FoundChange:
    """A change that a search found, with its transaction and its statement.

    Attributes:
        change: the row before and after the change, and the position of its event.
        transaction: the transaction of the change.
        statement: the text of its statement, where the binlog has it
            (``binlog_rows_query_log_events``, ``binlog_annotate_row_events``).

    Examples:
        >>> found = next(iter(rc.open_archive("shop-bin.*").find("shop.orders", key=1)))
        >>> found.thread_id, found.change.after["state"].label
        (9, 'new')
    """

    change: Change
    transaction: Transaction
    statement: str | None = None

    @property
    def thread_id(self) -> int | None:
        """Number of the source's connection; None where the binlog does not record it."""
        return self.transaction.thread_id

    @property
    def commit_time(self) -> datetime.datetime:
        """Time of the commit, to the microsecond where the source logs it (MySQL 8.0).

        On other sources, the second of the transaction's last event.
        """
        return self.transaction.commit_time

    def to_json(self) -> str:
        """Return the change as the line of JSON that ``replica-client find --json`` prints."""
        text = self.change.to_json()[:-1]
        thread = "null" if self.thread_id is None else str(self.thread_id)
        statement = "null" if self.statement is None else quote(self.statement)
        time = quote(self.commit_time.isoformat())
        return f'{text}, "commit_time": {time}, "thread_id": {thread}, "statement": {statement}}}'


@used_as("a search needs no block; write `for change in archive.find(…):`")
class Found:
    """The changes that a search finds, in the order of the binlog; each iteration searches again.

    Made by :meth:`Archive.find`.

    Attributes:
        losses: changes that the last iteration could not check, because the binlog has them as
            statements.

    Examples:
        >>> rc.open_archive("shop-bin.*").find("shop.orders", column="state", after="paid").count()
        20
    """

    def __init__(
        self,
        archive: Archive,
        questions: Sequence[Question],
        statements: bool,
        *,
        allow_empty: bool = True,
    ) -> None:
        self._archive, self._questions, self._statements = archive, questions, statements
        self._allow_empty = allow_empty
        self.losses = LossLedger()

    def __iter__(self) -> Iterator[FoundChange]:
        texts = StatementTexts(self._archive.files) if self._statements else None
        for transaction, _, change in self._rows():
            text = None if texts is None else texts.of(transaction, change)
            yield FoundChange(change, transaction, text)

    def _rows(self) -> Iterator[tuple[Transaction, RowsOfEvent, Change]]:
        self.losses = LossLedger()
        is_empty = True
        with USER_BOUNDARY:
            for one in self._searched():
                is_empty = False
                yield one
            if is_empty and not self._allow_empty:
                from replica_client.archive.known_names import check_names  # it takes archives

                for question in self._questions:
                    check_names(self._archive, question)

    def _searched(self) -> Iterator[tuple[Transaction, RowsOfEvent, Change]]:
        tests = [(one, ChangeTest(one)) for one in self._questions]
        for transaction in self._archive.transactions(self._questions):
            for loss in transaction.losses:
                self.losses.add(loss, transaction.start)
            asked = [test for one, test in tests if one.takes_transaction(transaction)]
            if not asked:
                continue
            for rows in transaction.rows:
                for change in asked[0].changes(rows) if len(asked) == 1 else rows:
                    if any(test.takes(change) for test in asked):
                        yield transaction, rows, change
        for _, test in tests:
            test.check()

    def count(self) -> int:
        """Search, and return the number of changes found."""
        return sum(1 for _ in self._rows())

    def batches(self, max_rows: int = 16384) -> Iterator[RecordBatch]:
        """Search, and yield the changes as Arrow record batches.

        The columns are those of the batches of :func:`~replica_client.open_binlog`.

        Args:
            max_rows: maximum number of rows in a batch.

        Raises:
            ConfigError: pyarrow is not installed.
        """
        from replica_client.rows.batching import BatchAssembler

        batches = BatchAssembler(max_rows, self._archive.files.decode)
        for transaction, rows, change in self._rows():
            yield from batches.add_change(
                rows, change, transaction.commit_version, transaction.commit_us
            )
        yield from batches.flush()


@used_as("an archive needs no block; write `for change in archive.find(…):`")
class Archive:
    """Many binlog files with indexes; made by :func:`open_archive`.

    Attributes:
        files: the files with their indexes, which are made when they are first needed.

    Examples:
        >>> archive = rc.open_archive("shop-bin.*")
        >>> [one.change.kind for one in archive.find("shop.orders", key=1)]
        ['insert']
    """

    def __init__(self, files: IndexedFiles) -> None:
        self.files = files

    @USER_BOUNDARY
    def index(self) -> list[IndexedFile]:
        """Return all files with their indexes, and make those that are missing, old or damaged.

        Raises:
            BinlogDecodeError: a file is damaged.
        """
        return list(self.files)

    @USER_BOUNDARY
    @checked_types
    def find(
        self,
        tables: Sequence[str] | str | None = None,
        key: Key | None = None,
        *,
        column: str | None = None,
        before: Value | None = None,
        after: Value | None = None,
        where: str | None = None,
        since: When = None,
        until: When = None,
        gtid: GtidSet | MariadbGtidSet | str | None = None,
        thread: int | None = None,
        kind: Sequence[str] | str | None = None,
        statements: bool = True,
        allow_empty: bool = False,
    ) -> Found:
        """Return the changes that meet all conditions.

        Tables are named as they were at the time of the change; :meth:`history` follows RENAME TABLE.

        Args:
            tables: ``database.table``, or patterns; None: all.
            key: of one row: its value, those of its columns, or a mapping by name. Text comparison is
                exact; collations are ignored.
            column: the column that changed.
            before: the value before the change; needs ``column``.
            after: the value after the change; needs ``column``.
            where: a condition that the row before or after meets, as ``changes --where`` takes it.
            since: where to start: a position, a GTID set or a time (of the transaction's end).
            until: where to stop: the first position, GTID set or time that is excluded.
            gtid: a set that contains the transactions' GTIDs; MariaDB: exactly these GTIDs.
            thread: number of the source's connection.
            kind: ``insert``, ``update``, ``delete``, or several.
            statements: add the texts of statements, where the binlog has them.
            allow_empty: take a table or GTID that the archive does not have; else it is an error at the end.

        Raises:
            ConfigError: a condition is invalid, or conditions contradict each other.
        """
        question = make_question(
            tables, key, column, before, after, where, since, until, gtid, thread, kind
        )
        return Found(self, [question], statements, allow_empty=allow_empty)

    @USER_BOUNDARY
    @checked_types
    def history(self, table: str, key: Key, *, allow_empty: bool = False) -> list[FoundChange]:
        """Return all changes of one row, through changes of its key and RENAME TABLE, in order.

        Args:
            table: its name at the end of the archive, ``database.table``.
            key: the row's key at any time, as in :meth:`find`.
            allow_empty: take a table that the archive does not have.

        Raises:
            ConfigError: the key does not fit the table, or there is no such table.
            DataLossError: the row images lack columns of the key.
        """
        from replica_client.archive.row_history import history_of  # it takes archives

        return history_of(self, table, key, allow_empty=allow_empty)

    @USER_BOUNDARY
    @checked_types
    def as_of(
        self,
        table: str,
        at: When,
        *,
        live: str | None = None,
        copy: Any = None,
        copy_at: When = None,
        lock: bool = False,
        without: Sequence[str] = (),
        threads: int = 2,
    ) -> TableState:
        """Return a table as it was at a moment, from the live table backward or a copy forward.

        Backward starts at the table as ``live`` has it now and undoes each change since the moment.
        Forward starts at ``copy``, or at the last CREATE TABLE or TRUNCATE in the archive, which
        left the table empty. Both follow RENAME TABLE, and ALTER TABLE as long as it keeps the
        values of columns.

        Args:
            table: its name at the moment, ``database.table``.
            at: a position between two transactions; one GTID: after its transaction; a GTID set:
                when exactly these transactions of the archive were committed; a time: before the
                first transaction that was committed then or later; ``latest``: the end of the
                archive.
            live: URL of the server that wrote the binlog; the archive must reach up to its current
                position.
            copy: rows of an earlier moment: an object with ``__arrow_c_stream__``, a Parquet or
                Arrow file, or the URL of a server into which a dump was loaded.
            copy_at: the position of the copy; files that ``as-of`` wrote contain it.
            lock: for ``live``: begin to read under FLUSH TABLES WITH READ LOCK, which is released
                at once.
            without: names of columns to leave out, as they are called at the moment: for example
                generated columns, which MariaDB 11.8.9 does not log.
            threads: number of threads that decode.

        Raises:
            ConfigError: the moment is not in the archive, a column is wrong, or pyarrow is not
                installed.
            DataLossError: a change between cannot be followed; the message says where.
            BinlogDecodeError: a file is damaged.
        """
        import replica_client.rows.batching  # noqa: F401 - tells when pyarrow is not installed
        from replica_client.archive.as_of import reconstruction

        resources = reconstruction.Resources(threads)
        if live is not None:
            if copy is not None or copy_at is not None:
                raise ConfigError("give live, to go backward, or copy, to go forward")
            return reconstruction.state_backward(
                self, table, at, live, lock=lock, without=without, resources=resources
            )
        return reconstruction.state_forward(
            self, table, at, copy, copy_at, without=without, resources=resources
        )

    @USER_BOUNDARY
    def stats(self) -> ArchiveStatistics:
        """Return rows by table and hour, the largest and longest transactions, and table changes.

        All of it comes from the indexes.

        Raises:
            BinlogDecodeError: a file without a usable index is damaged.
        """
        from replica_client.archive.statistics import statistics_of  # as above

        return statistics_of(self.files)

    def transactions(
        self, questions: Sequence[Question], assembly: AssemblyOptions | None = None
    ) -> Iterator[Transaction]:
        """Yield the transactions that questions ask for, with other rows of the same blocks.

        Args:
            questions: the questions.
            assembly: how transactions are assembled; None: a change that cannot be delivered
                becomes a loss of its transaction.

        Raises:
            BinlogDecodeError: a file is damaged.
            DataLossError: a change cannot be delivered as rows.
        """
        for one in questions:
            one.check_positions(self.files.sizes)
        named = [one.patterns for one in questions if one.patterns is not None]
        patterns = [text for one in named for text in one] if len(named) == len(questions) else None
        if assembly is None:
            assembly = AssemblyOptions(Selection(patterns), record_losses=RECORDED)
        for file in self.files:
            history = self.files.history_at(Position(file.listed.name, file.listed.size))
            wanted: dict[int, IndexedBlock] = {}
            for question in questions:
                for block in BlockChoice(question, self.files.decode).of(file, history):
                    wanted[block.start] = block
            for start, end in _joined([wanted[at] for at in sorted(wanted)]):
                yield from self.between(
                    Position(file.listed.name, start), Position(file.listed.name, end), assembly
                )

    def between(
        self, start: Position, stop: Position, assembly: AssemblyOptions
    ) -> Iterator[Transaction]:
        """Yield the transactions of a range of one file.

        Args:
            start: a position between two transactions.
            stop: the end: no transaction that begins there or later is yielded.
            assembly: the selected tables, and how transactions are assembled.

        Raises:
            BinlogDecodeError: the file is damaged.
            DataLossError: a change cannot be delivered as rows.
        """
        files = [one for one in self.files.binlog_files if one.name == start.file]
        return transactions_between(
            files,
            self.files.binlog_files,
            self.files.history_at(start),
            start,
            stop,
            assembly,
            self.files.decode,
        )


def _joined(blocks: Sequence[IndexedBlock]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of blocks that follow each other."""
    start = end = -1
    for block in blocks:
        if block.start != end:
            if end >= 0:
                yield start, end
            start = block.start
        end = block.end
    if end >= 0:
        yield start, end


def make_question(
    tables: Sequence[str] | str | None = None,
    key: Key | None = None,
    column: str | None = None,
    before: Value | None = None,
    after: Value | None = None,
    where: str | None = None,
    since: When = None,
    until: When = None,
    gtid: GtidSet | MariadbGtidSet | str | None = None,
    thread: int | None = None,
    kind: Sequence[str] | str | None = None,
) -> Question:
    """Build a question from the arguments of :meth:`Archive.find`.

    Raises:
        ConfigError: the conditions contradict each other, or one of them is invalid.
    """
    if column is None and (before is not None or after is not None):
        raise ConfigError("name the column whose values before and after are asked for")
    kinds = frozenset((kind,) if isinstance(kind, str) else kind or ())
    if not kinds <= set(_KINDS):
        (wrong, *_) = sorted(kinds - set(_KINDS))
        raise ConfigError(f"kind: unknown {wrong!r}; {did_you_mean(wrong, _KINDS)}")
    begin, end = parse_start(since, "earliest", "since"), parse_start(until, "latest", "until")
    end = stop_of(begin, end)
    if isinstance(gtid, str):
        try:
            gtid = parse_gtid_set(gtid)
        except GtidFormatError as error:
            raise ConfigError(f"gtid: {error}") from None
    return Question(
        None if tables is None else tuple([tables] if isinstance(tables, str) else tables),
        key,
        None if column is None else ColumnStep(column, before, after),
        None if where is None else parse_where(where),
        begin,
        end,
        gtid,
        thread,
        kinds,
    )


@checked_arguments(
    options=(DecodeOptions, "rc.DecodeOptions(…)"),
    schema=(SchemaHistory, "a rc.SchemaHistory, as stream.history is"),
)
@checked_types
def open_archive(
    source: ArchiveSource,
    *,
    keys: Mapping[str, bytes] | None = None,
    options: DecodeOptions | None = None,
    schema: SchemaHistory | None = None,
    lower_case_table_names: int | None = None,
    index_directory: str | Path | None = None,
    write_indexes: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Archive:
    """Open many binlog files as an archive.

    Each file has an index next to it (``NAME.rcindex``). The index is made when it is first needed,
    and again when the file has changed or the index is damaged.

    Args:
        source: a path, a glob, a directory (also one of ``replica-client backup``), the URL of one
            in an object store, or a list of them.
        keys: encryption keys by id, see :class:`~replica_client.protocol.binlog.event.DecodeOptions`.
            Indexes of encrypted files are not kept.
        options: how values are decoded.
        schema: the definitions of the tables at the start.
        lower_case_table_names: the setting of the server that wrote the files; None: not known.
        index_directory: where the indexes are kept; None: next to the files.
        write_indexes: write new indexes to disk; False: keep them in memory only.
        progress: called with the bytes of each file whose index is ready.

    Raises:
        ConfigError: no such file, or an option is wrong.
        DataLossError: a file is missing in the middle.
    """
    return Archive(
        IndexedFiles(
            source,
            keyed(options, keys),
            schema,
            lower_case_table_names,
            index_directory,
            write_indexes,
            progress,
        )
    )


__all__ = ["Archive", "Found", "FoundChange", "open_archive"]
