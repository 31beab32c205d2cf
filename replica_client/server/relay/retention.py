"""The files of a relay that may be removed, and the clients that still need them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from replica_client.errors import BackupMismatchError, ServerError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary
from replica_client.server.session import ServerSession
from replica_client.storage.durable import replace_file

_NAME: Final = "clients.json"

ON_THE_WAY: Final = 16 << 20
"""Bytes that may be sent but unread: in both kernels' buffers and the client's own."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long files are kept.

    Attributes:
        size: bytes that all files may have together; None: any.
        seconds: how long after its last write a file is kept; None: for ever.
        client_seconds: how long a disconnected client keeps the files that it has not read.
    """

    size: int | None = None
    seconds: float | None = None
    client_seconds: float = 7 * 86_400.0


@dataclass(slots=True)
class KnownClient:
    """A replica that has asked for a dump.

    Attributes:
        user: its account.
        file: the file that was sent to it last.
        position: up to which that file was sent.
        seen: when it was last connected, seconds since 1970.
    """

    user: str
    file: str
    position: int
    seen: float


class Clients:
    """All known clients, connected or not; saved in ``clients.json``.

    Args:
        directory: of the relay.

    Raises:
        BackupMismatchError: the file is damaged.
        OSError: it cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / _NAME
        self._saved: str | None = None
        self.all: dict[str, KnownClient] = {}
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            for key, value in document.items():
                client = KnownClient(**value)
                # Older releases knew a client by its UUID alone.
                self.all[key if "@" in key else f"{client.user}@{key}"] = client
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, AttributeError) as error:
            raise BackupMismatchError(
                f"{self._path} is damaged ({error}); remove it: files are then not kept for clients "
                "that are not connected"
            ) from None

    def see(self, session: ServerSession) -> None:
        """Record the position of a connected client."""
        sender = session.sender
        if sender is None or sender.file is None:
            return
        user, replica = session.replica_key
        self.all[f"{user}@{replica}"] = KnownClient(
            session.user, sender.file.name, sender.position, round(time.time(), 3)
        )

    def forget(self, seconds: float, most: int) -> None:
        """Drop clients that are too old or too many.

        Args:
            seconds: drop clients that were not seen for so long.
            most: keep so many of each account, those seen last.
        """
        oldest = time.time() - seconds
        counts: dict[str, int] = {}
        kept: dict[str, KnownClient] = {}
        for key, client in sorted(self.all.items(), key=lambda item: -item[1].seen):
            counts[client.user] = counts.get(client.user, 0) + 1
            if client.seen >= oldest and counts[client.user] <= most:
                kept[key] = client
        self.all = kept

    def save(self) -> None:
        """Write the clients' positions if they changed; afterwards they survive a crash.

        Raises:
            OSError: the file could not be written.
        """
        document: dict[str, Any] = {
            key: {
                "user": client.user,
                "file": client.file,
                "position": client.position,
                "seen": client.seen,
            }
            for key, client in self.all.items()
        }
        text = json.dumps(document, ensure_ascii=False, indent=1)
        if text == self._saved:
            return
        replace_file(self._path, text.encode())
        self._saved = text


def removable(library: BinlogLibrary, retention: Retention, clients: Clients) -> int:
    """Return how many of the oldest files may be removed.

    These are beyond a limit, finished, and read by every client.
    """
    files = library.files
    needed = len(files) - 1
    names = {file.name: at for at, file in enumerate(files)}
    for client in clients.all.values():
        at = names.get(client.file)
        if at is not None:
            needed = min(needed, _first_needed(files, at, client.position))
    oldest = None if retention.seconds is None else time.time() - retention.seconds
    total = sum(file.size for file in files if file.path is not None)
    count = 0
    for file in files[:needed]:
        if file.path is None:  # in an archive
            count += 1
            continue
        too_large = retention.size is not None and total > retention.size
        too_old = oldest is not None and file.modified < oldest
        if not (too_large or too_old):
            break
        total -= file.size
        count += 1
    return count


def count_before(files: Sequence[ServedFile], to: str, before: str) -> int:
    """Return how many of the oldest files PURGE BINARY LOGS names.

    Args:
        files: oldest first; the newest one always stays.
        to: the first file to keep; empty: by time.
        before: the time before which files were last written: ``2026-11-27 12:00:00``, in UTC.

    Raises:
        ServerError: there is no such file, or the time is malformed.
    """
    if to:
        names = [file.name for file in files]
        if to not in names:
            raise ServerError(1373, "HY000", "Target log not found in binlog index")
        return names.index(to)
    try:
        found = datetime.fromisoformat(before)
    except ValueError:
        raise ServerError(1525, "HY000", f"Incorrect DATETIME value: {before[:40]!r}") from None
    limit = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    older = takewhile(lambda file: file.path is not None and file.modified < limit, files[:-1])
    return sum(1 for _ in older)


def _first_needed(files: Sequence[ServedFile], at: int, position: int) -> int:
    """Return the oldest file that a client may request again, as sent bytes may be unread."""
    left = ON_THE_WAY - position
    while left > 0 and at > 0:
        at -= 1
        left -= files[at].size
    return at
