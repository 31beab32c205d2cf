"""Checks and locks for directories that sinks write to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replica_client.errors import SinkError
from replica_client.position.stores.ownership import Claim, Owner, StandbyError
from replica_client.storage.durable import open_locked


def check_writable(directory: Path) -> None:
    """Check that files can be created in a directory, or the directory itself.

    Nothing is created.

    Raises:
        SinkError: files cannot be created.
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


def owners_of_file(saved: Mapping[str, Any] | None, where: str) -> list[Owner]:
    """Return the owner that was saved with a checkpoint, as a list.

    Raises:
        SinkError: the saved owner is damaged.
    """
    text = "" if saved is None else str(saved.get("owner", ""))
    try:
        return [Owner.from_json(json.loads(text))] if text else []
    except ValueError as error:
        raise SinkError(f"{where}: {error}") from error


def check_file_owner(claim: Claim | None, saved: Mapping[str, Any] | None, where: str) -> str:
    """Return the owner to save with a checkpoint, as JSON text.

    Args:
        claim: the identity to write as; None: no identity.
        saved: data saved with the checkpoint; None: no checkpoint.
        where: the files, for messages.

    Raises:
        ForeignOwnerError: another identity writes there.
    """
    if claim is None:
        return "" if saved is None else str(saved.get("owner", ""))
    known = owners_of_file(saved, where)
    mine = claim.resolve(known)
    for other in known:
        if other.id not in (mine.id, claim.takes_over):
            raise claim.foreign(where, other)
    return json.dumps(mine.to_json())


class DirectoryLock:
    """A lock that keeps other writers out of a directory until it is released.

    Args:
        directory: an existing directory.

    Raises:
        StandbyError: another process writes there.
        OSError: the lock file cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor = -1
        try:
            self._descriptor = open_locked(directory / ".lock")
        except BlockingIOError:
            raise StandbyError(
                f"{directory}: another process writes there; this one waits until it ends (give each its own directory)"
            ) from None

    def release(self) -> None:
        """Release the lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.release()
