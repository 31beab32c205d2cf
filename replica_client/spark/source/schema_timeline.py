"""The table definitions at any position of files, by the statements in all earlier files."""

from __future__ import annotations

from bisect import bisect_left

from replica_client.archive.file_index import FileIndex
from replica_client.archive.file_list import ListedFile
from replica_client.binlog.options import DecodeOptions
from replica_client.errors import BinlogDecodeError
from replica_client.position.position import Position
from replica_client.readers.schema_tracking import SchemaTracker
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.schema.versions import split_file_name
from replica_client.spark.source.file_catalog import FileCatalog

_KEEP_EVERY = 100


class SchemaTimeline:
    """Runs the statements of files, each once.

    Where older files are gone, it goes on from what was known at the start of the first that is left.

    Args:
        catalog: of the files.
        decode: how to decode.
        letter_case: ``lower_case_table_names`` of the server that wrote the files; None: not known.
    """

    def __init__(
        self, catalog: FileCatalog, decode: DecodeOptions, letter_case: int | None = None
    ) -> None:
        self._catalog = catalog
        self._decode = decode
        self._casefolds_names = None if letter_case is None else letter_case != 0
        self._history = SchemaHistory(lower_case_names=self._casefolds_names)
        self._positions: list[Position] = []
        self._done: dict[str, int] = {}
        self._states: dict[int, str | None] = {}
        self._began = False
        self._unkept = 0

    def follow(self, files: list[ListedFile], start: Position, last: ListedFile) -> None:
        """Read the statements up to the end of a file.

        Args:
            files: all files.
            start: where reading begins; faults in files before it are skipped.
            last: the last file that is read.

        Raises:
            BinlogDecodeError: a fault in a file that is read.
        """
        if not self._began and files:
            self._begin(files[0])
        for file in files:
            if self._done.get(file.name, -1) < file.size:
                try:
                    index = self._catalog.index(file)
                except BinlogDecodeError:
                    if Position(file.name, file.size) >= start:
                        raise
                    # A fault in a file that is not read: definitions before it may not hold after it.
                    self._history = SchemaHistory(lower_case_names=self._casefolds_names)
                    self._positions, self._states = [], {}
                    self._done[file.name] = file.size
                    continue
                if file.name not in self._done:
                    self._keep(file, file.name == last.name)
                if index.has_statements:
                    self._run(file.name, index)
                self._done[file.name] = file.size
            if file.name == last.name:
                break
        self._catalog.save()

    def _keep(self, file: ListedFile, is_last: bool) -> None:
        """Keep what is known at the start of a file, now and then, for when older files are gone."""
        self._unkept += 1
        store = self._catalog.store
        if store is None or not self._positions or not (is_last or self._unkept >= _KEEP_EVERY):
            return
        self._unkept = 0
        state = self.state_at(Position(file.name, 0))
        if state is not None:
            store.save_history(file.path, state)

    def _begin(self, first: ListedFile) -> None:
        """Go on from what was kept of files that are gone, by their indexes up to the first one."""
        self._began = True
        store = self._catalog.store
        kept = None if store is None else store.history_before(first.path)
        if store is None or kept is None:
            return
        path, state = kept
        number, first_number = (split_file_name(one)[1] for one in (path, first.path))
        base, _, digits = first.path.rpartition(".")
        between = [f"{base}.{one:0{len(digits)}d}" for one in range(number, first_number)]
        indexes = store.load(between)
        if len(indexes) != len(between):
            return
        self._history = SchemaHistory.from_state(state)
        if self._casefolds_names is not None:
            self._history.casefold_names(self._casefolds_names)
        for one in between:
            if indexes[one].has_statements:
                self._run(one.rpartition("/")[2], indexes[one])

    def _run(self, name: str, index: FileIndex) -> None:
        tracker = SchemaTracker(self._history, Selection())
        for event, decoder in index.statements(name, self._decode):
            position = Position(name, event.position)
            if self._positions and position <= self._positions[-1]:
                continue
            tracker.run(event, decoder.format, 0)
            self._positions.append(position)

    def state_at(self, position: Position) -> str | None:
        """Return the history at a position for the executors; None when it knows no table."""
        count = bisect_left(self._positions, position)
        if count not in self._states:
            mine = self.history_at(position)
            known = bool(mine.tables())
            if known:
                mine.prune(position.file, position.offset, keep=1)
            self._states[count] = mine.to_state() if known else None
        return self._states[count]

    def between(self, start: Position, end: Position) -> str | None:
        """Return the history at ``start`` with the changes up to ``end``; None when it knows no table.

        Readers ignore what is after their start, so one text serves all partitions.
        """
        if bisect_left(self._positions, start) == bisect_left(self._positions, end):
            return self.state_at(start)  # the same text as before, which readers have at hand
        mine = self.history_at(end)
        if not mine.tables():
            return None
        mine.prune(start.file, start.offset, keep=1)
        return mine.to_state()

    def history_at(self, position: Position) -> SchemaHistory:
        """Return the history at a position."""
        mine = self._history.copy()
        mine.rewind(position.file, position.offset)
        return mine
