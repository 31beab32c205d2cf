"""Binlog files or a live source as tables, for any library that reads Arrow."""

from __future__ import annotations

import asyncio
import datetime
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from functools import partial
from typing import Literal

import pyarrow as pa

from replica_client._compiled import tell_plain
from replica_client.archive.arrow_tables import BinlogTables, TableSource
from replica_client.errors import BinlogDecodeError, ConfigError, ReplicaClientError, ServerError
from replica_client.options import checked_arguments, remedies
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import UNKNOWABLE_ERRORS
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.selection import Selection, exact_pattern
from replica_client.rows.where import Condition
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.shape import TableShape
from replica_client.stream.files.binlog_file import BinlogFileReader
from replica_client.stream.files.file_bytes import BinlogFile, FileSource, binlog_files
from replica_client.stream.files.file_order import check_files, check_position
from replica_client.stream.files.file_range import spooled
from replica_client.stream.files.pieces import (
    ChosenRows,
    Decoding,
    Piece,
    PieceReading,
    Pieces,
    decoded_in_order,
)
from replica_client.stream.live.connect import connect
from replica_client.stream.live.follow import FollowedSource
from replica_client.stream.live.live_schema import list_tables
from replica_client.stream.live.stream_options import asked
from replica_client.stream.transactions.arguments import (
    Start,
    assembly_of,
    decode_of,
    micros_of,
    parse_start,
    stop_of,
)
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transactions.loss_watch import batches_of
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection

_URLS = ("mysql://", "mariadb://")


@checked_arguments(
    options=(DecodeOptions, "rc.DecodeOptions(…)"),
    schema=(SchemaHistory, "a rc.SchemaHistory, as stream.history is"),
)
def scan_binlog(
    source: FileSource,
    *,
    tables: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    since: Position | GtidSet | MariadbGtidSet | str | datetime.datetime | None = None,
    until: Position | GtidSet | MariadbGtidSet | str | datetime.datetime | None = None,
    where: str | None = None,
    keys: Mapping[str, bytes] | None = None,
    options: DecodeOptions | None = None,
    schema: SchemaHistory | None = None,
    full_rows: bool = False,
    record_losses: Collection[str] | str = (),
    allow_empty: bool = False,
    on_statement: Literal["error", "deliver"] | None = None,
    on_unknown_table: Literal["error", "positional"] | None = None,
    invalid_text: Literal["strict", "replace", "bytes"] | None = None,
    temporals: Literal["lossless", "python"] | None = None,
    lower_case_table_names: int | None = None,
    threads: int = 1,
    max_rows: int = 16384,
) -> BinlogTables:
    """Return the row changes in binlog files or of a live source as one Arrow table for each table.

    Nothing is read until a table is looked up. A live source is read from ``since`` to the end that
    its binlog has when its tables are first read.

    Args:
        source: a path, a glob, a directory (also one of ``replica-client backup``), a list of them
            in order, a binary file object, bytes, or the URL of a live source.
        tables: patterns ``database.table`` (``*``, ``?``) of the wanted tables; None takes all.
        exclude: patterns of unwanted tables.
        columns: names of the wanted columns, in this order, for all tables or by table pattern;
            change columns (``_change_type`` …) among them. None: all.
        since: where to start: a position, a GTID set or a time; None: with the first file, also of
            a live source.
        until: where to stop: the first transaction that begins there or later is not read.
        where: a condition that one of a change's rows must meet, as ``changes --where`` takes it.
        keys: encryption keys by id, see :class:`~replica_client.protocol.binlog.event.DecodeOptions`.
        options: how values are decoded.
        schema: the definitions of the tables at the start.
        full_rows: raise an error for row images that lack wanted columns.
        record_losses: kinds of losses that do not stop the reading; see
            :class:`~replica_client.stream.transactions.assembler.AssemblyOptions`.
        allow_empty: accept a pattern of ``tables`` that matches no table; otherwise it is an error when
            the tables are looked up.
        on_statement: a row change that was logged as text: ``error`` stops with ``DataLossError``,
            ``deliver`` returns it as a statement of its transaction; None: ``error``.
        on_unknown_table: a table whose column names nothing proves: ``error`` stops with
            ``UnknownTableError``, ``positional`` names its columns ``col_1``, ``col_2`` …; None:
            ``error`` for a live source, ``positional`` for files.
        invalid_text: bytes that are not text of their character set: ``strict`` stops, ``replace``
            puts U+FFFD, ``bytes`` returns the bytes; None: ``strict``.
        temporals: ``lossless`` returns :class:`~replica_client.DateTime` and its kin, ``python``
            the types of :mod:`datetime`, which have no zero dates; None: ``lossless``.
        lower_case_table_names: the setting of the server that wrote the files; None: not known.
        threads: number of threads that decode files; the order of the rows stays.
        max_rows: maximum number of rows in a batch.

    Raises:
        ConfigError: no such file, an option is wrong, or pyarrow is not installed.
    """
    given = locals()
    begin, end = parse_start(since, "earliest", "since"), parse_start(until, "latest", "until")
    end = stop_of(begin, end)
    if begin == "latest" or end == "earliest":
        raise ConfigError("a scan goes from a position or a time to a position or a time")
    assembly, decode = assembly_of({**given, "columns": None}), decode_of(given)
    import replica_client.rows.batching  # noqa: F401 - tells when pyarrow is not installed

    found: TableSource
    if isinstance(source, str) and source.startswith(_URLS):
        if isinstance(end, Position) and not end.file:
            raise ConfigError("until: of a live source it is FILE:OFFSET or a time")
        found = LiveTables(source, assembly, decode, begin, end, schema)
    else:
        files = binlog_files(source)
        check_files(files, decode)
        for option, one in (("since", begin), ("until", end)):
            if isinstance(one, Position) and one.file and files[0].path is not None:
                check_position(one, files, option, decode)
        found = FileTables(
            files, assembly, decode, begin, end, schema, lower_case_table_names, threads
        )
    tell_plain()
    return BinlogTables(found, columns, where, max_rows, allow_empty=allow_empty)


