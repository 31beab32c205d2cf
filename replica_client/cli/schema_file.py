"""A schema history in a file, as ``--schema`` names one."""

from __future__ import annotations

import json
from pathlib import Path

from replica_client.errors import SchemaError
from replica_client.position.stores.base import Checkpoint
from replica_client.schema.history import STATE_KEY, SchemaHistory


def read_schema_file(path: Path) -> SchemaHistory:
    """The history in a file.

    Raises:
        SchemaError: the file holds none.
        OSError: it cannot be read.
    """
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{path} is not JSON: {error}") from error
    try:
        return SchemaHistory.from_json(document)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from error


def schema_of(path: Path | None, saved: Checkpoint | None) -> SchemaHistory | None:
    """The history saved with a position, else the one in a file, else None.

    Raises:
        SchemaError: it is damaged.
    """
    if saved is not None and STATE_KEY in saved.state:
        return SchemaHistory.from_state(saved.state[STATE_KEY])
    return None if path is None else read_schema_file(path)
