"""A checkpoint's state that cannot be read: where it is saved, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from replica_client.errors import PositionFormatError, PositionStoreError, ReplicaClientError


@contextmanager
def reading_state_of(store: object) -> Iterator[None]:
    """Let a damaged part of a checkpoint name the file that holds it, and the remedy.

    Args:
        store: that it was loaded from; the path of one that is a file is named.

    Raises:
        PositionStoreError: instead of what is wrong with the part.
    """
    try:
        yield
    except ReplicaClientError as error:
        path = getattr(store, "path", None)
        where = "the saved position" if path is None else f"position file {path}"
        reason = str(error).partition(";")[0]
        raise PositionStoreError(
            f"{where} is damaged: {reason}; restore it from a copy, or set a new position with "
            "replica-client position set"
        ) from PositionFormatError(reason)  # no other try mends it
