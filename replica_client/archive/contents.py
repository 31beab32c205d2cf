"""The contents of binlog files: tables, their definitions, and where the files may be split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import pyarrow as pa

from replica_client.binlog.options import DecodeOptions
from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import BinlogDecodeError
from replica_client.position.position import Position
from replica_client.readers.assembler import AssemblyOptions
from replica_client.readers.files.file_bytes import BinlogFile
from replica_client.readers.files.pieces import Piece, Pieces
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.shape import TableShape


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
