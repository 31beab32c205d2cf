"""A position in an object of a store: S3, Google Cloud Storage or Azure Blob Storage.

The object holds the JSON object of :mod:`~replica_client.stream.position.stores.base`, with the id of its writer, and
is replaced as a whole on the condition that it is still the one that was read or written last. A second process
that saves there is noticed by both; a store that ignores such conditions is refused.

Of a service, another object names the owner and holds the lease.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from replica_client.errors import (
    ObjectNotFoundError,
    PositionFormatError,
    PositionStoreError,
    StorageConflictError,
    StorageError,
)
from replica_client.protocol.position import Position
from replica_client.storage.location import ObjectUrl, location
from replica_client.storage.object_store import ObjectStore, ObjectVersion
from replica_client.stream.position.stores.base import (
    Checkpoint,
    PositionStore,
    checkpoint_json,
    decode_checkpoint,
)
from replica_client.stream.position.stores.file import FilePositionStore
from replica_client.stream.position.stores.ownership import Claim, Heart, Lease, Owner, fenced

_LEASE: Final = ".lease"


class ObjectPositionStore:
    """Keeps a checkpoint in one object, atomically.

    Args:
        url: of the object, such as ``s3://bucket/shop.position``.
        claim: the identity to write as; None: there is none, and the object is this one's alone.
    """

    def __init__(self, url: ObjectUrl, claim: Claim | None = None) -> None:
        self.path = url
        self._store = ObjectStore(url.parent)
        self._version: ObjectVersion | None = None
        self._known = False
        # A version may be the hash of the content: ours is to be no other's.
        self._writer = os.urandom(8).hex()
        self._claim = claim
        self._lease = ""
        self._lease_version: ObjectVersion | None = None
        self._heart: Heart | None = None

    def load(self) -> Position | None:
        """Return the saved position, or None when there is no object yet.

        Raises:
            PositionStoreError: the object cannot be read, or is no position.
        """
        checkpoint = self.load_checkpoint()
        return None if checkpoint is None else checkpoint.position

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the saved position with its state, or None when there is no object yet.

        Raises:
            PositionStoreError: the object cannot be read, or is no position.
        """
        takes = self._claim is not None and not self._lease
        if self._claim is not None and takes:
            self._take_lease(self._claim)
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
                f" position again, or delete the object to start without one"
            ) from error
        self._version, self._known = version, True
        if takes:
            # The version that a process knows that lost the lease is an old one from here on.
            self.save(checkpoint.position, checkpoint.state)
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
            if self._lease:
                raise fenced(f"position file {self.path}") from error
            raise PositionStoreError(
                f"position file {self.path} was written or deleted by another process: two consumers must not "
                "share a position; stop one, or give each its own, then start again"
            ) from error
        except StorageError as error:
            raise PositionStoreError(str(error)) from error

    # The identity of the writer, and its lease: an object with the name of the position's and ".lease".

    def check_lease(self) -> None:
        """Check that this process may save.

        Raises:
            StandbyError: another process took the lease over.
        """
        if self._lease and self._read_lease()[1] != self._lease:
            raise fenced(f"position file {self.path}")

    def release(self) -> None:
        """Give the lease back."""
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.stop()
        lease, self._lease = Lease.from_text(self._lease), ""
        if lease is not None and self._claim is not None:
            with contextlib.suppress(StorageError, StorageConflictError):
                if self._read_lease()[1] == lease.to_text():
                    self._write_lease(self._claim.owner, replace(lease, holder="").to_text(), "")

    def _take_lease(self, claim: Claim) -> None:
        owners, text, beat = self._read_lease()
        mine = claim.resolve(owners)
        for other in owners:
            if other.id not in (mine.id, claim.takes_over):
                raise claim.foreign(f"position file {self.path}", other)
        taken = claim.take(Lease.from_text(text), beat).to_text()
        try:
            self._store.require_conditional_put()
            self._write_lease(mine, taken, "")
        except StorageConflictError as error:
            raise fenced(f"position file {self.path}") from error
        except StorageError as error:
            raise PositionStoreError(str(error)) from error
        self._lease = taken
        self._heart = Heart(self._beats)

    def _read_lease(self) -> tuple[list[Owner], str, str]:
        """Return owner, lease and beat."""
        try:
            data, self._lease_version = self._store.get(f"{self.path.name}{_LEASE}")
            value = json.loads(data)
            return [Owner.from_json(value["owner"])], str(value["lease"]), str(value["beat"])
        except ObjectNotFoundError:
            self._lease_version = None
            return [], "", ""
        except StorageError as error:
            raise PositionStoreError(str(error)) from error
        except (KeyError, TypeError, ValueError) as error:
            raise PositionStoreError(
                f"{self.path}{_LEASE} is damaged: {error}; delete it"
            ) from error

    def _write_lease(self, owner: Owner, lease: str, beat: str) -> None:
        value = {"owner": owner.to_json(), "lease": lease, "beat": beat}
        name, data = f"{self.path.name}{_LEASE}", json.dumps(value).encode()
        if self._lease_version is None:
            self._lease_version = self._store.create(name, data)
        else:
            self._lease_version = self._store.replace(name, data, self._lease_version)

    @contextlib.contextmanager
    def _beats(self) -> Iterator[Callable[[str], None]]:
        claim, lease = self._claim, self._lease
        assert claim is not None
        store = ObjectStore(self.path.parent)
        name = f"{self.path.name}{_LEASE}"

        def beat(text: str) -> None:
            data, version = store.get(name)
            if json.loads(data)["lease"] != lease:
                return  # another process took it over
            value = {"owner": claim.owner.to_json(), "lease": lease, "beat": text}
            with contextlib.suppress(StorageConflictError):
                store.replace(name, json.dumps(value).encode(), version)

        yield beat

    def _look(self) -> None:
        """Read the version of the object that the next save replaces."""
        try:
            self._version = self._store.status(self.path.name).version
        except ObjectNotFoundError:
            self._version = None
        self._known = True


def position_file(
    where: str | os.PathLike[str] | ObjectUrl, claim: Claim | None = None
) -> PositionStore:
    """Return the store of a position file, here or in an object store.

    Args:
        where: the file.
        claim: the identity to write as in an object store; a file is locked.

    Raises:
        ConfigError: a URL of another kind.
    """
    found = location(where)
    if not isinstance(found, ObjectUrl):
        return FilePositionStore(found)
    return ObjectPositionStore(found, claim)
