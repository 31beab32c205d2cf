"""The directories of a relay: one for each server that was its source, in order.

A failover takes the relay to another server, whose files have names and offsets of their own. The
files of each server go byte for byte to its own directory (``1``, ``2``, …); together they are one
sequence. A file of a later directory is served with that directory's number in its name
(``binlog-2.000007``), so that a file and an offset always mean the same place.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import uuid
from pathlib import Path
from typing import Final

from replica_client.archive.backup.backup_catalog import (
    INDEX_NAME,
    Catalog,
    file_order,
    is_binlog_name,
)
from replica_client.archive.backup.receiver import BackupReceiver
from replica_client.errors import BackupMismatchError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from replica_client.server.served_files import ServedFile
from replica_client.server.transactions import GTID_TYPES
from replica_client.storage.durable import replace_file, sync_directory

UUID_NAME: Final = "server_uuid"
"""File of the relay's own server UUID."""

KEY_NAME: Final = "login_key"
"""File of the key that chooses how logins of unknown names look."""

_KEY_SIZE: Final = 32

END_NAME: Final = "ended.json"
"""File with the end of an epoch: its last file and that file's size."""

_FIRST: Final = 1


@dataclass(slots=True)
class Epoch:
    """The files of one source.

    Attributes:
        number: from 1.
        path: its directory.
        end: of a finished epoch: its last file, and how many bytes of that are served: up to the
            last whole transaction.
    """

    number: int
    path: Path
    end: tuple[str, int] | None = None

    def served_name(self, name: str) -> str:
        """Return the name under which clients know a file."""
        if self.number == _FIRST:
            return name
        stem, _, number = name.rpartition(".")
        return f"{stem}-{self.number}.{number}"

    def catalog(self) -> Catalog:
        """Load the epoch's index.

        Raises:
            BackupMismatchError: the index is damaged.
            OSError: the index cannot be read.
        """
        return Catalog.load(self.path)

    def file_names(self) -> list[str]:
        """Return the names of the epoch's files on disk, in order."""
        names = [entry.name for entry in os.scandir(self.path) if is_binlog_name(entry.name)]
        return sorted(names, key=file_order)

    def served(self, name: str) -> ServedFile:
        """Open a file of the epoch for serving.

        Raises:
            BinlogFormatError: the file's head is not written yet.
        """
        limit = None
        if self.end is not None and self.end[0] == name:
            limit = self.end[1]
        return ServedFile(
            self.served_name(name),
            self.path / name,
            epoch=self.number,
            limit=limit,
            rename=self.served_name,
        )

    def finish(self) -> None:
        """Finish the epoch: serve its last file up to the last whole transaction.

        Raises:
            OSError: the end cannot be written.
        """
        catalog = self.catalog()
        record = catalog.last
        if record is None or self.end is not None:
            return
        file = ServedFile(record.name, self.path / record.name)
        whole = executed_text(record.gtid_set_after)
        end = last = file.size
        for position, header in file.headers():
            last = position + header.event_size
            if header.type_code in GTID_TYPES:
                gtid = file.gtid_of(file.read(position, header.event_size))
                if gtid is None or not _has(whole, gtid):
                    end = position
                    break
        else:
            end = last
        self.end = (record.name, end)
        document = json.dumps({"file": record.name, "size": end})
        replace_file(self.path / END_NAME, document.encode())


class Epochs:
    """All epochs of a relay's directory.

    Args:
        directory: created if missing.

    Raises:
        BackupMismatchError: the directory is not a relay's.
        OSError: it cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        if (directory / INDEX_NAME).exists():
            raise BackupMismatchError(
                f"{directory} is the directory of a backup; a relay keeps its files in directories of their "
                "own below: choose an empty directory"
            )
        numbers = sorted(
            int(entry.name)
            for entry in os.scandir(directory)
            if entry.is_dir() and entry.name.isascii() and entry.name.isdecimal()
        )
        self.all = [_epoch(directory, number) for number in numbers]

    @property
    def current(self) -> Epoch | None:
        """The epoch that grows; None before the first."""
        return self.all[-1] if self.all else None

    def mend(self) -> None:
        """Cut off what a crash left after the last whole event of the newest file.

        Raises:
            BackupError: a file was changed.
            OSError: a file cannot be read or written.
        """
        if self.current is None:
            return
        receiver = BackupReceiver(self.current.catalog(), lambda record: None)
        try:
            receiver.open()
        finally:
            receiver.close()

    def server_uuid(self) -> str:
        """Return the relay's own server UUID; create it at the first call.

        Raises:
            BackupMismatchError: the file that holds the UUID is damaged.
            OSError: the file cannot be read or written.
        """
        path = self.directory / UUID_NAME
        try:
            return str(uuid.UUID(path.read_text(encoding="ascii").strip()))
        except FileNotFoundError:
            made = str(uuid.uuid4())
            replace_file(path, f"{made}\n".encode())
            return made
        except ValueError:
            raise BackupMismatchError(f"{path} holds no UUID; remove it for a new one") from None

    def login_key(self) -> bytes:
        """Return the key that chooses how logins of unknown names look, created once.

        Raises:
            OSError: the file cannot be read.
        """
        path = self.directory / KEY_NAME
        try:
            known = path.read_bytes()
        except FileNotFoundError:
            known = b""
        if len(known) != _KEY_SIZE:
            known = secrets.token_bytes(_KEY_SIZE)
            with contextlib.suppress(OSError):  # a full disk: the next start makes another one
                replace_file(path, known)
        return known

    def begin(self) -> Epoch:
        """Begin a new epoch and finish the one before.

        Raises:
            OSError: the directory cannot be written.
        """
        before = self.current
        if before is not None:
            before.finish()
        epoch = Epoch(before.number + 1 if before else _FIRST, Path())
        epoch.path = self.directory / str(epoch.number)
        epoch.path.mkdir()
        sync_directory(self.directory)
        self.all.append(epoch)
        return epoch

    def executed(self) -> GtidSet | MariadbGtidSet | None:
        """Return the GTIDs up to the last whole transaction; None if the files have no GTIDs."""
        for epoch in reversed(self.all):
            last = epoch.catalog().last
            if last is not None and last.gtid_set_after is not None:
                return executed_text(last.gtid_set_after)
        return None


def executed_text(text: str | None) -> GtidSet | MariadbGtidSet | None:
    """Parse a GTID set from an index; None for None."""
    return None if text is None else parse_gtid_set(text)


def _has(whole: GtidSet | MariadbGtidSet | None, gtid: object) -> bool:
    if isinstance(whole, MariadbGtidSet):
        return whole.contains(gtid)  # type: ignore[arg-type]
    return whole is not None and gtid in whole


def _epoch(directory: Path, number: int) -> Epoch:
    path = directory / str(number)
    try:
        ended = json.loads((path / END_NAME).read_text(encoding="ascii"))
        end = (str(ended["file"]), int(ended["size"]))
    except FileNotFoundError:
        end = None
    except (ValueError, KeyError, TypeError) as error:
        raise BackupMismatchError(
            f"{path / END_NAME} is damaged ({error}); restore it from a copy"
        ) from None
    return Epoch(number, path, end)
