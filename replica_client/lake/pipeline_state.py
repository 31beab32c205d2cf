"""The state of a pipeline that is stored next to Spark's checkpoint: its id, and where it began.

The id counts the change log's batches; it is bound to the checkpoint, because batch numbers start
again with a new one. The start is resolved once: ``latest`` means the moment of the first run, also
when that run was killed before its first batch.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from replica_client.errors import PositionStoreError
from replica_client.schema.history import SchemaHistory
from replica_client.storage.durable import replace_file

SCHEMA_KEY = "schema"
"""Member of a stream's offset with table definitions that the binlog alone does not have."""

_FILE = "replica-client.json"
_SCHEMA = "replica-client-schema.json"


@dataclass(frozen=True)
class PipelineState:
    """Id of the pipeline, and the source's startingPosition of its first run."""

    pipeline: str
    start: str


def load_state(checkpoint: Path) -> PipelineState | None:
    """Read the state next to a checkpoint; return None when there is none.

    Raises:
        PositionStoreError: the state exists and cannot be read.
    """
    path = checkpoint / _FILE
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return PipelineState(str(value["pipeline"]), str(value["start"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PositionStoreError(
            f"{path} cannot be read ({error}); restore it from a backup"
        ) from None


def create_state(checkpoint: Path, start: str) -> PipelineState:
    """Write the state of a new pipeline, atomically.

    Raises:
        PositionStoreError: the state cannot be written.
    """
    state = PipelineState(uuid.uuid4().hex, start)
    path = checkpoint / _FILE
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(asdict(state)).encode(), mode=0o666)
    except OSError as error:
        raise PositionStoreError(
            f"{path}: {error.strerror}; nothing was started: free space or choose another output"
        ) from None
    return state


def keep_schema(checkpoint: Path, history: SchemaHistory) -> None:
    """Save the definitions of the tables at the start; call it before :func:`create_state`."""
    path = checkpoint / _SCHEMA
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(history.to_json()).encode(), mode=0o666)
    except OSError as error:
        raise PositionStoreError(f"{path}: {error.strerror}") from None


def kept_schema(checkpoint: Path) -> Path | None:
    """Return the path of the file of :func:`keep_schema`; None when there is none."""
    path = checkpoint / _SCHEMA
    return path if path.exists() else None


def read_kept_schema(checkpoint: Path) -> SchemaHistory | None:
    """Read the definitions that :func:`keep_schema` saved; return None when there are none.

    Raises:
        PositionStoreError: the file exists and cannot be read.
    """
    path = kept_schema(checkpoint)
    if path is None:
        return None
    try:
        return SchemaHistory.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise PositionStoreError(
            f"{path} cannot be read ({error}); restore it from a backup"
        ) from None
