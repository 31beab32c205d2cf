"""The receiver of a backup: it writes the events of a dump that stand in the source's files, and no others."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from replica_client.archive.backup.backup_catalog import (
    Catalog,
    FileRecord,
    file_number,
    is_binlog_name,
    series_of,
)
from replica_client.archive.backup.local_copy import HEADER, LocalCopy
from replica_client.errors import (
    BackupGapError,
    BackupMismatchError,
    BinlogDecodeError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import EventFlag, EventType, event_type_name
from replica_client.protocol.gtid import GtidSet

_LOG = logging.getLogger("replica_client.archive")

_ARTIFICIAL: Final = int(EventFlag.LOG_EVENT_ARTIFICIAL_F)
_ROTATE: Final = int(EventType.ROTATE_EVENT)
_FORMAT_DESCRIPTION: Final = int(EventType.FORMAT_DESCRIPTION_EVENT)
_START_ENCRYPTION: Final = int(EventType.START_ENCRYPTION_EVENT)
HEARTBEATS: Final = (
    int(EventType.HEARTBEAT_LOG_EVENT),
    int(EventType.HEARTBEAT_LOG_EVENT_V2),
)
# Of a format description sent for the middle of a file, these differ from the file's own:
# next_position and flags, the creation time, and the checksum after the algorithm.
_SAME_PARTS: Final = (slice(0, 13), slice(HEADER_SIZE, 71), slice(75, -4))


class BackupReceiver:
    """Takes the raw events of dumps, one connection after the other.

    Events that are in the copy already are compared with it; others are appended. Events that a
    source makes up for the stream (artificial events, heartbeats, the format description for a
    start in the middle of a file) are used and not kept.

    Args:
        catalog: the index, kept up to date.
        on_file: called with each file that was finished.

    Attributes:
        copy: the newest file; None before the first.
        appended: bytes added so far.
        on_finished: called with the name of each file after ``on_file``, once it is set.
        gap_before: the file before which others are missing; empty: none.
    """

    def __init__(self, catalog: Catalog, on_file: Callable[[FileRecord], None]) -> None:
        self.copy: LocalCopy | None = None
        self.appended = 0
        self.from_relay = False
        self.gap_before = ""
        self._catalog = catalog
        self._directory: Path = catalog.directory
        self._on_file = on_file
        self.on_finished: Callable[[str], None] = lambda name: None
        self._decoder = BinlogDecoder()
        self._position = 0
        self._asked = ("", FIRST_EVENT)
        self._described = False
        self._unsaved = False
        self._lagging = False

    @property
    def confirmed(self) -> bool:
        """Whether an event of this connection stood in the copy, or was added to it."""
        return self._position > self._asked[1]

    def open(self) -> None:
        """Look through the newest file of the directory; blocks while it reads.

        Raises:
            OSError: it cannot be read or written.
        """
        record = self._catalog.last
        if record is None:
            return
        copy = LocalCopy(self._directory, record)
        try:
            finished = record.finished
            if not finished:
                copy.scan()
                if copy.ended:
                    copy.finish()
                    self._on_file(record)
                else:
                    copy.sync()
                self._catalog.save()
            else:
                copy.look_at_finished()
        except BaseException:
            copy.close()
            raise
        self.copy = copy

    def cut(self, size: int) -> None:
        """Cut the newest file where a relay ended it: the server that wrote it is gone in the middle of a transaction.

        Raises:
            BackupMismatchError: no event begins there.
            OSError: it cannot be read or written.
        """
        copy = self.copy
        assert copy is not None
        _LOG.warning(
            "%s ends at %d at the relay: cut off %d bytes of a transaction that is not whole",
            copy.record.name,
            size,
            copy.size - size,
        )
        copy.flush()
        copy.close()
        os.truncate(copy.path, size)
        self.copy = LocalCopy(self._directory, copy.record)
        self.copy.scan()
        if self.copy.size != size:
            raise BackupMismatchError(
                f"{copy.record.name}: no event begins at {size}, where the relay ends the file; "
                "choose an empty directory"
            )

    def close(self) -> None:
        """Save and close, whatever state the stream is in.

        Raises:
            OSError: the disk is full, or failed.
        """
        if self.copy is not None:
            try:
                self.sync(save=True)
            finally:
                self.copy.close()
                self.copy = None

    def sync(self, *, save: bool = False) -> None:
        """Sync all received events to disk.

        Args:
            save: save the entry of a file that is still written in the index, too.

        Raises:
            OSError: the disk is full, or failed.
        """
        for step in self.begin_sync(save=save):
            step()

    def begin_sync(self, *, save: bool = False) -> list[Callable[[], None]]:
        """Return the steps of :meth:`sync`; another thread may run them while this one receives."""
        copy = self.copy
        steps: list[Callable[[], None]] = []
        if copy is None:
            return steps
        if not copy.record.finished:
            size = copy.record.size
            sync = copy.begin_sync()
            if sync is not None:
                steps.append(sync)
            self._lagging |= copy.record.size != size
        if self._unsaved or (save and self._lagging):
            steps.append(self._catalog.prepared())
            self._unsaved = self._lagging = False
        return steps

    def connected(self, file: str, position: int) -> None:
        """Begin a new dump that was asked for from a position; file ``""`` is the source's first file."""
        self._decoder = BinlogDecoder()
        self._position = 0
        self._asked = (file, position)
        self._described = False

    def receive(self, events: Sequence[bytes]) -> None:
        """Take events as they came.

        Raises:
            BackupMismatchError: they are not those of the copy.
            BackupGapError: some are missing in between.
            BinlogDecodeError: an event is damaged; those before it were taken.
            OSError: the disk is full, or failed.
        """
        try:
            for data in events:
                self._receive(data)
        finally:
            if self.copy is not None:
                self.copy.flush()

    def _receive(self, data: bytes) -> None:
        name = self.copy.record.name if self.copy is not None else None
        if len(data) < HEADER_SIZE:
            raise TruncatedEventError(
                f"received an event of {len(data)} bytes", file=name, position=self._position
            )
        timestamp, code, _, size, next_position, flags = HEADER.unpack_from(data)
        if size != len(data):
            raise BinlogDecodeError(
                f"event size {size}, but {len(data)} bytes were received",
                file=name,
                position=self._position,
                event_type=code,
                event_name=event_type_name(code),
            )
        if code in HEARTBEATS:
            return
        if flags & _ARTIFICIAL or (code == _ROTATE and not timestamp):
            if code == _ROTATE:
                body = self._decoder.decode(data, 0).body
                self._arrive(body.next_file, body.next_position)
            elif self.copy is not None and self._described:
                self.copy.check(data, self._position)  # or a damaged flag would hide an event
            return
        copy = self.copy
        if copy is None or not self._position:
            raise BackupMismatchError(
                f"the source sent {event_type_name(code)} before it named a file"
            )
        if not self._described:
            self._described = True
            self._describe(copy, data, code)
            if self._position > FIRST_EVENT:
                return
        elif code == _START_ENCRYPTION and not next_position:
            return  # sent again for a start in the middle of a file
        self._append(copy, data, code, next_position)

    def _describe(self, copy: LocalCopy, data: bytes, code: int) -> None:
        """Take the first event after the file's name, which must be its format description.

        Raises:
            BackupMismatchError: it is another event, or not the copy's format description.
        """
        if code != _FORMAT_DESCRIPTION:
            raise BackupMismatchError(
                f"the source sent {event_type_name(code)} where the format description of "
                f"{copy.record.name} belongs"
            )
        self._decoder.decode(data, FIRST_EVENT, copy.record.name)
        ours = copy.description
        if ours and any(data[part] != ours[part] for part in _SAME_PARTS):
            raise self._not_ours(copy, FIRST_EVENT)

    def _append(self, copy: LocalCopy, data: bytes, code: int, next_position: int) -> None:
        position = self._position
        end = position + len(data)
        if position < copy.size:
            if copy.read(position, len(data)) != data:
                if position > FIRST_EVENT:
                    copy.check(data, position)
                raise self._not_ours(copy, position)
            self._position = end
            return
        if next_position != end & 0xFFFFFFFF:
            # MariaDB >= 11.4 leaves it 0 inside transactions.
            if next_position or copy.flavor is not ServerFlavor.MARIADB:
                copy.check(data, position)
                raise BackupGapError(
                    f"{copy.record.name}, position {position}: the source sent {event_type_name(code)} "
                    f"that ends at {next_position}, not at {end & 0xFFFFFFFF}: something between is "
                    "missing; nothing of it was kept"
                )
        if copy.record.finished:
            raise BackupMismatchError(
                f"{copy.record.name} ends at {copy.size}, but the source has "
                f"{event_type_name(code)} there; nothing was overwritten"
            )
        if code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
            self._check_gtids(copy, data)
        before = copy.size
        if not before:
            self._check_end_of_last(code, data)
        copy.append(data)
        self.appended += copy.size - before
        if copy.ended:
            self._finish(copy)
        self._position = end

    def _check_end_of_last(self, code: int, data: bytes) -> None:
        """Set the in-use flag of the previous file if a MariaDB crashed between it and the file that begins."""
        last = self._catalog.files[-2] if len(self._catalog.files) > 1 else None
        if self._catalog.files[-1].after_gap:
            return  # another file was before it
        if last is None or last.next_file is None or code != _FORMAT_DESCRIPTION:
            return
        description = self._decoder.decode(data, FIRST_EVENT).body
        if self._decoder.format.flavor is not ServerFlavor.MARIADB:
            return
        if not description.create_timestamp:
            return
        if not (self._directory / last.name).exists():
            return  # finished files may be moved elsewhere; the entry describes the file that was here
        copy = LocalCopy(self._directory, last)
        try:
            copy.leave_in_use()
        finally:
            copy.close()
        self._catalog.forget(last)
        self._catalog.save()

    def _not_ours(self, copy: LocalCopy, position: int) -> BackupMismatchError:
        return BackupMismatchError(
            f"{copy.record.name} of the source differs from the copy at position {position}: the source "
            "was reset, or is another server; nothing was overwritten: choose an empty directory"
        )

    # From file to file.

    def _arrive(self, name: str, position: int) -> None:
        """Move to the file and position that the source gives for the next event.

        Raises:
            BackupMismatchError: the place does not continue the copy.
        """
        copy = self.copy
        if not is_binlog_name(name):
            raise BackupMismatchError(f"the source names a binlog file {name!r:.100}")
        asked, asked_position = self._asked
        if not self._position and ((asked and name != asked) or position != asked_position):
            raise BackupMismatchError(
                f"the source begins at {name}:{position}, requested was {asked}:{asked_position}"
            )
        if copy is not None and name == copy.record.name:
            if self._position and position != self._position:
                raise BackupMismatchError(
                    f"the source goes to position {position} of {name} from {self._position}"
                )
            if not self._position:
                self._position, self._described = position, False
            return
        if position != FIRST_EVENT:
            raise BackupMismatchError(f"the source begins {name} at position {position}, not at 4")
        if copy is not None:
            if 0 < self._position < copy.size:
                raise BackupMismatchError(
                    f"{copy.record.name} of the source ends at {self._position}, the copy has "
                    f"{copy.size} bytes: the source was reset, or lost its newest events in a crash; "
                    "nothing was overwritten: choose an empty directory"
                )
            self._check_next(copy.record, name)
            if not copy.record.finished:
                self._finish(copy)
            copy.close()
        self._begin(name)

    def _check_next(self, record: FileRecord, name: str) -> None:
        follows = record.next_file
        if name == self.gap_before:
            return
        if follows is not None and name != follows:
            raise BackupGapError(
                f"the source goes on with {name}, but {follows} comes after {record.name}: it was "
                "purged, or the source was reset; nothing was overwritten: choose an empty directory"
            )
        known = self._catalog.find(name) is not None
        series = (series_of(record.name), series_of(name)) if self.from_relay else (1, 1)
        if known or (series[1], file_number(name)) <= (series[0], record.number):
            raise BackupGapError(
                f"the source goes on with {name} after {record.name}: it was reset; nothing was "
                "overwritten: choose an empty directory"
            )

    def _begin(self, name: str) -> None:
        path = self._directory / name
        if path.exists():
            raise BackupMismatchError(
                f"{path} exists, but is not part of this backup; choose an empty directory"
            )
        record = FileRecord(name, after_gap=name == self.gap_before)
        self._catalog.files.append(record)
        self._catalog.save()
        self._unsaved = self._lagging = False
        self.copy = LocalCopy(self._directory, record)
        self._position, self._described = FIRST_EVENT, False

    def _finish(self, copy: LocalCopy) -> None:
        """Finish a file. The index is saved with the next file, or by :meth:`sync`."""
        copy.finish()
        self._unsaved = True
        self._on_file(copy.record)
        self.on_finished(copy.record.name)

    def _check_gtids(self, copy: LocalCopy, data: bytes) -> None:
        """Check that a new file includes the GTIDs of the files before it; otherwise the source was reset.

        Raises:
            BackupMismatchError: GTIDs are missing.
        """
        older = self._catalog.files[-2] if len(self._catalog.files) > 1 else None
        if older is None or not older.gtid_set_after:
            return
        if self.from_relay and series_of(older.name) != series_of(copy.record.name):
            return  # another server's files begin with transactions that were copied already
        before = self._decoder.decode(data, self._position).body.gtid_set
        missing = GtidSet.parse(older.gtid_set_after) - before
        if missing:
            raise BackupMismatchError(
                f"{copy.record.name} of the source does not follow {older.name}: it was begun without "
                f"{missing}; the source was reset, or is another server; choose an empty directory"
            )