@dataclass(slots=True)
class Contents:
    """The contents of binlog files.

    Attributes:
        files: all files.
        pieces: ranges that together cover the files.
        schemas: schemas of the batches of each selected table that has rows, the newest last.
        history: the definitions of the tables at the end.
    """

    files: list[BinlogFile]
    pieces: list[Piece] = field(default_factory=list)
    schemas: dict[TableName, list[pa.Schema]] = field(default_factory=dict)
    history: SchemaHistory = field(default_factory=SchemaHistory)

    def history_at(self, piece: Piece) -> SchemaHistory:
        """Return a copy of the schema history at the beginning of a piece."""
        history = self.history.copy()
        history.rewind(piece.start.file, piece.start.offset)
        history.temporary_tables = piece.temporary
        return history


class SeenSchemas:
    """A collector of the schemas of tables, in the order in which they are seen.

    Args:
        schemas: filled with the schemas of the tables' batches, the newest last.
    """

    def __init__(self, schemas: dict[TableName, list[pa.Schema]]) -> None:
        self.schemas = schemas
        self._last: dict[TableName, TableShape] = {}

    def saw(self, shape: TableShape, decoder: RowImageDecoder) -> None:
        """Record the shape of a table that has rows."""
        name = (shape.database, shape.table)
        if self._last.get(name) == shape:
            return
        self._last[name] = shape
        schema = BatchBuilder(shape, None, decoder.options, decoder).schema
        schemas = self.schemas.setdefault(name, [])
        if schema in schemas:
            schemas.remove(schema)
        schemas.append(schema)


