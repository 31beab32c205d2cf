"""Errors without what transforms hide: messages may show values of rows and texts of statements."""

from __future__ import annotations

from typing import Final

from replica_client.errors import (
    BinlogDecodeError,
    DataLossError,
    ReplicaClientError,
    SchemaError,
    UnknownTableError,
)

WITHHELD: Final = "the text is withheld: a transform hides columns of this source"


def withheld_error(error: ReplicaClientError) -> ReplicaClientError:
    """Return an error of the same kind and place without texts; errors of other kinds unchanged."""
    text = f"{type(error).__name__}: {WITHHELD}"
    if isinstance(error, BinlogDecodeError):
        same = type(error).__init__ is BinlogDecodeError.__init__
        made = type(error)(text) if same else BinlogDecodeError(text)
        return made.at(
            file=error.file,
            position=error.position,
            event_type=error.event_type,
            event_name=error.event_name,
        )
    kinds: tuple[type[ReplicaClientError], ...] = (UnknownTableError, SchemaError, DataLossError)
    for kind in kinds:
        if isinstance(error, kind):
            return kind(text)
    return error
