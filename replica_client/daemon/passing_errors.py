"""Classification of errors that pass without an operator."""

from __future__ import annotations

from replica_client.errors import (
    BinlogReadError,
    PositionFormatError,
    PositionStoreError,
    ServerError,
    SinkError,
    TlsError,
    TransportError,
)
from replica_client.wire.server_errors import TRANSIENT_ERRORS


def is_passing(error: Exception) -> bool:
    """Return whether an error is expected to pass without an operator."""
    if isinstance(error, SinkError):
        return error.retriable
    if isinstance(error, ServerError) and not isinstance(error, BinlogReadError):
        return error.errno in TRANSIENT_ERRORS
    if isinstance(error, PositionStoreError):
        return not isinstance(error.__cause__, PositionFormatError)
    return isinstance(error, TransportError | OSError) and not isinstance(error, TlsError)
