"""Directories that sinks write to: whether they can, and that one process at a time does."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from replica_client.errors import SinkError
from replica_client.storage.durable import DATA_MODE


def check_writable(directory: Path) -> None:
    """Look whether files can be made in a directory, or it itself; nothing is made.

    Raises:
        SinkError: they cannot.
    """
    found = directory.absolute()
    while not found.exists() and found != found.parent:
        found = found.parent
    if not found.is_dir():
        raise SinkError(f"{directory}: {found} is no directory")
    if not os.access(found, os.W_OK | os.X_OK):
        raise SinkError(
            f"{directory}: files cannot be made in {found}; give this user the right to"
        )


class DirectoryLock:
    """Keeps a second writer out of a directory, for as long as this process lives or it is released.

    Args:
        directory: which one; there must be one.

    Raises:
        SinkError: another process writes there.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(
            directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, DATA_MODE
        )
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise SinkError(
                f"{directory}: another process writes there; stop it, or give each its own directory",
                retriable=True,
            ) from None

    def release(self) -> None:
        """Let others in."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.release()
