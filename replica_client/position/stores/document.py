"""A checkpoint as text, the same in every store.

One JSON object::

    {"format": "replica-client-position", "version": 1,
     "position": {…}, "text": "binlog.000024:1472", "state": {…}}

``position`` is :meth:`Position.to_json`; ``text`` is there for people and not read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from replica_client.errors import PositionFormatError
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint

_FORMAT: Final = "replica-client-position"
_VERSION: Final = 1


def encode_checkpoint(position: Position, state: Mapping[str, object]) -> bytes:
    """The text of a checkpoint, in ASCII, with a line's end."""
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "position": position.to_json(),
        "text": str(position) if len(str(position)) < 1000 else str(position)[:1000] + "…",
        "state": dict(state),
    }
    return json.dumps(document, indent=1).encode("ascii") + b"\n"


def decode_checkpoint(data: bytes | str) -> Checkpoint:
    """The checkpoint of its text.

    Raises:
        PositionFormatError: it is not one.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        what = "it is empty" if not data.strip() else f"it is not JSON ({error})"
        raise PositionFormatError(what) from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise PositionFormatError("it is JSON, but no position file")
    if document.get("version") != _VERSION:
        raise PositionFormatError(
            f"it has version {document.get('version')!r}, this release reads {_VERSION}"
        )
    state = document.get("state", {})
    if not isinstance(state, dict):
        raise PositionFormatError("its state is no object")
    return Checkpoint(Position.from_json(document.get("position")), state)
