"""Errors for a checkpoint's state that cannot be read: where it is saved, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from replica_client.errors import PositionFormatError, PositionStoreError, ReplicaClientError


@contextmanager
def reading_state_of(store: object) -> Iterator[None]:
    """Translate errors in a checkpoint's state to one that names its file and the remedy.

    Args:
        store: the store that it was loaded from; the path of a file is named.

    Raises:
        PositionStoreError: instead of the error about the state.
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
        ) from PositionFormatError(reason)  # no retry helps
