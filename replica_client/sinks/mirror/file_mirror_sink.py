"""The base of sinks that mirror tables in a single-file database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Protocol

from replica_client.errors import SinkError
from replica_client.position.stores.base import Checkpoint
from replica_client.position.stores.ownership import Owner
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.mirror.stored_values import REALS, one_zero, stored_encoder
from replica_client.sinks.mirror.table_mirror_sink import TableMirrorSink
from replica_client.sinks.output_directory import check_writable
from replica_client.sinks.system_errors import os_errors
from replica_client.storage.location import local_path


class FileMirrorOptions(Protocol):
    """The options that all file mirrors share; their own classes describe them."""

    @property
    def path(self) -> str:
        """The path of the file."""
        ...

    @property
    def missing_rows(self) -> str:
        """``error`` or ``ignore``."""
        ...

    @property
    def unknown_tables(self) -> str:
        """``error`` or ``create``."""
        ...


class FileMirrorSink(TableMirrorSink):
    """A sink that mirrors tables in a file.

    Args:
        options: what the user chose.
        name: name of the sink, for messages.

    Attributes:
        refused: base class of the database library's errors.
    """

    refused: ClassVar[type[Exception]]

    def __init__(self, options: FileMirrorOptions, name: str) -> None:
        self._path = local_path(options.path, f"sink {name}: path")
        super().__init__(
            str(self._path),
            strict=options.missing_rows == "error",
            create=options.unknown_tables == "create",
        )

    # Methods to override.

    def _look(self) -> None:
        """Check that the existing file is a database; raise an error otherwise."""
        raise NotImplementedError

    def _sink_error(self, error: Exception) -> SinkError:
        """Return the sink's error for an error of the database."""
        raise NotImplementedError

    # Common to all file mirrors.

    def _owners(self) -> Sequence[Owner]:
        return super()._owners() if self._path.exists() else ()

    def _saved(self) -> Checkpoint | None:
        return super()._saved() if self._path.exists() else None

    async def probe(self) -> None:
        """See :class:`~replica_client.sinks.protocol.ProbedSink`."""
        await self._worker.run(self._probe)

    def _probe(self) -> None:
        check_writable(self._path.parent)
        with self._errors():
            if self._path.exists():
                self._look()

    def _encoder_of(self, column: ColumnModel) -> ValueEncoder | None:
        # SQLite stores -0.0 as 0. DuckDB 1.5 stores a segment in which all values are equal as its
        # first value, so that -0.0 beside 0.0 would depend on the other rows.
        return one_zero if column.kind in REALS else self._plain_encoder(column)

    def _plain_encoder(self, column: ColumnModel) -> ValueEncoder | None:
        """Return the encoder of a column that is no FLOAT or DOUBLE."""
        return stored_encoder(column)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with os_errors(str(self._path)):
                yield
        except self.refused as error:
            raise self._sink_error(error) from error
