"""The directories of a relay: one for each server that was its source, in order.

A failover takes the relay to another server, whose files have names and offsets of their own. Each server's
files go to a directory of their own (``1``, ``2``, …), byte for byte; together they are one sequence. A name of a
later directory is served with that directory's number in it (``binlog-2.000007``), so that a file and an offset
mean one place for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import uuid
from pathlib import Path
from typing import Final

from replica_client.backup.backup_catalog import INDEX_NAME, Catalog, file_order, is_binlog_name
from replica_client.backup.receiver import BackupReceiver
from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import BackupMismatchError
from replica_client.gtid import GtidSet, MariadbGtidSet, parse_gtid_set
from replica_client.server.served_files import ServedFile
from replica_client.server.transactions import GTID_TYPES
from replica_client.storage.durable import replace_file, sync_directory

UUID_NAME: Final = "server_uuid"
"""File of the relay's own server UUID."""

KEY_NAME: Final = "login_key"
"""File of the key by which logins of unknown names are answered."""

_KEY_SIZE: Final = 32

END_NAME: Final = "ended.json"
"""File that says where an epoch ended."""

_FIRST: Final = 1


@dataclass(slots=True)
class Epoch:
    """The files of one source.

    Attributes:
        number: from 1.
        path: its directory.
        end: of an epoch that is over: its last file, and how many bytes of it are served: up to the last
            transaction that is whole.
    """

    number: int
    path: Path
    end: tuple[str, int] | None = None

    def served_name(self, name: str) -> str:
        """A file's name as clients know it."""
        if self.number == _FIRST:
            return name
        stem, _, number = name.rpartition(".")
        return f"{stem}-{self.number}.{number}"

    def catalog(self) -> Catalog:
        """Its index.

        Raises:
            BackupMismatchError: it is damaged.
            OSError: it cannot be read.
        """
        return Catalog.load(self.path)

    def file_names(self) -> list[str]:
        """Its files on disk, in order."""
        names = [entry.name for entry in os.scandir(self.path) if is_binlog_name(entry.name)]
        return sorted(names, key=file_order)

    def served(self, name: str) -> ServedFile:
        """A file, to be served.

        Raises:
            BinlogFormatError: its head is not written yet.
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
        """No more comes to it: serve its last file up to the last whole transaction.

        Raises:
            OSError: it cannot be written.
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
        directory: made when it is not there.

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
        """Cut off what a crash left behind the last whole event of the newest file, before it is served.

        Raises:
            BackupError: a file is not as it was.
            OSError: it cannot be read or written.
        """
        if self.current is None:
            return
        receiver = BackupReceiver(self.current.catalog(), lambda record: None)
        try:
            receiver.open()
        finally:
            receiver.close()

    def server_uuid(self) -> str:
        """The relay's own server UUID, made once.

        Raises:
            BackupMismatchError: the file that holds it is damaged.
            OSError: it cannot be read or written.
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
        """Return the key that chooses how logins of unknown names look, made once.

        Raises:
            OSError: it cannot be read.
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
        """A new epoch; the one before is over.

        Raises:
            OSError: it cannot be written.
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
        """GTIDs of all whole transactions that are kept, and of those before; None where files do not say."""
        for epoch in reversed(self.all):
            last = epoch.catalog().last
            if last is not None and last.gtid_set_after is not None:
                return executed_text(last.gtid_set_after)
        return None


def executed_text(text: str | None) -> GtidSet | MariadbGtidSet | None:
    """A set from an index."""
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
