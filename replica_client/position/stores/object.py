"""A position in an object of a store: S3, Google Cloud Storage or Azure Blob Storage.

The object holds the JSON object of :mod:`~replica_client.position.stores.document`, with the id of its writer, and
is replaced as a whole on the condition that it is still the one that was read or written last. A second process
that saves there is noticed by both; a store that ignores such conditions is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from replica_client.errors import (
    ObjectNotFoundError,
    PositionFormatError,
    PositionStoreError,
    StorageConflictError,
    StorageError,
)
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint, PositionStore
from replica_client.position.stores.document import checkpoint_json, decode_checkpoint
from replica_client.position.stores.file import FilePositionStore
from replica_client.storage.location import ObjectUrl, location
from replica_client.storage.object_store import ObjectStore, ObjectVersion


class ObjectPositionStore:
    """Keeps a checkpoint in one object, atomically.

    Args:
        url: of the object, such as ``s3://bucket/shop.position``.
    """

    def __init__(self, url: ObjectUrl) -> None:
        self.path = url
        self._store = ObjectStore(url.parent)
        self._version: ObjectVersion | None = None
        self._known = False
        # A version may be the hash of the content: ours is to be no other's.
        self._writer = os.urandom(8).hex()

    def load(self) -> Position | None:
        """The saved position, None when there is no object yet.

        Raises:
            PositionStoreError: it cannot be read, or is no position.
        """
        checkpoint = self.load_checkpoint()
        return None if checkpoint is None else checkpoint.position

    def load_checkpoint(self) -> Checkpoint | None:
        """The saved position with its state, None when there is no object yet.

        Raises:
            PositionStoreError: it cannot be read, or is no position.
        """
        try:
            data, version = self._store.get(self.path.name)
        except ObjectNotFoundError:
            self._version, self._known = None, True
            return None
        except StorageError as error:
            raise PositionStoreError(str(error)) from error
        try:
            checkpoint = decode_checkpoint(data)
        except PositionFormatError as error:
            raise PositionStoreError(
                f"position file {self.path} is damaged: {error}; restore it from a copy, set the"
                f" position anew, or delete the object to start without one"
            ) from error
        self._version, self._known = version, True
        return checkpoint

    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state; when this returns, both are in the store.

        Raises:
            PositionStoreError: they could not be saved, or another process saved there.
        """
        document = {**checkpoint_json(position, state or {}), "writer": self._writer}
        data = json.dumps(document, indent=1).encode("ascii") + b"\n"
        name = self.path.name
        try:
            self._store.require_conditional_put()
            if not self._known:
                self._look()
            if self._version is None:
                self._version = self._store.create(name, data)
            else:
                self._version = self._store.replace(name, data, self._version)
        except (StorageConflictError, ObjectNotFoundError) as error:
            raise PositionStoreError(
                f"position file {self.path} was written or deleted by another process: two consumers must not "
                "share a position; stop one, or give each its own, then start again"
            ) from error
        except StorageError as error:
            raise PositionStoreError(str(error)) from error

    def _look(self) -> None:
        """Which object there is to be replaced."""
        try:
            self._version = self._store.status(self.path.name).version
        except ObjectNotFoundError:
            self._version = None
        self._known = True


def position_file(where: str | os.PathLike[str] | ObjectUrl) -> PositionStore:
    """The store of a position file, here or in an object store.

    Raises:
        ConfigError: a URL of another kind.
    """
    found = location(where)
    if not isinstance(found, ObjectUrl):
        return FilePositionStore(found)
    return ObjectPositionStore(found)
