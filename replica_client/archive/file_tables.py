"""The tables in binlog files."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from replica_client.archive.contents import Contents, look_at
from replica_client.binlog.options import DecodeOptions
from replica_client.errors import ReplicaClientError
from replica_client.position.position import Position
from replica_client.readers.assembler import AssemblyOptions
from replica_client.readers.files.binlog_file import BinlogFileReader
from replica_client.readers.files.file_bytes import BinlogFile
from replica_client.readers.files.file_range import spooled
from replica_client.readers.files.piece_batches import Decoding, PieceReading, decoded_in_order
from replica_client.readers.files.pieces import Piece
from replica_client.readers.start_position import Start
from replica_client.readers.surface import remedies
from replica_client.rows.selection import Selection, exact_pattern
from replica_client.rows.where import Condition
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory


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