def look_at(
    files: Sequence[BinlogFile],
    assembly: AssemblyOptions,
    decode: DecodeOptions,
    history: SchemaHistory,
    begin: Position | None,
    end: Position | None,
    threads: int,
) -> Contents:
    """Read files once, without decoding rows, and return their contents.

    Args:
        files: in order; none is a stream.
        assembly: which tables.
        decode: how events are decoded.
        history: the definitions of the tables at the start; updated with the statements of the
            files.
        begin: a position between transactions; events before it only update the schema history.
        end: no transaction that begins there or later counts.
        threads: number of threads that decode the pieces later.

    Raises:
        BinlogDecodeError: the first fault.
        DataLossError: the source logged that it lost changes.
    """
    if begin is not None:
        try:
            for _ in Pieces(files, assembly, decode, history, None, begin):
                pass  # transactions before the begin are dropped
        except BinlogDecodeError:
            # The fault is before the range: definitions known before it may be wrong after it.
            history = SchemaHistory(lower_case_names=history.lower_case_names)
    found = Contents(list(files), history=history)
    saw = SeenSchemas(found.schemas).saw
    found.pieces += Pieces(files, assembly, decode, history, begin, end, saw=saw, threads=threads)
    return found


class FileTables:
    """A reader of tables in binlog files.

    Args:
        files: in order.
        assembly: which tables.
        decode: how values are decoded.
        since: where the first transaction begins.
        until: no transaction that begins there or later is read.
        schema: the definitions of the tables at the start; None: nothing is known.
        letter_case: ``lower_case_table_names`` of the server; None: not known.
        threads: number of threads that decode.
    """

    def __init__(
        self,
        files: Sequence[BinlogFile],
        assembly: AssemblyOptions,
        decode: DecodeOptions,
        since: Start,
        until: Start,
        schema: SchemaHistory | None,
        letter_case: int | None,
        threads: int,
    ) -> None:
        self._files = spooled(files)
        self._assembly, self._decode = assembly, decode
        self._since, self._until = since, until
        self._schema, self._letter_case = schema, letter_case
        self._threads = threads
        self._lock = threading.Lock()
        self._contents: Contents | None = None
        self.failure: ReplicaClientError | None = None

    def _found(self) -> Contents:
        """Return the contents of the files, which are read once."""
        with self._lock:
            if self._contents is None:
                begin, end = self._range()
                history = SchemaHistory() if self._schema is None else self._schema.copy()
                if self._letter_case is not None:
                    history.casefold_names(self._letter_case != 0)
                self._contents = look_at(
                    self._files,
                    self._assembly,
                    self._decode,
                    history,
                    begin,
                    end,
                    self._threads,
                )
            return self._contents

    def _range(self) -> tuple[Position | None, Position | None]:
        """Return where reading begins and ends; None stands for the first or the last file."""
        reader = BinlogFileReader(
            self._files,
            self._assembly,
            self._decode,
            self._since,
            self._until,
            self._schema,
            lower_case_table_names=self._letter_case,
        )
        return reader.limits()

    def schemas(self) -> dict[TableName, list[pa.Schema]]:
        """Return the schemas of each table's batches, the newest last.

        Raises:
            BinlogDecodeError: a file is damaged.
            ConfigError: the files do not contain the beginning or the end.
        """
        return self._found().schemas

    def check_tables(self) -> None:
        """Raise if a pattern of the wanted tables matches no table of the files.

        Raises:
            ConfigError: names the pattern, and the nearest table.
        """
        found, hint = self._found(), f"; {remedies('empty answer')}"
        self._assembly.selection.check_matched(found.history, found.schemas, hint)

    def batches(
        self,
        table: TableName,
        columns: Sequence[str],
        where: Condition | None,
        max_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table, in order.

        Args:
            table: its database and name.
            columns: the columns to decode.
            where: a condition that the row before or after a change must meet.
            max_rows: maximum number of rows in a batch.

        Raises:
            ReplicaClientError: a file is damaged, or a change cannot be delivered as rows.
        """
        contents = self._found()
        pattern = exact_pattern(*table)
        selection = Selection([pattern], columns={pattern: columns})
        how = Decoding(replace(self._assembly, selection=selection), self._decode, where, max_rows)
        pieces = [one for one in contents.pieces if one.must_read or table in one.tables]

        def read(piece: Piece) -> PieceReading:
            return PieceReading(piece, contents.files, contents.history_at(piece), how)

        threads = min(self._threads, len(pieces))
        found = decoded_in_order(pieces, read, threads)
        return (batch for _, batches in found for batch in batches)


class LiveTables:
    """A reader of tables of a live source, up to the end of its binlog at the first access.

    Args:
        url: URL of the source.
        assembly: which tables.
        decode: how values are decoded.
        since: where the first transaction begins.
        until: no transaction that begins there or later is read.
        schema: the definitions of the tables at the start; None: those that the source proves.
    """

    def __init__(
        self,
        url: str,
        assembly: AssemblyOptions,
        decode: DecodeOptions,
        since: Start,
        until: Start,
        schema: SchemaHistory | None,
    ) -> None:
        self._url = url
        self._assembly, self._decode = assembly, decode
        self._since, self._until, self._schema = since, until, schema
        self._lock = threading.Lock()
        self._schemas: dict[TableName, list[pa.Schema]] | None = None
        self._history = SchemaHistory()
        self.failure: ReplicaClientError | None = None
        self._end = Position("", 0)

    def _open(self, assembly: AssemblyOptions) -> FollowedSource:
        return FollowedSource(
            connect(
                self._url,
                start=self._since,
                stop_at_end=True,
                options=self._decode,
                assembly=assembly,
                schema=self._schema,
                allow_empty=True,
            )
        )

    def schemas(self) -> dict[TableName, list[pa.Schema]]:
        """Return the schemas of each table's batches, the newest last.

        Raises:
            ReplicaClientError: the source cannot be read.
        """
        with self._lock:
            if self._schemas is None:
                found: dict[TableName, list[pa.Schema]] = {}
                seen = SeenSchemas(found)
                with self._open(self._assembly) as stream:
                    for transaction in stream.transactions():
                        if self._is_behind(transaction):
                            break
                        for rows in transaction.rows:
                            seen.saw(rows.shape, rows.decoder)
                    self._end, self._history = stream.position, stream.history
                self._schemas = found
            return self._schemas

    def check_tables(self) -> None:
        """Raise if a pattern of the wanted tables matches no table that was read or is there now.

        Raises:
            ReplicaClientError: the source cannot be asked.
        """
        selection, read = self._assembly.selection, self.schemas()
        if not selection.unmatched_of(self._history):
            return

        async def question() -> list[TableName]:
            async with await SourceConnection.open(parse_url(self._url)) as connection:
                return await list_tables(connection)

        try:
            # The caller's thread may run an event loop.
            with ThreadPoolExecutor(1) as thread:
                known = thread.submit(asyncio.run, asked(question, "listing the tables")).result()
        except ServerError as error:
            if error.errno not in UNKNOWABLE_ERRORS:
                raise
            if self._since != "earliest":
                return  # another part of the binlog may have the table
            known = []
        selection.check_matched(self._history, [*known, *read], f"; {remedies('empty answer')}")

    def _is_behind(self, transaction: Transaction) -> bool:
        """Return whether a transaction is at or after ``until``."""
        if isinstance(self._until, datetime.datetime):
            return not transaction.is_before(micros_of(self._until))
        return isinstance(self._until, Position) and transaction.start >= self._until

    def batches(
        self,
        table: TableName,
        columns: Sequence[str],
        where: Condition | None,
        max_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table, in order.

        The arguments and errors are those of
        :meth:`~replica_client.archive.scan.FileTables.batches`.
        """
        self.schemas()
        pattern = exact_pattern(*table)
        selection = Selection([pattern], columns={pattern: columns})
        batches = BatchAssembler(max_rows, self._decode)
        make: Callable[[Transaction], Iterator[pa.RecordBatch]]
        if where is None:
            make = lambda one: batches_of(batches, one, notices=False)  # noqa: E731
        else:
            make = partial(ChosenRows(where).batches, batches)
        with self._open(replace(self._assembly, selection=selection)) as stream:
            for transaction in stream.transactions():
                if self._is_behind(transaction) or transaction.start >= self._end:
                    break
                yield from make(transaction)
        yield from batches.flush()
