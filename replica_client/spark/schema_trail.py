"""What tables look like at any place of files, by the statements in all files before it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.options import DecodeOptions
from replica_client.errors import BinlogDecodeError
from replica_client.position.position import Position
from replica_client.readers.schema_tracking import SchemaTracker
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.spark.file_catalog import FileCatalog
from replica_client.spark.file_list import ListedFile


class SchemaTrail:
    """Runs the statements of files, each once.

    Where older files are gone, it goes on from what was known at the start of the first that is left.

    Args:
        catalog: of the files.
        decode: how to decode.
    """

    def __init__(self, catalog: FileCatalog, decode: DecodeOptions) -> None:
        self._catalog = catalog
        self._decode = decode
        self._history = SchemaHistory()
        self._places: list[Position] = []
        self._done: dict[str, int] = {}
        self._states: dict[int, str | None] = {}
        self._began = False

    def follow(self, files: list[ListedFile], start: Position, last: ListedFile) -> None:
        """Know everything up to the end of a file.

        Args:
            files: all there are.
            start: where reading begins; faults in files before it are passed over.
            last: the last file that is read.

        Raises:
            BinlogDecodeError: a fault in a file that is read.
        """
        if not self._began and files:
            self._begin(files[0])
        histories: dict[tuple[str, bytes], str] = {}
        for file in files:
            if self._done.get(file.name, -1) < file.size:
                try:
                    index = self._catalog.index(file)
                except BinlogDecodeError:
                    if Position(file.name, file.size) >= start:
                        raise
                    # A fault in what is not read: what was known before it may not hold behind it.
                    self._history = SchemaHistory()
                    self._places, self._states = [], {}
                    self._done[file.name] = file.size
                    continue
                if file.name not in self._done and self._history.known_tables():
                    histories[file.path, index.head] = self._history.to_state()
                if index.has_statements:
                    self._run(file, index.statements(file.name, self._decode))
                self._done[file.name] = file.size
            if file.name == last.name:
                break
        self._catalog.save()
        if self._catalog.store is not None:
            self._catalog.store.save_histories(histories)

    def _begin(self, first: ListedFile) -> None:
        self._began = True
        if self._catalog.store is None:
            return
        try:
            head = self._catalog.index(first).head
        except BinlogDecodeError:
            return
        state = self._catalog.store.history(first.path, head)
        if state is not None:
            self._history = SchemaHistory.from_state(state)

    def _run(
        self, file: ListedFile, statements: Iterable[tuple[BinlogEvent, BinlogDecoder]]
    ) -> None:
        tracker = SchemaTracker(self._history, Selection())
        for event, decoder in statements:
            place = Position(file.name, event.position)
            if self._places and place <= self._places[-1]:
                continue
            tracker.run(event, decoder.format, 0)
            self._places.append(place)

    def state_at(self, place: Position) -> str | None:
        """The history at a place, to ship; None when it knows nothing."""
        count = bisect_left(self._places, place)
        if count not in self._states:
            mine = self.history_at(place)
            known = bool(mine.tables())
            if known:
                mine.prune(place.file, place.offset, keep=1)
            self._states[count] = mine.to_state() if known else None
        return self._states[count]

    def history_at(self, place: Position) -> SchemaHistory:
        """The history at a place."""
        mine = self._history.copy()
        mine.rewind(place.file, place.offset)
        return mine
